// Preloaded before `disk-thread.ts` when waybill runs from source, because threads do not inherit the hooks
// of tsx. Not part of the build.
import { register } from 'tsx/esm/api';

register();
await import('./disk-thread.ts');
