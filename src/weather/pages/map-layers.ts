import type { WeatherService } from '../api/service.ts';
import type { AlertData } from '../records/alerts/alert-queries.ts';
import type { AlertsData } from '../records/alerts/alerts.ts';
import type { ConvectiveOutlookData } from '../records/convective-outlooks.ts';
import type { ObservationData } from '../records/observation-record.ts';
import type { PlaceData } from '../records/places.ts';
import { alertColour, alertRank, outlookColour } from './colours.ts';
import type { MapQuery } from './map-query.ts';
import { isWithin, type MapFrame, type StateOutline, type ZoneShapes } from './map-shapes.ts';
import { outlinePath, type Point, projected } from './projection.ts';
import { dataOf, type Section, sectionOf } from './section.ts';

/** All that the page of the map tells. */
export interface MapContent {
  query: MapQuery;
  now: Date;
  state: StateOutline | null;
  frame: MapFrame;
  /** All of the country or of the state. */
  stations: readonly PlaceData[];
  shown: readonly MapStation[];
  /** Null where no name was looked for. */
  found: readonly PlaceData[] | null;
  alerts: Section<AlertsData>;
  /** When the outlook was issued, and what it is called; null where alerts are shown. */
  outlook: Section<{ day: number; issuedAt: string; validFrom: string; validUntil: string }> | null;
  areas: readonly MapArea[];
  /** Identifiers of alerts of which an outline is known; empty where an outlook is shown. */
  drawnAlerts: readonly string[];
}

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
const maxAge = 180;
const minuteMs = 60_000;

/**
 * Stations that have reported lately, spread over the frame, so that their figures stand apart: of each cell
 * of a grid the one that is best known. Pure.
 */
export function spread(stations: readonly PlaceData[], frame: MapFrame): { place: PlaceData; at: Point }[] {
  const cell = frame.width / columns;
  const chosen = new Map<string, { place: PlaceData; at: Point }>();
  for (const place of stations) {
    if (place.newestAge === null || place.newestAge > maxAge) continue;
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
  return (/^[KP][A-Z]{3}$/.test(id) ? 1000 : 0) - (newestAge ?? maxAge);
}

/** With the newest observation of each, in degrees Celsius. */
export async function observed(
  weather: Pick<WeatherService, 'newestObservations'>,
  stations: readonly { place: PlaceData; at: Point }[],
  now: Date,
): Promise<MapStation[]> {
  const ids = stations.map(({ place }) => place.id);
  const newest = await weather.newestObservations(ids, new Date(now.getTime() - maxAge * minuteMs));
  return stations.map((each) => ({ ...each, observation: newest.get(each.place.id) ?? null }));
}

/** What is drawn in one colour, and its line in the legend. */
interface MapArea {
  label: string;
  colour: string;
  /** Data of an SVG path; empty where nothing of it is on the map. */
  shape: string;
  /** How many alerts; null for what is not counted. */
  count: number | null;
}

/** Alerts by their event, those that take precedence last, so that they lie on top. */
export async function alertAreas(
  alerts: readonly AlertData[],
  zoneShapes: ZoneShapes,
  least: number,
): Promise<{ areas: MapArea[]; drawn: string[] }> {
  const zones = await zoneShapes(
    alerts.flatMap(({ geometry, affectedZones }) => (geometry === null ? affectedZones : [])),
    least,
  );
  const byEvent = new Map<string, { shapes: Set<string>; count: number }>();
  const drawn: string[] = [];
  for (const { id, event, geometry, affectedZones } of alerts) {
    const area = byEvent.get(event) ?? { shapes: new Set(), count: 0 };
    byEvent.set(event, area);
    area.count += 1;
    const shapes =
      geometry === null ? affectedZones.map((key) => zones.get(key) ?? '') : [outlinePath(geometry, least)];
    for (const shape of shapes) area.shapes.add(shape);
    // An outline of its own may be outside of this map.
    if (geometry !== null || (shapes.length > 0 && shapes.every((shape) => shape !== ''))) drawn.push(id);
  }
  const areas = [...byEvent]
    .sort(([a], [b]) => alertRank(b) - alertRank(a) || b.localeCompare(a))
    .map(([event, { shapes, count }]) => ({
      label: event,
      colour: alertColour(event),
      shape: [...shapes].join(''),
      count,
    }));
  return { areas, drawn };
}

/** The categories of an outlook, from the least. */
export function outlookAreas({ areas }: ConvectiveOutlookData, least: number): MapArea[] {
  return areas
    .filter(
      ({ hazard, kind }) => (hazard === 'categorical' || hazard === 'any_severe') && kind !== 'intensity',
    )
    .map(({ label, labelText, fill, geometry }) => ({
      label: labelText ?? label,
      colour: outlookColour({ label, fill }),
      shape: geometry === null ? '' : outlinePath(geometry, least),
      count: null,
    }));
}

export type UnplacedAlert = Pick<AlertData, 'event' | 'areaDescription'>;

const maxAlerts = 500;
const maxLookedAt = 50;
const maxNamed = 5;

/**
 * Names of alerts that may hold at a place, since an outline of theirs is missing; those of its state and
 * those that name no zone come first. Empty if every alert is placed.
 */
export async function unplacedAlerts(
  weather: WeatherService,
  at: Section<AlertsData>,
  { state }: PlaceData,
): Promise<UnplacedAlert[]> {
  if ((dataOf(at)?.unplaced ?? 0) === 0) return [];
  const placed = new Set(dataOf(at)?.alerts.map(({ id }) => id));
  const all = dataOf(await sectionOf(weather, 'alerts', { limit: maxAlerts }))?.alerts ?? [];
  const isNear = ({ zones }: AlertData): boolean =>
    zones.length === 0 || (state !== null && zones.some((zone) => zone.startsWith(state)));
  const near = all
    .filter((each) => (each.geometry === null || has(each, 'UnreadableOutline')) && !placed.has(each.id))
    .sort((a, b) => Number(isNear(b)) - Number(isNear(a)))
    .slice(0, maxLookedAt);
  const outlines = await weather.zoneOutlines(near.flatMap(({ affectedZones }) => affectedZones));
  return near
    .filter(
      (each) =>
        has(each, 'UnreadableUGC') ||
        has(each, 'UnreadableOutline') ||
        each.affectedZones.length === 0 ||
        each.affectedZones.some((key) => !outlines.has(key)),
    )
    .slice(0, maxNamed);
}

function has({ parameters }: AlertData, parameter: string): boolean {
  return parameters.some(({ name }) => name === parameter);
}
