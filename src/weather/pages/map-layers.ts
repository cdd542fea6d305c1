import type { WeatherService } from '../api/service.ts';
import { type AlertData, type AlertsData, type ConvectiveOutlookData } from '../records/family-fields.ts';
import { type ObservationData, type PlaceData } from '../records/observation-fields.ts';
import { alertColour, alertRank, outlookColour } from './colours.ts';
import type { MapQuery } from './map-query.ts';
import { isWithin, type MapFrame, type StateOutline, type ZoneShapes } from './map-shapes.ts';
import { outlinePath, type Point, projected } from './projection.ts';
import { dataOf, type Section, sectionOf } from './section.ts';

/** The content of the map page. */
export interface MapContent {
  query: MapQuery;
  now: Date;
  state: StateOutline | null;
  frame: MapFrame;
  /** All stations in the country or the state. */
  stations: readonly PlaceData[];
  shown: readonly MapStation[];
  /** The stations found, or null if there was no name search. */
  found: readonly PlaceData[] | null;
  alerts: Section<AlertsData>;
  /** The outlook's times and day, or null if the map shows alerts. */
  outlook: Section<{ day: number; issuedAt: string; validFrom: string; validUntil: string }> | null;
  areas: readonly MapArea[];
  /** Ids of alerts with a known outline. Empty if the map shows an outlook. */
  drawnAlerts: readonly string[];
}

/** A station on the map, with its newest observation. */
export interface MapStation {
  place: PlaceData;
  at: Point;
  /** In degrees Celsius if it has a temperature. null if it could not be read. */
  observation: ObservationData | null;
}

/** Number of grid cells across the width of the map. Each cell shows at most one station. */
const columns = 26;
/** In minutes. Older observations do not describe the current weather. */
const maxAge = 180;
const minuteMs = 60_000;

/**
 * Selects the preferred station in each grid cell from those with recent observations. The grid spreads the
 * stations over the frame so that their figures do not overlap.
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
 * Selects stations at least `share` of the map's width apart, so that their figures do not overlap. Preferred
 * stations come first.
 */
export function apart(shown: readonly MapStation[], { width }: MapFrame, share: number): MapStation[] {
  const kept: MapStation[] = [];
  for (const each of [...shown].sort((a, b) => weight(b.place) - weight(a.place)))
    if (kept.every(({ at }) => Math.hypot(at[0] - each.at[0], at[1] - each.at[1]) >= share * width))
      kept.push(each);
  return kept;
}

/**
 * Ranks stations. Airports, which have four-letter ids, come first because they report the most fields, then
 * stations with newer observations.
 */
function weight({ id, newestAge }: PlaceData): number {
  return (/^[KP][A-Z]{3}$/.test(id) ? 1000 : 0) - (newestAge ?? maxAge);
}

/** Adds the newest observation of each station, in degrees Celsius. */
export async function observed(
  weather: Pick<WeatherService, 'newestObservations'>,
  stations: readonly { place: PlaceData; at: Point }[],
  now: Date,
): Promise<MapStation[]> {
  const ids = stations.map(({ place }) => place.id);
  const newest = await weather.newestObservations(ids, new Date(now.getTime() - maxAge * minuteMs));
  return stations.map((each) => ({ ...each, observation: newest.get(each.place.id) ?? null }));
}

/** An area of one color, with its line in the legend. */
interface MapArea {
  label: string;
  colour: string;
  /** SVG path data. Empty if no part of it is on the map. */
  shape: string;
  /** Number of alerts, or null for an outlook. */
  count: number | null;
}

/** Groups alerts by event. Events that take precedence come last, so that they are drawn on top. */
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
    // The alert's own outline may be outside this map.
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

/** Returns an outlook's categories, lowest first. */
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
const maxCandidates = 50;
const maxNamed = 5;

/**
 * Returns the names of alerts that may apply at a place, because one of their outlines is missing or
 * unreadable. Alerts for the place's state and alerts without zones come first. Empty if every alert has all
 * of its outlines.
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
    .slice(0, maxCandidates);
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
