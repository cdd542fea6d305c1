import { familyNames } from '../../../src/weather/families.ts';
import type { Reading } from '../../../src/weather/family.ts';
import type { WeatherReader } from '../../../src/weather/reader.ts';

/**
 * A reader whose reads all do the same, for testing HTTP with answers that a real database does not return
 * on demand.
 */
export function readerThat(read: () => Promise<Reading<object>>): WeatherReader {
  const reads = Object.fromEntries(familyNames.map((name) => [name, read]));
  return {
    ...reads,
    zoneOutlines: () => Promise.resolve(new Map()),
    newestObservations: () => Promise.resolve(new Map()),
    probe: () => Promise.resolve(),
    close: () => Promise.resolve(),
  } as unknown as WeatherReader;
}

export const emptyReader = readerThat(() => Promise.resolve({ data: null, lastModified: null }));
