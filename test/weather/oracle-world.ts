import type { WritableDatabase } from '../../src/weather/feed/tables/upsert.ts';
import type { Rings } from './brute-force.ts';

/** A database with random weather all over the Earth, over ten days. */
export interface World {
  stations: StationRow[];
  observations: ObservationRow[];
  locations: PlaceRow[];
  runs: RunRow[];
  periods: PeriodRow[];
  zones: { ugc: string; name: string; geometry: unknown; polygons: readonly Rings[] }[];
  alerts: AlertRow[];
  polls: { run_id: number; fetched_at: string; members: string[] }[];
  outlooks: OutlookRow[];
}

export interface PlaceRow {
  id: string;
  name: string;
  latitude_deg: number;
  longitude_deg: number;
  time_zone: string;
  state: string;
}
export interface StationRow extends PlaceRow {
  station_id: string;
  elevation_m: number;
}
export type Measured = Record<(typeof measured)[number], number | null>;
export interface ObservationRow extends Measured {
  station_id: string;
  observed_at: string;
}
export interface RunRow {
  run_id: number;
  kind: 'hourly' | 'narrative';
  location_id: string;
  generated_at: string;
  valid_from: string;
  valid_until: string;
}
export interface PeriodRow {
  run_id: number;
  number: number;
  starts_at: string;
  ends_at: string;
  temperature_c: number | null;
  precipitation_probability_pct: number | null;
  wind_speed_max_kmh: number | null;
  short_forecast: string;
}
export interface AlertRow {
  alert_id: string;
  sent_at: string;
  expires_at: string;
  ends_at: string | null;
  severity: string;
  event: string;
  geometry: unknown;
  polygons: readonly Rings[];
  ugcs: string[];
}
export interface OutlookRow {
  run_id: number;
  day: number;
  issued_at: string;
  areas: {
    hazard: string;
    label: string;
    kind: string;
    rank: number;
    probability_pct: number | null;
    geometry: unknown;
    polygons: readonly Rings[];
  }[];
}

export const measured = [
  'temperature_c',
  'dewpoint_c',
  'relative_humidity_pct',
  'wind_direction_deg',
  'wind_speed_kmh',
  'wind_gust_kmh',
  'altimeter_pa',
  'sea_level_pressure_pa',
  'visibility_m',
  'temperature_max_24h_c',
  'temperature_min_24h_c',
  'precipitation_1h_mm',
  'precipitation_3h_mm',
  'precipitation_6h_mm',
  'heat_index_c',
  'wind_chill_c',
] as const;

export const begin = Date.parse('2026-03-01T00:00:00Z');
export const days = 10;
const hourMs = 3_600_000;
const severities = ['Extreme', 'Severe', 'Moderate', 'Minor', 'Unknown'];

export interface Draw {
  /** From 0 to below 1. */
  random: () => number;
  between: (least: number, most: number) => number;
  whole: (least: number, most: number) => number;
  oneOf: <T>(items: readonly T[]) => T;
}

export function drawFrom(random: () => number): Draw {
  const between = (least: number, most: number): number => least + random() * (most - least);
  const whole = (least: number, most: number): number => Math.floor(between(least, most + 1));
  return { random, between, whole, oneOf: (items) => items[whole(0, items.length - 1)] as never };
}

/** Everywhere. A third of them are where maps break, at the poles and at the antimeridian. */
export function anywhere({ random, between, oneOf }: Draw): { latitude: number; longitude: number } {
  const degrees = (value: number): number => Math.round(value * 1e4) / 1e4;
  const kind = random();
  if (kind < 0.05) return { latitude: oneOf([-90, 90]), longitude: degrees(between(-180, 180)) };
  if (kind < 0.15)
    return { latitude: degrees(oneOf([-1, 1]) * between(85, 90)), longitude: degrees(between(-180, 180)) };
  if (kind < 0.2) return { latitude: degrees(between(-90, 90)), longitude: oneOf([-180, 180]) };
  if (kind < 0.35)
    return { latitude: degrees(between(-80, 80)), longitude: degrees(oneOf([-1, 1]) * between(175, 180)) };
  if (kind < 0.7) return { latitude: degrees(between(25, 50)), longitude: degrees(between(-125, -66)) };
  const latitude = (Math.asin(between(-1, 1)) * 180) / Math.PI;
  return { latitude: degrees(latitude), longitude: degrees(between(-180, 180)) };
}

export function momentIn({ whole }: Draw, from = 0, to: number = days * 24 * 60): string {
  return new Date(begin + whole(from, to) * 60_000).toISOString();
}

export function newWorld(draw: Draw): World {
  const { whole, oneOf, random } = draw;
  const stations = Array.from({ length: 1500 }, (_, n) => stationRow(draw, n));
  // Two at the same place.
  for (let n = 0; n < 100; n += 1) {
    const { latitude_deg, longitude_deg } = oneOf(stations);
    Object.assign(oneOf(stations), { latitude_deg, longitude_deg });
  }
  const observations = stations.flatMap(({ station_id }) =>
    [...new Set(Array.from({ length: whole(0, 12) }, () => momentIn(draw)))].map((observed_at) =>
      observationRow(draw, station_id, observed_at),
    ),
  );
  const locations = Array.from({ length: 300 }, (_, n) => placeRow(draw, `LOC/${n},${n}`, n));
  const runs = locations.flatMap(({ id }) => runRows(draw, id)).map((run, n) => ({ ...run, run_id: n + 1 }));
  const zones = Array.from({ length: 120 }, (_, n) => ({
    ugc: `ZZZ${String(n).padStart(3, '0')}`,
    name: `zone ${n}`,
    ...outline(draw),
  }));
  const alerts = Array.from({ length: 400 }, (_, n) => alertRow(draw, n));
  const polls = Array.from({ length: 60 }, (_, n) => ({
    run_id: n + 1,
    fetched_at: momentIn(draw),
    members: alerts.filter(() => random() < 0.4).map(({ alert_id }) => alert_id),
  }));
  const outlooks = Array.from({ length: 40 }, (_, n) => outlookRow(draw, n + 1));
  const periods = runs.flatMap((run) => periodRows(draw, run));
  return { stations, observations, locations, runs, periods, zones, alerts, polls, outlooks };
}

function placeRow(draw: Draw, id: string, n: number): PlaceRow {
  const { latitude, longitude } = anywhere(draw);
  const name = `${draw.oneOf(['North', 'South', 'Old'])} ${draw.oneOf(['Field', 'Hill', 'Bay'])} ${n}`;
  const state = draw.oneOf(['NY', 'AK', 'TX', 'WA']);
  return { id, name, latitude_deg: latitude, longitude_deg: longitude, time_zone: 'UTC', state };
}

function stationRow(draw: Draw, n: number): StationRow {
  const station_id = `S${String(n).padStart(4, '0')}`;
  return { ...placeRow(draw, station_id, n), station_id, elevation_m: draw.whole(-100, 4000) + 0.3 };
}

function observationRow(draw: Draw, station_id: string, observed_at: string): ObservationRow {
  const { whole, random } = draw;
  const isSilent = random() < 0.15;
  const some = (value: number): number | null => (isSilent || random() < 0.25 ? null : value);
  const tenths = (least: number, most: number): number => whole(least * 10, most * 10) / 10;
  const temperature = tenths(-40, 45);
  return {
    station_id,
    observed_at,
    temperature_c: some(temperature),
    dewpoint_c: some(Math.round(temperature * 10 - whole(0, 200)) / 10),
    relative_humidity_pct: some(whole(1, 100)),
    wind_direction_deg: some(whole(1, 360)),
    wind_speed_kmh: some(tenths(0.1, 90)),
    wind_gust_kmh: some(tenths(90.1, 200)),
    altimeter_pa: some(whole(95_000, 104_000)),
    sea_level_pressure_pa: some(whole(95_000, 104_000)),
    visibility_m: some(whole(0, 16_000)),
    temperature_max_24h_c: some(tenths(0, 45)),
    temperature_min_24h_c: some(tenths(-40, 0)),
    precipitation_1h_mm: some(tenths(0, 30)),
    precipitation_3h_mm: some(tenths(0, 60)),
    precipitation_6h_mm: some(tenths(0, 90)),
    heat_index_c: some(temperature),
    wind_chill_c: some(temperature),
  };
}

function runRows(draw: Draw, location_id: string): Omit<RunRow, 'run_id'>[] {
  return (['hourly', 'narrative'] as const).flatMap((kind) => {
    const times = new Set(Array.from({ length: draw.whole(0, 3) }, () => momentIn(draw)));
    return [...times].map((generated_at) => {
      const first = Math.floor(Date.parse(generated_at) / hourMs) * hourMs;
      const valid_until = new Date(first + 24 * hourMs).toISOString();
      return { kind, location_id, generated_at, valid_from: new Date(first).toISOString(), valid_until };
    });
  });
}

function periodRows({ whole, random }: Draw, { run_id, kind, valid_from }: RunRow): PeriodRow[] {
  const [count, hours] = kind === 'hourly' ? [24, 1] : [2, 12];
  const some = (value: number): number | null => (random() < 0.2 ? null : value);
  return Array.from({ length: count }, (_, n) => ({
    run_id,
    number: n + 1,
    starts_at: new Date(Date.parse(valid_from) + n * hours * hourMs).toISOString(),
    ends_at: new Date(Date.parse(valid_from) + (n + 1) * hours * hourMs).toISOString(),
    temperature_c: some(whole(-400, 450) / 10),
    precipitation_probability_pct: some(whole(0, 100)),
    wind_speed_max_kmh: some(whole(0, 900) / 10),
    short_forecast: `period ${n + 1} of ${run_id}`,
  }));
}

function alertRow(draw: Draw, n: number): AlertRow {
  const { random, whole, oneOf } = draw;
  const sent_at = momentIn(draw);
  const after = (minutes: number): string => new Date(Date.parse(sent_at) + minutes * 60_000).toISOString();
  const isOutlined = random() < 0.6;
  return {
    alert_id: `urn:alert:${String(n).padStart(4, '0')}`,
    sent_at,
    expires_at: after(whole(30, 3000)),
    ends_at: random() < 0.3 ? null : after(whole(30, 6000)),
    severity: oneOf(severities),
    event: oneOf(['Flood Warning', 'Wind Advisory', 'Winter Storm Watch']),
    ...(isOutlined ? outline(draw) : { geometry: null, polygons: [] }),
    // Some of the zones have no outline here.
    ugcs: [
      ...new Set(Array.from({ length: whole(0, 3) }, () => `ZZZ${String(whole(0, 139)).padStart(3, '0')}`)),
    ],
  };
}

function outlookRow(draw: Draw, run_id: number): OutlookRow {
  const center = { latitude: draw.between(32, 44), longitude: draw.between(-110, -80) };
  const levels: [string, string, string, number, number | null][] = [
    ['categorical', 'TSTM', 'category', 2, null],
    ['categorical', 'MRGL', 'category', 3, null],
    ['categorical', 'SLGT', 'category', 4, null],
    ['tornado', '0.02', 'probability', 1, 2],
    ['tornado', '0.05', 'probability', 2, 5],
    ['tornado', 'CIG1', 'intensity', 1, null],
    ['hail', '0.05', 'probability', 1, 5],
  ];
  const areas = levels.flatMap(([hazard, label, kind, rank, probability_pct]) => {
    if (draw.random() < 0.2) return [];
    const rings = star(draw, center, 16 / (rank + 1), draw.random() < 0.3);
    const geometry = { type: 'Polygon', coordinates: rings };
    return [{ hazard, label, kind, rank, probability_pct, geometry, polygons: [rings] }];
  });
  return { run_id, day: draw.oneOf([1, 4]), issued_at: momentIn(draw), areas };
}

/** A polygon somewhere, some with a hole, or one on both sides of the antimeridian, or around a pole. */
export function outline(draw: Draw): { geometry: unknown; polygons: readonly Rings[] } {
  const { random, between, oneOf } = draw;
  const kind = random();
  if (kind < 0.15) {
    const [south, north] = [between(-80, 60), between(61, 80)];
    const polygons = [
      [box(180 - between(1, 20), south, 180, north)],
      [box(-180, south, -180 + between(1, 20), north)],
    ];
    return { geometry: { type: 'MultiPolygon', coordinates: polygons }, polygons };
  }
  if (kind < 0.25) {
    const pole = oneOf([-90, 90]);
    const edge = pole > 0 ? between(60, 85) : -between(60, 85);
    const rings = [box(-180, Math.min(edge, pole), 180, Math.max(edge, pole))];
    return { geometry: { type: 'Polygon', coordinates: rings }, polygons: [rings] };
  }
  const { latitude, longitude } = anywhere(draw);
  const center = { latitude: latitude * 0.8, longitude: longitude * 0.9 };
  const rings = star(draw, center, between(0.2, 15), random() < 0.3);
  return { geometry: { type: 'Polygon', coordinates: rings }, polygons: [rings] };
}

function box(west: number, south: number, east: number, north: number): [number, number][] {
  return [
    [west, south],
    [east, south],
    [east, north],
    [west, north],
    [west, south],
  ];
}

/** Corners in the order of their angle, so that no edges cross. */
function star(
  { whole, between }: Draw,
  { latitude, longitude }: { latitude: number; longitude: number },
  size: number,
  hasHole: boolean,
): Rings {
  const corners = whole(4, 9);
  const ring = (scale: number): [number, number][] => {
    const points = Array.from({ length: corners }, (_, n): [number, number] => {
      const angle = (n / corners) * 2 * Math.PI;
      const far = size * scale * between(0.5, 1);
      return [longitude + far * Math.cos(angle), latitude + far * Math.sin(angle)];
    });
    return [...points, points[0] as [number, number]];
  };
  // The hole is inside of every side, because the corners are at half of the size at least.
  return hasHole ? [ring(1), ring(0.2)] : [ring(1)];
}

export async function load(target: WritableDatabase, world: World): Promise<void> {
  const at = new Date(begin).toISOString();
  const insert = (table: string, rows: readonly object[]): Promise<unknown> =>
    target.query(
      `insert into ${table} select * from jsonb_populate_recordset(null::${table}, $1::text::jsonb)`,
      [JSON.stringify(rows)],
    );
  await insert('stations', world.stations);
  await insert(
    'observations',
    world.observations.map((row) => ({ ...row, received_at: row.observed_at, qc: {} })),
  );
  await insert(
    'locations',
    world.locations.map((row) => ({ ...row, location_id: row.id })),
  );
  await target.query(
    `insert into forecast_runs (run_id, kind, location_id, office, grid_x, grid_y, time_zone, generated_at, updated_at, valid_from, valid_until)
     overriding system value select run_id, kind, location_id, 'LOC', 1, 1, 'UTC', generated_at, generated_at, valid_from, valid_until
     from jsonb_populate_recordset(null::forecast_runs, $1::text::jsonb)`,
    [JSON.stringify(world.runs)],
  );
  await insert(
    'forecast_periods',
    world.periods.map((row) => ({ ...row, is_daytime: true })),
  );
  await insert('zones', world.zones);
  await insert(
    'alerts',
    world.alerts.map((row) => ({
      ...row,
      effective_at: row.sent_at,
      status: 'Actual',
      message_type: 'Alert',
      category: 'Met',
      certainty: 'Likely',
      urgency: 'Expected',
      area_desc: 'somewhere',
      language: 'en-US',
      vtec: [],
      parameters: {},
    })),
  );
  await insert(
    'alert_areas',
    world.alerts.flatMap(({ alert_id, ugcs }) => ugcs.map((ugc) => ({ alert_id, ugc }))),
  );
  await target.query(
    `insert into alert_runs (run_id, fetched_at) overriding system value
     select run_id, fetched_at from jsonb_populate_recordset(null::alert_runs, $1::text::jsonb)`,
    [JSON.stringify(world.polls)],
  );
  await insert(
    'alert_run_members',
    world.polls.flatMap(({ run_id, members }) => members.map((alert_id) => ({ run_id, alert_id }))),
  );
  await target.query(
    `insert into outlook_runs (run_id, day, issued_at, valid_from, valid_until) overriding system value
     select run_id, day, issued_at, issued_at + run_id * interval '1 second', issued_at + interval '1 day'
     from jsonb_populate_recordset(null::outlook_runs, $1::text::jsonb)`,
    [JSON.stringify(world.outlooks)],
  );
  await insert(
    'outlooks',
    world.outlooks.flatMap(({ run_id, areas }) => areas.map((area) => ({ run_id, part: 1, ...area }))),
  );
  // Hazards without an area are known to be empty.
  await insert(
    'outlooks',
    world.outlooks.flatMap(({ run_id, day, areas }) =>
      ['categorical', 'tornado', 'wind', 'hail', ...(day === 4 ? ['any_severe'] : [])]
        .filter((hazard) => !areas.some((area) => area.hazard === hazard && area.kind !== 'intensity'))
        .map((hazard) => ({
          run_id,
          hazard,
          label: 'NONE',
          part: 1,
          kind: hazard === 'categorical' ? 'category' : 'probability',
          rank: 0,
          geometry: { type: 'MultiPolygon', coordinates: [] },
        })),
    ),
  );
  await target.run(`analyze; update alert_runs set source_updated_at = '${at}'`);
}
