import type { Nearby, PlaceIndex } from './place-index.ts';
import type { Position } from './position.ts';

/** The point that is asked for, and how far the answer may be from it. */
export interface Around {
  point: Position;
  radiusKm: number;
}

export function aroundOf(point: Position | null, radiusKm: number): Around | null {
  return point === null ? null : { point, radiusKm };
}

/** How many places are asked at once: nearly always one of the nearest has something. */
const batches = [10, 100, Infinity];

/**
 * Up to `most` of the nearest places that have something to say, the nearest first. `having` picks them out
 * of some places' identifiers.
 */
export async function nearestHaving(
  index: PlaceIndex,
  { point, radiusKm }: Around,
  { most, having }: { most: number; having: (ids: readonly string[]) => Promise<ReadonlySet<string>> },
): Promise<Nearby[]> {
  const found: Nearby[] = [];
  let asked = 0;
  for (const batch of batches) {
    const near = index.nearest(point, { most: batch, withinKm: radiusKm });
    const next = near.slice(asked);
    if (next.length === 0) break;
    const ids = await having(next.map(({ place }) => place.id));
    found.push(...next.filter(({ place }) => ids.has(place.id)));
    asked = near.length;
    if (found.length >= most || near.length < batch) break;
  }
  return found.slice(0, most);
}
