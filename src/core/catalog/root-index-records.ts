import type { OutputRecord } from './catalog.ts';

/** The name of what makes the index of a destination's root, as its records have it. */
export const rootIndexGenerator = 'root_index';

/** Whether the output lists what else is published at the destination, and is no part of a bundle. Pure. */
export function isOfRootIndex({ generated }: Pick<OutputRecord, 'generated'>): boolean {
  return generated.generator?.name === rootIndexGenerator;
}
