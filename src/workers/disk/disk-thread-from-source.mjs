// Threads do not inherit the hooks of tsx. This file is preloaded before `disk-thread.ts` when waybill runs
// from source, and is not part of the build.
import { register } from 'tsx/esm/api';

register();
await import('./disk-thread.ts');
