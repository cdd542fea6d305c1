import { archiveGenerator } from './archive.ts';
import { checksumsGenerator } from './checksums.ts';
import type { Generator } from './generator.ts';
import { indexGenerator } from './index-page.ts';
import { sceneMapPageGenerator } from './scene-map-page.ts';

/** In this order: each sees those before it as siblings, so that the checksums cover all the others. */
export const generators: readonly Generator[] = [
  archiveGenerator,
  sceneMapPageGenerator,
  indexGenerator,
  checksumsGenerator,
];
