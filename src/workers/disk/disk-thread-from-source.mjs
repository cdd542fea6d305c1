// Threads don't inherit the hooks of tsx. This file is preloaded before `disk-thread.ts` when waybill runs
// from source, and isn't part of the build.
import { register } from 'tsx/esm/api';

register();
await import('./disk-thread.ts');
