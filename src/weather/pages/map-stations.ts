import type { PlaceData } from '../records/places.ts';
import type { ObservationData } from '../observation-record.ts';
import type { WeatherService } from '../api/service.ts';
import { projected, type Point } from './projection.ts';
import { isWithin, type MapFrame } from './states.ts';

/** A station of the map, and the newest that it has reported. */
export interface MapStation {
  place: PlaceData;
  at: Point;
  /** Null: it could not be read. In degrees Celsius where it has a temperature. */
  observation: ObservationData | null;
}

/** What stations stand in at most one of: so many to the width of the map. */
const columns = 26;
/** Minutes; what is older tells nothing of the present. */
const mostAge = 180;
const minuteMs = 60_000;

/**
 * Stations that have reported lately, spread over the frame, so that their figures stand apart: of each cell
 * of a grid the one that is best known. Pure.
 */
export function spread(stations: readonly PlaceData[], frame: MapFrame): { place: PlaceData; at: Point }[] {
  const cell = frame.width / columns;
  const chosen = new Map<string, { place: PlaceData; at: Point }>();
  for (const place of stations) {
    if (place.newestAge === null || place.newestAge > mostAge) continue;
    const at = projected(place.longitude, place.latitude);
    if (at === null || !isWithin(frame, at)) continue;
    const key = `${Math.floor((at[0] - frame.left) / cell)} ${Math.floor((at[1] - frame.top) / cell)}`;
    const other = chosen.get(key);
    if (other === undefined || weight(place) > weight(other.place)) chosen.set(key, { place, at });
  }
  return [...chosen.values()];
}

/**
 * Stations that are at least `share` of the width of the map apart, so that their figures do not cover each
 * other: the best known first. Pure.
 */
export function apart(shown: readonly MapStation[], { width }: MapFrame, share: number): MapStation[] {
  const kept: MapStation[] = [];
  for (const each of [...shown].sort((a, b) => weight(b.place) - weight(a.place)))
    if (kept.every(({ at }) => Math.hypot(at[0] - each.at[0], at[1] - each.at[1]) >= share * width))
      kept.push(each);
  return kept;
}

/** Airports, which have four letters, report most; then what is newer. */
function weight({ id, newestAge }: PlaceData): number {
  return (/^[KP][A-Z]{3}$/.test(id) ? 1000 : 0) - (newestAge ?? mostAge);
}

/** With the newest observation of each, in degrees Celsius. */
export async function observed(
  weather: Pick<WeatherService, 'newestObservations'>,
  stations: readonly { place: PlaceData; at: Point }[],
  now: Date,
): Promise<MapStation[]> {
  const ids = stations.map(({ place }) => place.id);
  const newest = await weather.newestObservations(ids, new Date(now.getTime() - mostAge * minuteMs));
  return stations.map((each) => ({ ...each, observation: newest.get(each.place.id) ?? null }));
}
