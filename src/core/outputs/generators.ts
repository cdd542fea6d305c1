import { archiveGenerator } from './archive.ts';
import { checksumsGenerator } from './checksums.ts';
import type { Generator } from './generator.ts';
import { indexGenerator } from './index-page.ts';
import { sceneMapPageGenerator } from './scene-map-page.ts';

/** Each generator sees the outputs of those before it, so that the checksums cover all others. */
export const generators: readonly Generator[] = [
  archiveGenerator,
  sceneMapPageGenerator,
  indexGenerator,
  checksumsGenerator,
];
