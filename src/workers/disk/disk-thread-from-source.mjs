// Stands before `disk-thread.ts` when waybill runs from source: threads do not inherit tsx's hooks. It is not
// compiled.
import { register } from 'tsx/esm/api';

register();
await import('./disk-thread.ts');
