import type { OutputRecord } from './catalog.ts';

/** The generator name in the records of a destination's root index. */
export const rootIndexGenerator = 'root_index';

/** Whether the output belongs to the root index of the destination rather than to a bundle. Pure. */
export function isOfRootIndex({ generated }: Pick<OutputRecord, 'generated'>): boolean {
  return generated.generator?.name === rootIndexGenerator;
}
