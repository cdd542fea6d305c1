import { bearing } from '@turf/bearing';
import { distance } from '@turf/distance';
import { around } from 'geokdbush';
import KDBush from 'kdbush';
import { type Box, partsOf, type Position } from './position.ts';

/** A station, forecast grid cell or office, for searching by location. */
export interface Place extends Position {
  id: string;
  name: string | null;
  elevationM: number | null;
  timeZone: string | null;
  /** The two-letter code of the state. */
  state: string | null;
}

/** A place, and how far away it is in which direction. */
export interface Nearby {
  place: Place;
  /** The great-circle distance in kilometers, on a sphere with the Earth's mean radius. */
  distanceKm: number;
  /** The direction from the point to the place, in degrees clockwise from north. Less than 360. */
  bearingDeg: number;
}

/** Conditions for a search. Null conditions are ignored. */
interface PlaceFilter {
  box: Box | null;
  state: string | null;
  words: string | null;
}

/**
 * Searches tens of thousands of places without checking each of them. Cannot be changed once it has been
 * built.
 */
export interface PlaceIndex {
  get(id: string): Place | undefined;
  /** Returns the places that meet all conditions, sorted by id. */
  matching(filter: PlaceFilter): readonly Place[];
  /**
   * Returns the nearest places within `withinKm`, but no more than `limit`. Nearer ones come first. If the
   * distance is the same, they are sorted by id.
   */
  nearest(
    from: Position,
    options: { limit: number; withinKm: number; among?: readonly Place[] | undefined },
  ): readonly Nearby[];
}

/** A little more than half the Earth's circumference. No place is farther away than this. */
const halfwayRoundKm = 20_015.12;
/** Large enough to cover rounding errors, but insignificant on the ground. */
const toleranceKm = 1e-6;

/** Builds an index. If an id occurs more than once, the last place with it is used. */
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
      // Also look at places that are just as far away as the last one. Otherwise, the structure of the tree
      // would decide which of them is included.
      const reachKm = kilometres(from, sorted[far] as Place) + toleranceKm;
      return search(Infinity, reachKm)
        .map((index) => nearby(from, sorted[index] as Place))
        .filter(({ distanceKm }) => distanceKm <= withinKm)
        .sort((a, b) => inMillimetres(a) - inMillimetres(b) || (a.place.id < b.place.id ? -1 : 1))
        .slice(0, limit);
    },
  };
}

/**
 * Rounds distances, to keep rounding errors from affecting the order. They occur at a pole, for example,
 * which has many longitudes.
 */
function inMillimetres({ distanceKm }: Nearby): number {
  return Math.round(distanceKm * 1e6);
}

/** Returns how far away a place is and in which direction. */
function nearby(from: Position, place: Place): Nearby {
  const degrees = bearing(pair(from), pair(place));
  return { place, distanceKm: kilometres(from, place), bearingDeg: (degrees + 360) % 360 };
}

function kilometres(from: Position, to: Position): number {
  const found = distance(pair(from), pair(to), { units: 'kilometers' });
  // For points on opposite sides of the Earth, a rounding error can lead to the square root of a negative
  // number.
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
 * Splits text into lowercase words without accents. Anything other than letters and digits separates words.
 */
function wordsOf(text: string): string[] {
  return text
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== '');
}

/** The area to search: a point and the maximum distance from it. */
export interface SearchArea {
  point: Position;
  radiusKm: number;
}

export function searchAreaOf(point: Position | null, radiusKm: number): SearchArea | null {
  return point === null ? null : { point, radiusKm };
}

/** The number of nearest places to check in each query. One of the first ten almost always has data. */
const batches = [10, 100, Infinity];

/**
 * Returns the nearest places that have data, up to `limit`. `having` checks which of the places in a list
 * have any.
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
