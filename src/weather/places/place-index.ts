import { bearing } from '@turf/bearing';
import { distance } from '@turf/distance';
import { around } from 'geokdbush';
import KDBush from 'kdbush';
import { type Box, partsOf, type Position } from './position.ts';

/** A station, grid cell or office that can be searched by location. */
export interface Place extends Position {
  id: string;
  name: string | null;
  elevationM: number | null;
  timeZone: string | null;
  /** Two letters. */
  state: string | null;
}

/** A place, with its distance and bearing from a point. */
export interface Nearby {
  place: Place;
  /** Great-circle distance in kilometers, on a sphere with Earth's mean radius. */
  distanceKm: number;
  /** Bearing from the point to the place, in degrees clockwise from north, from 0 to less than 360. */
  bearingDeg: number;
}

/** Conditions that a place must meet. A null condition is ignored. */
interface PlaceFilter {
  box: Box | null;
  state: string | null;
  words: string | null;
}

/** Finds places among tens of thousands without examining each one. Immutable once built. */
export interface PlaceIndex {
  /** Returns the place with this identifier. */
  get(id: string): Place | undefined;
  /** Returns the matching places, sorted by identifier. */
  matching(filter: PlaceFilter): readonly Place[];
  /**
   * Returns up to `limit` places that are at most `withinKm` away, ordered by distance, then by identifier.
   */
  nearest(
    from: Position,
    options: { limit: number; withinKm: number; among?: readonly Place[] | undefined },
  ): readonly Nearby[];
}

/** Slightly more than half of Earth's circumference, so that no place is farther away. */
const halfwayRoundKm = 20_015.12;
/** More than the rounding error of a distance, yet negligible on the ground. */
const toleranceKm = 1e-6;

/** Builds an index. If several places have the same identifier, the last one counts. */
export function placeIndex(places: readonly Place[]): PlaceIndex {
  const byId = new Map(places.map((place) => [place.id, place]));
  const sorted = [...byId.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  const tree = new KDBush(sorted.length);
  for (const { longitude, latitude } of sorted) tree.add(longitude, latitude);
  tree.finish();
  return {
    get: (id) => byId.get(id),
    matching: (filter) => matching(sorted, tree, filter),
    nearest: (from, { limit, withinKm, among }) => {
      const isAmong = among === undefined ? undefined : new Set(among);
      const accepts =
        isAmong === undefined ? undefined : (index: number) => isAmong.has(sorted[index] as Place);
      const search = (count: number, reachKm: number): number[] =>
        sorted.length === 0 || limit === 0
          ? []
          : around(tree, from.longitude, from.latitude, count, Math.min(reachKm, halfwayRoundKm), accepts);
      const far = search(limit, withinKm + toleranceKm).at(-1);
      if (far === undefined) return [];
      // Includes places as far away as the last one, so that the order of equals does not depend on the tree.
      const reachKm = kilometres(from, sorted[far] as Place) + toleranceKm;
      return search(Infinity, reachKm)
        .map((index) => nearby(from, sorted[index] as Place))
        .filter(({ distanceKm }) => distanceKm <= withinKm)
        .sort((a, b) => inMillimetres(a) - inMillimetres(b) || (a.place.id < b.place.id ? -1 : 1))
        .slice(0, limit);
    },
  };
}

/** Distances that differ only by rounding count as equal, because a pole has many longitudes. */
function inMillimetres({ distanceKm }: Nearby): number {
  return Math.round(distanceKm * 1e6);
}

/** Returns a place's distance and bearing from a point. */
function nearby(from: Position, place: Place): Nearby {
  const degrees = bearing(pair(from), pair(place));
  return { place, distanceKm: kilometres(from, place), bearingDeg: (degrees + 360) % 360 };
}

function kilometres(from: Position, to: Position): number {
  const found = distance(pair(from), pair(to), { units: 'kilometers' });
  // For opposite points, rounding can make the argument of the square root negative.
  return Number.isNaN(found) ? halfwayRoundKm : found;
}

function pair({ longitude, latitude }: Position): [number, number] {
  return [longitude, latitude];
}

function matching(
  sorted: readonly Place[],
  tree: KDBush,
  { box, state, words }: PlaceFilter,
): readonly Place[] {
  const within =
    box === null || sorted.length === 0
      ? sorted
      : [
          ...new Set(
            partsOf(box).flatMap(({ west, south, east, north }) => tree.range(west, south, east, north)),
          ),
        ]
          .sort((a, b) => a - b)
          .map((index) => sorted[index] as Place);
  const wanted = wordsOf(words ?? '');
  return within.filter(
    (place) =>
      (state === null || place.state === state) &&
      (wanted.length === 0 || hasAll(wordsOf(`${place.id} ${place.name ?? ''}`), wanted)),
  );
}

function hasAll(words: readonly string[], wanted: readonly string[]): boolean {
  return wanted.every((start) => words.some((word) => word.startsWith(start)));
}

/**
 * Splits text into lowercase words without accents, separated by any characters other than letters and
 * digits.
 */
function wordsOf(text: string): string[] {
  return text
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== '');
}

/** The requested point, and how far from it the answer may be. */
export interface SearchArea {
  point: Position;
  radiusKm: number;
}

export function searchAreaOf(point: Position | null, radiusKm: number): SearchArea | null {
  return point === null ? null : { point, radiusKm };
}

/** Number of places to try in one query. Nearly always, one of the nearest places has data. */
const batches = [10, 100, Infinity];

/**
 * Returns up to `limit` of the nearest places that have data, nearest first. `having` selects those places
 * from a list of identifiers.
 */
export async function nearestHaving(
  index: PlaceIndex,
  { point, radiusKm }: SearchArea,
  { limit, having }: { limit: number; having: (ids: readonly string[]) => Promise<ReadonlySet<string>> },
): Promise<Nearby[]> {
  const found: Nearby[] = [];
  let asked = 0;
  for (const batch of batches) {
    const near = index.nearest(point, { limit: batch, withinKm: radiusKm });
    const next = near.slice(asked);
    if (next.length === 0) break;
    const ids = await having(next.map(({ place }) => place.id));
    found.push(...next.filter(({ place }) => ids.has(place.id)));
    asked = near.length;
    if (found.length >= limit || near.length < batch) break;
  }
  return found.slice(0, limit);
}
