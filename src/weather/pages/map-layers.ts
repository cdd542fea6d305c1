import type { WeatherService } from '../api/service.ts';
import type { AlertsData } from '../records/family-fields.ts';
import { type ObservationData, type PlaceData } from '../records/observation-fields.ts';
import { converterOf } from '../units.ts';
import { temperatureColour } from './colours.ts';
import { hidesArea, isCrossed, labelPoint, outlinesOf, overlap } from './map-cover.ts';
import {
  around,
  type Box,
  type Dot,
  extremeNamesOf,
  fontPx,
  type LayerLayout,
  liftPx,
  type Name,
  namesOf,
  rounded,
} from './map-names.ts';
import { type MapQuery, stationHref } from './map-query.ts';
import {
  isWithin,
  type MapArea,
  type MapFrame,
  mapSize,
  type Point,
  projected,
  type StateOutline,
} from './map-shapes.ts';
import type { Section } from './section.ts';
import { quantity, skyOf } from './words.ts';

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
    if (!isCurrent(place)) continue;
    const at = projected(place.longitude, place.latitude);
    if (at === null || !isWithin(frame, at)) continue;
    const key = `${Math.floor((at[0] - frame.left) / cell)} ${Math.floor((at[1] - frame.top) / cell)}`;
    const other = chosen.get(key);
    if (other === undefined || weight(place) > weight(other.place)) chosen.set(key, { place, at });
  }
  return [...chosen.values()];
}

/** Reports whether a station's latest observation describes the current weather. */
export function isCurrent({ newestAge }: PlaceData): boolean {
  return newestAge !== null && newestAge <= maxAge;
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

const phone = { apartBy: 0.14, disc: 0.078, scale: 2.6, maxNames: 8, maxNameLength: 14, labelPx: 10 };
const layouts = {
  wide: { apartBy: 0.065, disc: 0.032, scale: 1, maxNames: 30, maxNameLength: 22, labelPx: 12 },
  phone,
  /** A part of the country on a phone has room for larger labels. */
  closer: { ...phone, labelPx: 13 },
} as const satisfies Record<string, LayerLayout>;
/** Returns the stations of the map, their names on the map of a state, and the abbreviations of states. */
export function layerOf(
  content: MapContent,
  size: keyof typeof layouts,
  { land, here }: { land: readonly StateOutline[]; here: string },
): object {
  const { query, frame, state, areas } = content;
  const layout: LayerLayout = layouts[size];
  const scale = (frame.width / mapSize.width) * layout.scale;
  const place = { frame, layout: { ...layout, scale } };
  const all = query.day === null ? dotsOf(content, layout, here) : [];
  const extreme = extremeNamesOf(areas, all, place);
  const radius = (frame.width * layout.disc) / 2;
  const dots = all.filter((dot) => !extreme.some(({ box }) => overlap(box, around(dot, radius))));
  const named = size === 'phone' ? [] : land.filter((one) => hasLabel(one, state));
  const edges = [...areas.map(({ shape }) => shape), state?.coarse ?? ''];
  const outlines = edges.flatMap(outlinesOf);
  const names = state === null ? [] : namesOf(dots, { ...place, outlines, others: extreme });
  return {
    fontSize: rounded(fontPx * scale),
    lift: rounded(liftPx * scale),
    labelSize: rounded(layout.labelPx * scale),
    ...{ dots, names, extreme },
    labels: labelsOf(named, content, {
      px: layout.labelPx * scale,
      taken: takenBy(dots, [...names, ...extreme], radius),
    }),
  };
}

/** The map of a state has its name in the title, and the map of the country names both of its insets. */
function hasLabel({ code }: StateOutline, shown: StateOutline | null): boolean {
  return shown === null ? code !== 'AK' && code !== 'HI' : code !== shown.code;
}

/** Returns the stations to draw. None of them hides the small area of a warning. */
function dotsOf({ shown, frame, areas, query }: MapContent, layout: LayerLayout, here: string): Dot[] {
  const outlines = areas.flatMap(({ shape }) => outlinesOf(shape));
  const radius = (layout.disc * frame.width) / 2;
  return apart(shown, frame, layout.apartBy).flatMap((each) => {
    const at = insideOf(frame, each.at, radius);
    return hidesArea(outlines, [at.x, at.y], radius) ? [] : [{ ...dotOf(each, query, here), ...at }];
  });
}

function dotOf({ place, observation }: MapStation, query: MapQuery, here: string) {
  const celsius = observation?.temperature ?? null;
  const { temperature, units } = converterOf(query.units);
  const exact = celsius === null ? null : temperature(celsius);
  const converted = exact === null ? null : Math.round(exact);
  const sky = observation === null ? null : skyOf(observation);
  const name = place.name ?? place.id;
  return {
    colour: celsius === null ? '#d5dae0' : temperatureColour(celsius),
    figure: converted === null ? '' : String(converted).replace('-', '−'),
    name,
    title: [name, quantity(converted, units.temperature), sky].filter((part) => part !== null).join(', '),
    href: stationHref(place.id, query, here),
  };
}

/** Moves a dot that the edge of the map would cut off. `radius` is in the units of the frame. */
function insideOf(frame: MapFrame, [x, y]: Point, radius: number) {
  const within = (value: number, from: number, size: number): number =>
    Number(Math.min(Math.max(value, from + radius), from + size - radius).toFixed(1));
  return { x: within(x, frame.left, frame.width), y: within(y, frame.top, frame.height) };
}

/** Reports whether a label of a size is in the frame, with a little space around it. */
function isInside(frame: MapFrame, [x, y]: Point, px: number): boolean {
  return isWithin(frame, [x - px, y - px]) && isWithin(frame, [x + px, y + px]);
}

function takenBy(dots: readonly Dot[], names: readonly Name[], radius: number): Box[] {
  return [...dots.map((dot) => around(dot, radius)), ...names.map(({ box }) => box)];
}

/** Returns the abbreviations of states, where they fit and hide nothing, and preferably on no edge. */
function labelsOf(
  land: readonly StateOutline[],
  { frame, areas, query }: MapContent,
  { px, taken }: { px: number; taken: readonly Box[] },
): object[] {
  const size = [px * 0.75, px * 0.45] as const;
  const outlines = areas.flatMap(({ shape }) => outlinesOf(shape));
  const alerts = query.day === null ? outlines : [];
  return land.flatMap((state) => {
    const boxAt = ([x, y]: Point): Box => [x - size[0], y - size[1], x + size[0], y + size[1]];
    const isFree = (at: Point): boolean =>
      isInside(frame, at, px) && !taken.some((box) => overlap(box, boxAt(at))) && !hidesArea(alerts, at, px);
    const isClear = (at: Point): boolean => isFree(at) && !isCrossed(outlines, boxAt(at));
    const at = labelPoint(state, size, isClear) ?? labelPoint(state, size, isFree);
    return at === null ? [] : [{ text: state.code, x: rounded(at[0]), y: rounded(at[1] + px * 0.36) }];
  });
}
