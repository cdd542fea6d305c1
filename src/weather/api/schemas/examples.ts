import { readFileSync } from 'node:fs';
import type { FamilyName } from '../../families.ts';

/** A real answer of each family, its lists and texts cut short (`schemas/weather-examples.json`). */
export function weatherExamples(): Readonly<Record<FamilyName, unknown>> {
  const file = new URL('../../../../schemas/weather-examples.json', import.meta.url);
  return JSON.parse(readFileSync(file, 'utf8')) as Record<FamilyName, unknown>;
}
