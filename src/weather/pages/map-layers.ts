import type { WeatherService } from '../api/service.ts';
import { type AlertData, type AlertsData, type ConvectiveOutlookData } from '../records/family-fields.ts';
import { type ObservationData, type PlaceData } from '../records/observation-fields.ts';
import { alertColour, alertRank, outlookColour, riskLevel, riskName } from './colours.ts';
import type { MapQuery } from './map-query.ts';
import { isWithin, type MapFrame, type StateOutline, states, type ZoneShapes } from './map-shapes.ts';
import { outlinePath, type Point, projected } from './projection.ts';
import { dataOf, type Section, sectionOf } from './section.ts';

/** Everything that the map page shows. */
export interface MapContent {
  query: MapQuery;
  now: Date;
  state: StateOutline | null;
  frame: MapFrame;
  /** All stations in the selected state, or in the whole country. */
  stations: readonly PlaceData[];
  shown: readonly MapStation[];
  /** The latest observations in a state, by the id of their station. Empty for the whole country. */
  observed: ReadonlyMap<string, ObservationData>;
  /** The stations that match the search; null if there is no search. */
  found: readonly PlaceData[] | null;
  alerts: Section<AlertsData>;
  /** The day and times of the outlook; null if the map shows alerts. */
  outlook: Section<{ day: number; issuedAt: string; validFrom: string; validUntil: string }> | null;
  areas: readonly MapArea[];
  /** Ids of the alerts that are drawn on the map. Empty if it shows an outlook. */
  drawnAlerts: readonly string[];
}

/** A station on the map and its latest observation. */
export interface MapStation {
  place: PlaceData;
  at: Point;
  /** In degrees Celsius. null if the observation could not be read. */
  observation: ObservationData | null;
}

/** The number of grid cells from left to right. Each cell shows at most one station. */
const columns = 26;
/** In minutes. Older observations no longer describe the current weather. */
const maxAge = 180;
const minuteMs = 60_000;

/**
 * Selects stations to show on the map. The map is divided into a grid so that the numbers do not overlap, and
 * the best station with a recent observation is selected in each cell.
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
 * Selects stations that are not too close together, so that their numbers do not overlap. The distance is at
 * least `share` of the map's width. The best stations are selected first.
 */
export function apart(shown: readonly MapStation[], { width }: MapFrame, share: number): MapStation[] {
  const kept: MapStation[] = [];
  for (const each of [...shown].sort((a, b) => weight(b.place) - weight(a.place)))
    if (kept.every(({ at }) => Math.hypot(at[0] - each.at[0], at[1] - each.at[1]) >= share * width))
      kept.push(each);
  return kept;
}

/**
 * Returns how useful a station is. Airports, which have four-letter ids, are best because they report the
 * most. Apart from that, the newer the observation, the better. The small maps of Alaska and Hawaii have room
 * for few stations, so theirs come first.
 */
function weight({ id, state, newestAge }: PlaceData): number {
  const isInset = state === 'AK' || state === 'HI';
  return (isInset ? 2000 : 0) + (/^[KP][A-Z]{3}$/.test(id) ? 1000 : 0) - (newestAge ?? maxAge);
}

/** Adds the latest observation of each station, with temperatures in degrees Celsius. */
export async function observed(
  weather: Pick<WeatherService, 'newestObservations'>,
  stations: readonly { place: PlaceData; at: Point }[],
  now: Date,
): Promise<MapStation[]> {
  const ids = stations.map(({ place }) => place.id);
  const newest = await weather.newestObservations(ids, new Date(now.getTime() - maxAge * minuteMs));
  return stations.map((each) => ({ ...each, observation: newest.get(each.place.id) ?? null }));
}

/** Areas with the same color, and their entry in the legend. */
export interface MapArea {
  label: string;
  colour: string;
  /** SVG path data. Empty if no part of the area is on the map. */
  shape: string;
  /** The number of alerts; null for outlooks. */
  count: number | null;
  /** The level of an outlook's category, from 1 to 5; null for any other area. */
  level: number | null;
  /** True for thunderstorms that are not severe, which are drawn faintly. */
  isFaint: boolean;
}

/** Groups alerts by event. The most important ones come last, because they are drawn on top. */
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
    // An alert with its own outline counts as drawn even if it is not on this map.
    if (geometry !== null || (shapes.length > 0 && shapes.every((shape) => shape !== ''))) drawn.push(id);
  }
  const areas = [...byEvent]
    .sort(([a], [b]) => alertRank(b) - alertRank(a) || b.localeCompare(a))
    .map(([event, { shapes, count }]) => ({
      label: event,
      colour: alertColour(event),
      shape: [...shapes].join(''),
      ...{ count, level: null, isFaint: false },
    }));
  return { areas, drawn };
}

/** Returns the areas of an outlook, starting with the lowest category. */
export function outlookAreas({ areas }: ConvectiveOutlookData, least: number): MapArea[] {
  return areas
    .filter(
      ({ hazard, kind }) => (hazard === 'categorical' || hazard === 'any_severe') && kind !== 'intensity',
    )
    .map(({ label, labelText, fill, geometry }) => ({
      label: riskName(label, labelText),
      colour: outlookColour({ label, fill }),
      shape: geometry === null ? '' : outlinePath(geometry, least),
      ...{ count: null, level: riskLevel(label), isFaint: label === 'TSTM' },
    }));
}

export type UnplacedAlert = Pick<AlertData, 'event' | 'areaDescription'>;

const maxAlerts = 500;
const maxCandidates = 50;
const maxNamed = 5;

/** Alerts without a known place. */
export interface Unplaced {
  /** Those that might apply to a station. Only some of them if there are many. */
  near: readonly UnplacedAlert[];
  /** The number of those that cannot apply to it, because all their zones are in other states. */
  elsewhere: number;
}

/** Returns alerts that have no place because some of their outlines are missing or cannot be read. */
export async function unplacedAlerts(
  weather: WeatherService,
  at: Section<AlertsData>,
  { state }: PlaceData,
): Promise<Unplaced> {
  if ((dataOf(at)?.unplaced ?? 0) === 0) return { near: [], elsewhere: 0 };
  const placed = new Set(dataOf(at)?.alerts.map(({ id }) => id));
  const all = dataOf(await sectionOf(weather, 'alerts', { limit: maxAlerts }))?.alerts ?? [];
  const candidates = all.filter(
    (each) => (each.geometry === null || has(each, 'UnreadableOutline')) && !placed.has(each.id),
  );
  const near = candidates.filter((each) => !isElsewhere(each, state)).slice(0, maxCandidates);
  const far = candidates.filter((each) => isElsewhere(each, state)).slice(0, maxCandidates);
  const outlines = await weather.zoneOutlines([...near, ...far].flatMap((each) => each.affectedZones));
  const isUnplaced = (each: AlertData): boolean =>
    has(each, 'UnreadableUGC') ||
    has(each, 'UnreadableOutline') ||
    each.affectedZones.length === 0 ||
    each.affectedZones.some((key) => !outlines.has(key));
  return { near: near.filter(isUnplaced).slice(0, maxNamed), elsewhere: far.filter(isUnplaced).length };
}

/** Reports whether all zones of an alert are in states other than that of the station. */
function isElsewhere(alert: AlertData, state: string | null): boolean {
  const codes = new Set(states().map(({ code }) => code));
  if (state === null || !codes.has(state) || alert.zones.length === 0 || has(alert, 'UnreadableUGC'))
    return false;
  return alert.zones.map((zone) => zone.slice(0, 2)).every((code) => codes.has(code) && code !== state);
}

function has({ parameters }: AlertData, parameter: string): boolean {
  return parameters.some(({ name }) => name === parameter);
}
