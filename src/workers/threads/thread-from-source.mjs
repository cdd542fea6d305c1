// Threads do not inherit the hooks of tsx. This file is preloaded before `thread.ts` when waybill runs from
// source, and is not part of the build.
import { register } from 'tsx/esm/api';

register();
export const { inspections, publish, releases, sceneMaps } = await import('./thread.ts');
