// Stands before `thread.ts` when waybill runs from source, as its tests do: threads do not inherit tsx's
// hooks. It is not compiled.
import { register } from 'tsx/esm/api';

register();
export const { publish, releases, looks, sceneMaps } = await import('./thread.ts');
