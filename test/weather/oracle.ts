import type { Test } from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import type { WritableDatabase } from '../../src/weather/feed/tables/upsert.ts';
import type { Position } from '../../src/weather/places/position.ts';
import type { WeatherReader } from '../../src/weather/reader.ts';
import { generator } from '../support/sampling.ts';
import { areaWithin, bearingBetween, isWithin, kilometresBetween } from './brute-force.ts';
import {
  type AlertRow,
  anywhere,
  begin,
  days,
  type Draw,
  drawFrom,
  load,
  type Measured,
  newWorld,
  type ObservationRow,
  type PlaceRow,
  type World,
} from './oracle-world.ts';
import type { Driver } from './suite.ts';

const hourMs = 3_600_000;

interface Asked {
  reader: WeatherReader;
  world: Lookups;
  draw: Draw;
  now: number;
}
type Question = (asked: Asked) => Promise<[found: unknown, expected: unknown]>;

interface Lookups extends World {
  byStation: ReadonlyMap<string, ObservationRow[]>;
}

/**
 * Compares every leaf of the reader's answers with brute force over the raw rows, for random places and
 * times. The tables of the driver are empty. `canForget` is true if they can change while a reader is open.
 */
export async function oracleSuite(
  t: Test,
  driver: Driver,
  { reads, canForget }: { reads: number; canForget: boolean },
): Promise<void> {
  const draw = drawFrom(generator('weather oracle'));
  const world = newWorld(draw);
  const target: WritableDatabase = await driver.openTarget();
  await load(target, world);
  let now = begin;
  const clock = { ...systemClock, now: () => new Date(now), monotonic: () => 0 };
  const reader = await driver.openReader(clock);
  const byStation = new Map<string, ObservationRow[]>();
  for (const row of world.observations)
    byStation.set(row.station_id, [...(byStation.get(row.station_id) ?? []), row]);
  const lookups = { ...world, byStation };
  const moments = Array.from({ length: reads }, () => begin + draw.whole(0, days * 24 * 60) * 60_000);
  const kinds = Object.entries(questions);
  const answered = new Map<string, number>();
  let forgotten = Infinity;
  // Backwards in time, so that each poll of alerts is indexed once, and future rows can be removed. Such
  // rows are rare in reality, and a reader has to skip all of them.
  for (const [index, moment] of moments.sort((a, b) => b - a).entries()) {
    now = moment;
    if (canForget && now < forgotten - 6 * hourMs) {
      forgotten = now;
      await forget(target, new Date(now + hourMs).toISOString());
    }
    const [name, ask] = kinds[index % kinds.length] as [string, Question];
    const [found, expected] = await ask({ reader, world: lookups, draw, now });
    if (!isAlike(found, expected))
      t.same(found, expected, `${name}, read ${index} at ${new Date(now).toISOString()}`);
    if (found !== null) answered.set(name, (answered.get(name) ?? 0) + 1);
  }
  await Promise.all([reader.close(), target.close()]);
  t.ok(answered.size > 0, `${reads} reads`);
  // Rare cases may find nothing.
  if (reads < 400) return;
  for (const [name] of kinds)
    t.ok(
      (answered.get(name) ?? 0) > reads / kinds.length / 100,
      `${name}: ${answered.get(name) ?? 0} with data`,
    );
}

async function forget(target: WritableDatabase, after: string): Promise<void> {
  for (const [table, column] of [
    ['observations', 'observed_at'],
    ['alert_runs', 'fetched_at'],
    ['forecast_runs', 'generated_at'],
    ['outlook_runs', 'issued_at'],
  ] as const)
    await target.query(`delete from ${table} where ${column} > $1::text::timestamptz`, [after]);
}

/**
 * Numbers that are equal within rounding: distances to two meters, bearings to a degree, others to nine
 * digits. Without a distance, there is no bearing.
 */
function isAlike(found: unknown, expected: unknown, name = ''): boolean {
  if (typeof found === 'number' && typeof expected === 'number') {
    const apart = Math.abs(found - expected);
    if (name.startsWith('distance')) return apart <= 0.002;
    if (name.startsWith('bearing')) return Math.min(apart, 360 - apart) <= 1;
    return apart <= 1e-9 * Math.max(1, Math.abs(expected));
  }
  if (typeof found !== 'object' || typeof expected !== 'object' || found === null || expected === null)
    return found === expected;
  const isHere = ['distance', 'distanceKm'].some((key) => Number(Reflect.get(found, key)) < 0.005);
  const names = Object.keys(found);
  return (
    Array.isArray(found) === Array.isArray(expected) &&
    names.length === Object.keys(expected).length &&
    names.every(
      (key) =>
        (isHere && key.startsWith('bearing')) ||
        isAlike(Reflect.get(found, key), Reflect.get(expected, key), key),
    )
  );
}

/** Often near existing data, because most of the Earth is far from everything. */
function somewhere(draw: Draw, places: readonly PlaceRow[]): Position {
  if (draw.random() < 0.3) return anywhere(draw);
  const { latitude, longitude } = positionOf(draw.oneOf(places));
  const [north, east] = [latitude + draw.between(-1, 1), longitude + draw.between(-1, 1)];
  return {
    latitude: Math.max(-90, Math.min(90, north)),
    longitude: east > 180 ? east - 360 : east < -180 ? east + 360 : east,
  };
}

const rounded = (value: number, digits: number): number =>
  Math.round(value * 10 ** digits) / 10 ** digits + 0;
const instant = (text: string | number): string => `${new Date(text).toISOString().slice(0, 19)}Z`;
const positionOf = ({ latitude_deg, longitude_deg }: PlaceRow): Position => ({
  latitude: latitude_deg,
  longitude: longitude_deg,
});

/** Every place by its distance, and by identifier for equal distances. */
function byDistance<P extends PlaceRow>(
  places: readonly P[],
  from: Position,
  withinKm = Infinity,
): { place: P; km: number }[] {
  return places
    .map((place) => ({ place, km: kilometresBetween(from, positionOf(place)) }))
    .filter(({ km }) => km <= withinKm)
    .sort((a, b) => (Math.abs(a.km - b.km) > 1e-7 ? a.km - b.km : a.place.id < b.place.id ? -1 : 1));
}

function resolved(kind: string, from: Position, { place, km }: { place: PlaceRow; km: number }): object {
  const bearingDeg = Math.round(bearingBetween(from, positionOf(place))) % 360;
  return { kind, id: place.id, name: place.name, distanceKm: rounded(km, 3), bearingDeg };
}

type Converter = (value: number | null) => number | null;
const convertersOf = (units: 'si' | 'us'): Record<string, Converter> => {
  const rule =
    (digits: number, turn: (value: number) => number = (value) => value): Converter =>
    (value) =>
      value === null ? null : rounded(turn(value), digits);
  return units === 'si'
    ? {
        c: rule(1),
        kmh: rule(1),
        pa: rule(0),
        m: rule(0),
        mm: rule(1),
        pct: rule(0),
        deg: rule(0),
        height: rule(0),
      }
    : {
        c: rule(1, (c) => c * 1.8 + 32),
        kmh: rule(1, (kmh) => kmh / 1.609344),
        pa: rule(2, (pa) => pa / 3386.389),
        m: rule(2, (m) => m / 1609.344),
        mm: rule(2, (mm) => mm / 25.4),
        pct: rule(0),
        deg: rule(0),
        height: rule(0, (m) => m / 0.3048),
      };
};

const fields: Record<string, [column: keyof Measured, unit: string]> = {
  temperature: ['temperature_c', 'c'],
  dewpoint: ['dewpoint_c', 'c'],
  relativeHumidity: ['relative_humidity_pct', 'pct'],
  windDirection: ['wind_direction_deg', 'deg'],
  windSpeed: ['wind_speed_kmh', 'kmh'],
  windGust: ['wind_gust_kmh', 'kmh'],
  altimeter: ['altimeter_pa', 'pa'],
  seaLevelPressure: ['sea_level_pressure_pa', 'pa'],
  visibility: ['visibility_m', 'm'],
  temperatureMax24h: ['temperature_max_24h_c', 'c'],
  temperatureMin24h: ['temperature_min_24h_c', 'c'],
  precipitation1h: ['precipitation_1h_mm', 'mm'],
  precipitation3h: ['precipitation_3h_mm', 'mm'],
  precipitation6h: ['precipitation_6h_mm', 'mm'],
  heatIndex: ['heat_index_c', 'c'],
  windChill: ['wind_chill_c', 'c'],
};
const unitsOf = (units: 'si' | 'us'): object =>
  units === 'si'
    ? {
        temperature: 'degC',
        windSpeed: 'km/h',
        windDirection: 'deg',
        pressure: 'Pa',
        visibility: 'm',
        precipitation: 'mm',
        relativeHumidity: '%',
        cloudBase: 'm',
        elevation: 'm',
      }
    : {
        temperature: 'degF',
        windSpeed: 'mph',
        windDirection: 'deg',
        pressure: 'inHg',
        visibility: 'mi',
        precipitation: 'in',
        relativeHumidity: '%',
        cloudBase: 'ft',
        elevation: 'ft',
      };

/** A dewpoint above the temperature is omitted. */
function isPossible(row: ObservationRow, column: keyof ObservationRow): boolean {
  const { temperature_c: t, dewpoint_c: td } = row;
  return column !== 'dewpoint_c' || t === null || td === null || td <= t + 1;
}

function pastObservation(row: ObservationRow, units: 'si' | 'us'): object {
  const convert = convertersOf(units);
  const measured = Object.entries(fields).map(([name, [column, unit]]) => [
    name,
    convert[unit]?.(isPossible(row, column) ? row[column] : null),
  ]);
  return {
    observedAt: instant(row.observed_at),
    receivedAt: instant(row.observed_at),
    textDescription: null,
    rawMessage: null,
    ...(Object.fromEntries(measured) as object),
    presentWeather: [],
    clouds: [],
    quality: Object.fromEntries(Object.keys(fields).map((name) => [name, null])),
  };
}

function stationRecord({ stations }: World, id: string, units: 'si' | 'us'): object {
  const row = stations.find(({ station_id }) => station_id === id);
  if (row === undefined) throw new TypeError(`no station ${id}`);
  const { name, latitude_deg: latitude, longitude_deg: longitude } = row;
  return { id, name, latitude, longitude, elevation: convertersOf(units)['height']?.(row.elevation_m) };
}

function observation(world: World, row: ObservationRow, units: 'si' | 'us'): object {
  return {
    station: stationRecord(world, row.station_id, units),
    timeZone: 'UTC',
    ...pastObservation(row, units),
    units: unitsOf(units),
  };
}

const time = ({ observed_at }: ObservationRow): number => Date.parse(observed_at);
const minute = 60_000;
const newestFirst = (a: ObservationRow, b: ObservationRow): number => time(b) - time(a);
const hasValue = (row: ObservationRow): boolean =>
  Object.values(fields).some(([column]) => row[column] !== null);

/** A query to the reader, and the same to the raw rows. */
const questions: Record<string, Question> = {
  async 'places near a point'({ reader, world, draw, now }) {
    const [kind, limit] = [draw.oneOf(['stations', 'locations'] as const), draw.whole(1, 30)];
    const [near, units] = [somewhere(draw, world[kind]), draw.oneOf(['si', 'us'] as const)];
    const [west, south] = [draw.between(-180, 180), draw.between(-90, 60)];
    const bbox =
      draw.random() < 0.5
        ? null
        : { west, south, east: draw.between(-180, 180), north: draw.between(south, 90) };
    const state = draw.random() < 0.7 ? null : 'AK';
    const q = draw.random() < 0.7 ? null : 'old ba';
    const query = { near, limit, bbox, state, q, units };
    const data =
      kind === 'stations' ? (await reader.stations(query)).data : (await reader.locations(query)).data;
    const found = data === null ? null : { total: data.total, places: Reflect.get(data, kind) as unknown };
    const isInside = ({ latitude, longitude }: Position): boolean =>
      bbox === null ||
      (latitude >= bbox.south &&
        latitude <= bbox.north &&
        (bbox.west <= bbox.east
          ? longitude >= bbox.west && longitude <= bbox.east
          : longitude >= bbox.west || longitude <= bbox.east));
    const all: readonly (PlaceRow & { elevation_m?: number })[] = world[kind];
    const matching = all.filter(
      (place) =>
        isInside(positionOf(place)) &&
        (state === null || place.state === state) &&
        (q === null || place.name.startsWith('Old Ba')),
    );
    const newest = (id: string): number =>
      kind === 'stations'
        ? Math.max(...(world.byStation.get(id) ?? []).map(time).filter((each) => each <= now + 60 * minute))
        : Math.max(
            ...world.runs
              .filter((run) => run.location_id === id)
              .map(({ generated_at }) => Date.parse(generated_at))
              .filter((each) => each <= now + 60 * minute),
          );
    const places = byDistance(matching, near)
      .slice(0, limit)
      .map(({ place, km }) => {
        const at = newest(place.id);
        return {
          id: place.id,
          name: place.name,
          ...positionOf(place),
          elevation: convertersOf(units)['height']?.(place.elevation_m ?? null),
          state: place.state,
          timeZone: 'UTC',
          distance: rounded(units === 'si' ? km : km / 1.609344, 3),
          bearing: Math.round(bearingBetween(near, positionOf(place))) % 360,
          newestAt: at === -Infinity ? null : instant(at),
          newestAge: at === -Infinity ? null : Math.max(0, Math.floor((now - at) / minute)),
        };
      });
    return [found, { total: matching.length, places }];
  },

  async 'the observation at a point'({ reader, world, draw, now }) {
    const [point, radius, maxAge] = [
      somewhere(draw, world.stations),
      draw.whole(1, 500),
      draw.whole(10, 1440),
    ];
    const units = draw.oneOf(['si', 'us'] as const);
    const { data, resolved: at } = await reader.observations({ point, radius, maxAge, units });
    for (const { place, km } of byDistance(world.stations, point, radius)) {
      const [row] = (world.byStation.get(place.id) ?? [])
        .filter(
          (each) => time(each) > now - maxAge * minute && time(each) <= now + 60 * minute && hasValue(each),
        )
        .sort(newestFirst);
      if (row !== undefined)
        return [
          { data, at },
          { data: observation(world, row, units), at: resolved('station', point, { place, km }) },
        ];
    }
    return [data, null];
  },

  async 'current conditions at a point'({ reader, world, draw, now }) {
    const [point, radius, maxAge] = [
      somewhere(draw, world.stations),
      draw.whole(1, 500),
      draw.whole(10, 360),
    ];
    const { data, resolved: at } = await reader.currentConditions({ point, radius, maxAge, units: 'si' });
    const inWindow = (each: ObservationRow): boolean =>
      time(each) > now - maxAge * minute && time(each) <= now + 5 * minute;
    const near = byDistance(world.stations, point, radius)
      .filter(
        ({ km, place }) =>
          km <= radius &&
          (world.byStation.get(place.id) ?? []).some((each) => inWindow(each) && hasValue(each)),
      )
      .slice(0, 5);
    const rows = near.flatMap(({ place }) =>
      (world.byStation.get(place.id) ?? []).filter(inWindow).sort(newestFirst),
    );
    const first = (column: keyof Measured): ObservationRow | undefined =>
      rows.find((row) => row[column] !== null);
    // Derived values have their own tests.
    const sourced = [
      'temperature',
      'altimeter',
      'seaLevelPressure',
      'visibility',
      'precipitation1h',
      'temperatureMax24h',
    ];
    const convert = convertersOf('si');
    const expected = sourced.map((name) => {
      const [column, unit] = fields[name] as [keyof Measured, string];
      const row = first(column);
      const source =
        row === undefined ? null : { station: row.station_id, observedAt: instant(row.observed_at) };
      return [name, row === undefined ? null : convert[unit]?.(row[column]), source];
    });
    if (rows.length === 0) return [data, null];
    const found = sourced.map((name) => [
      name,
      Reflect.get(data ?? {}, name) as unknown,
      Reflect.get(data?.source ?? {}, name) as unknown,
    ]);
    const station = near.find(({ place }) => place.id === data?.station.id);
    return [
      { found, at },
      { found: expected, at: station === undefined ? undefined : resolved('station', point, station) },
    ];
  },

  async 'the forecast at a point'({ reader, world, draw, now }) {
    const kind = draw.oneOf(['hourly', 'narrative'] as const);
    const [point, radius, hours] = [somewhere(draw, world.locations), draw.whole(1, 500), draw.whole(1, 30)];
    const units = draw.oneOf(['si', 'us'] as const);
    const { data, resolved: at } =
      kind === 'hourly'
        ? await reader.hourlyForecasts({ point, radius, hours, units })
        : await reader.narrativeForecasts({ point, radius, periods: 14, units });
    const convert = convertersOf(units);
    for (const near of byDistance(world.locations, point, radius)) {
      const runs = world.runs.filter((run) => run.kind === kind && run.location_id === near.place.id);
      const isAhead = (run: { generated_at: string }): boolean => Date.parse(run.generated_at) > now + hourMs;
      if (!runs.some((run) => Date.parse(run.valid_until) > now && !isAhead(run))) continue;
      const [run] = runs
        .filter(({ generated_at }) => Date.parse(generated_at) <= now + 60 * minute)
        .sort((a, b) => Date.parse(b.generated_at) - Date.parse(a.generated_at));
      if (run === undefined) return [data, null];
      const hour = Math.floor(now / 3_600_000) * 3_600_000;
      const periods = world.periods
        .filter(
          (each) =>
            each.run_id === run.run_id &&
            Date.parse(each.ends_at) > now &&
            (kind === 'narrative' || Date.parse(each.starts_at) < hour + hours * 3_600_000),
        )
        .map((each) => ({
          number: each.number,
          startsAt: instant(each.starts_at),
          endsAt: instant(each.ends_at),
          isDaytime: true,
          temperature: convert['c']?.(each.temperature_c),
          dewpoint: null,
          relativeHumidity: null,
          precipitationProbability: each.precipitation_probability_pct,
          windSpeedMin: null,
          windSpeedMax: convert['kmh']?.(each.wind_speed_max_kmh),
          windGust: null,
          windDirection: null,
          shortForecast: each.short_forecast,
          iconUrl: null,
          ...(kind === 'narrative' ? { name: null, temperatureTrend: null, detailedForecast: null } : {}),
        }));
      const { temperature, windSpeed, elevation } = unitsOf(units) as Record<string, string>;
      const expected = {
        location: near.place.id,
        office: 'LOC',
        gridX: 1,
        gridY: 1,
        ...positionOf(near.place),
        timeZone: 'UTC',
        generatedAt: instant(run.generated_at),
        updatedAt: instant(run.generated_at),
        validFrom: instant(run.valid_from),
        validUntil: instant(run.valid_until),
        elevation: null,
        units: { temperature, windSpeed, relativeHumidity: '%', probability: '%', elevation },
        periods,
      };
      return [
        { data, at },
        { data: expected, at: resolved('location', point, near) },
      ];
    }
    return [data, null];
  },

  async 'alerts at a point'({ reader, world, draw, now }) {
    const point = anywhere(draw);
    const { data } = await reader.alerts({ point, limit: 500 });
    return alertsWhere(data, world, now, (polygons) => isWithin(polygons, point));
  },

  async 'alerts in a box'({ reader, world, draw, now }) {
    const { latitude: anyLatitude, longitude } = anywhere(draw);
    const latitude = Math.max(-85, Math.min(85, anyLatitude));
    const [width, height] = [draw.between(0.5, 60), draw.between(0.5, 30)];
    const [south, north] = [Math.max(-89, latitude - height), Math.min(89, latitude + height)];
    const east = longitude + width > 180 ? longitude + width - 360 : longitude + width;
    const { data } = await reader.alerts({ bbox: { west: longitude, south, east, north }, limit: 500 });
    const parts =
      longitude <= east
        ? [[longitude, east]]
        : [
            [longitude, 180],
            [-180, east],
          ];
    return alertsWhere(data, world, now, (polygons) =>
      parts.some(([from = 0, to = 0]) => areaWithin(polygons, from, south, to, north) > 1e-9),
    );
  },

  async 'the risk at a point'({ reader, world, draw, now }) {
    const point =
      draw.random() < 0.1
        ? anywhere(draw)
        : { latitude: draw.between(30, 46), longitude: draw.between(-112, -78) };
    const day = draw.oneOf([1, 4]);
    const { data } = await reader.convectiveOutlooks({ day, point });
    const [run] = world.outlooks
      .filter((each) => each.day === day && Date.parse(each.issued_at) <= now + 60 * minute)
      .sort((a, b) => Date.parse(b.issued_at) - Date.parse(a.issued_at) || b.run_id - a.run_id);
    if (run === undefined || data === null) return [data, run ?? null];
    const there = run.areas.filter(({ polygons }) => isWithin(polygons, point));
    // Outlooks cover only the contiguous states.
    const { latitude, longitude } = point;
    const isCovered = latitude >= 24 && latitude <= 50 && longitude >= -125 && longitude <= -66;
    const highest = (hazard: string, kind: string) =>
      there.filter((area) => area.hazard === hazard && area.kind === kind).sort((a, b) => b.rank - a.rank)[0];
    const risk = (
      day === 1
        ? ['categorical', 'tornado', 'wind', 'hail']
        : ['categorical', 'tornado', 'wind', 'hail', 'any_severe']
    ).map((hazard) => {
      const isOutlined = there.some((area) => area.hazard === hazard && area.kind !== 'intensity');
      return {
        hazard,
        state: isOutlined ? 'outlined' : isCovered ? 'none' : 'unknown',
        reason: isOutlined || isCovered ? null : 'not_covered',
        category: highest(hazard, 'category')?.label ?? null,
        categoryText: null,
        probability: highest(hazard, 'probability')?.probability_pct ?? null,
        intensity: highest(hazard, 'intensity')?.label ?? null,
      };
    });
    const found = {
      issuedAt: data.issuedAt,
      risk: data.risk,
      areas: data.areas.map(({ hazard, label }) => `${hazard} ${label}`).sort(),
    };
    const areas = there.map(({ hazard, label }) => `${hazard} ${label}`).sort();
    return [found, { issuedAt: instant(run.issued_at), risk, areas }];
  },

  async 'several stations'({ reader, world, draw, now }) {
    const station = [
      ...new Set(Array.from({ length: draw.whole(2, 6) }, () => draw.oneOf(world.stations).station_id)),
    ];
    const units = draw.oneOf(['si', 'us'] as const);
    const { data } = await reader.observations({ station, units });
    if (station.length < 2) return [null, null];
    const newest = station.map(
      (id) =>
        (world.byStation.get(id) ?? [])
          .filter((each) => time(each) <= now + 60 * minute)
          .sort(newestFirst)[0],
    );
    const observations = newest.flatMap((row) => (row === undefined ? [] : observation(world, row, units)));
    return [data, { observations, missing: station.filter((_id, index) => newest[index] === undefined) }];
  },

  async 'the history of a station'({ reader, world, draw, now }) {
    const station = draw.oneOf(world.stations).station_id;
    const end = begin + draw.whole(1, Math.max(1, (now - begin) / minute)) * minute;
    const start = begin + draw.whole(0, (end - begin) / minute - 1) * minute;
    const units = draw.oneOf(['si', 'us'] as const);
    const [limit, range] = [draw.whole(1, 8), { start: new Date(start), end: new Date(end) }];
    const { data, next } = await reader.observationHistory({ station, ...range, limit, units });
    const rows = (world.byStation.get(station) ?? [])
      .filter((each) => time(each) >= start && time(each) < end)
      .sort((a, b) => time(a) - time(b));
    const observations = rows.slice(0, limit).map((row) => pastObservation(row, units));
    const after = rows[limit];
    return [
      { data, next: next?.start.toISOString() },
      {
        data: {
          station: stationRecord(world, station, units),
          timeZone: 'UTC',
          start: instant(start),
          end: instant(end),
          observations,
          units: unitsOf(units),
        },
        next: after === undefined ? undefined : new Date(after.observed_at).toISOString(),
      },
    ];
  },
};

const severities = ['Extreme', 'Severe', 'Moderate', 'Minor', 'Unknown'];

function alertsWhere(
  data: { fetchedAt: string; total: number; unplaced: number | null; alerts: { id: string }[] } | null,
  world: World,
  now: number,
  isThere: (polygons: AlertRow['polygons']) => boolean,
): [unknown, unknown] {
  const [poll] = world.polls
    .filter(({ fetched_at }) => Date.parse(fetched_at) <= now + 60 * minute)
    .sort((a, b) => Date.parse(b.fetched_at) - Date.parse(a.fetched_at) || b.run_id - a.run_id);
  if (poll === undefined || data === null) return [data, poll ?? null];
  const outlines = new Map(world.zones.map(({ ugc, polygons }) => [ugc, polygons]));
  const members = new Set(poll.members);
  const inForce = world.alerts.filter(
    (alert) => members.has(alert.alert_id) && Date.parse(alert.ends_at ?? alert.expires_at) > now,
  );
  const holds = ({ polygons, ugcs }: AlertRow): boolean =>
    polygons.length > 0 ? isThere(polygons) : ugcs.some((ugc) => isThere(outlines.get(ugc) ?? []));
  const isUnplaced = ({ polygons, ugcs }: AlertRow): boolean =>
    polygons.length === 0 && (ugcs.length === 0 || ugcs.some((ugc) => !outlines.has(ugc)));
  const there = inForce
    .filter(holds)
    .sort(
      (a, b) =>
        severities.indexOf(a.severity) - severities.indexOf(b.severity) ||
        Date.parse(b.sent_at) - Date.parse(a.sent_at) ||
        (a.alert_id < b.alert_id ? -1 : 1),
    );
  return [
    {
      fetchedAt: data.fetchedAt,
      total: data.total,
      unplaced: data.unplaced,
      ids: data.alerts.map(({ id }) => id),
    },
    {
      fetchedAt: instant(poll.fetched_at),
      total: there.length,
      unplaced: inForce.filter((alert) => !holds(alert) && isUnplaced(alert)).length,
      ids: there.map(({ alert_id }) => alert_id),
    },
  ];
}
