import { bearingBetween, kilometresBetween } from '../../brute-force.ts';
import { anywhere, type Draw } from '../../oracle-world.ts';
import { alertData, alertsInForce } from './expected-alerts.ts';
import { conditions, isPresent } from './expected-conditions.ts';
import { forecast, runsOf } from './expected-forecasts.ts';
import {
  hasNumber,
  newestFirst,
  observation,
  observationUnits,
  pastObservation,
  stationData,
  stationOf,
} from './expected-observations.ts';
import { outlook } from './expected-outlooks.ts';
import { discussion, type Expected, outlookDiscussion, stories } from './expected-texts.ts';
import { Rounded, RoundedBearing } from './leaves.ts';
import { inSeconds, momentOf, numberOf, type Row, sorted, type Tables, textOf } from './rows.ts';
import { begin, minute } from './world.ts';
import { events } from './world-alerts.ts';

/** A request with its path and parameters, and the expected answer. */
export interface Question {
  path: string;
  parameters: Record<string, string>;
  /** null if there is no such record. */
  expected: { data: object; asOf: number | null; resolved?: object; meta?: object } | null;
}

type Ask = (asked: { tables: Tables; draw: Draw; now: number }) => Question;
type Position = NonNullable<Parameters<typeof alertsInForce>[1]['point']>;

const unitsOf = ({ oneOf }: Draw): 'si' | 'us' => oneOf(['si', 'us']);
const maybe = <T>({ random }: Draw, value: T): T | null => (random() < 0.5 ? value : null);
const anyId = ({ oneOf }: Draw, rows: readonly Row[], column: string): string => String(oneOf(rows)[column]);
const inAnyCase = ({ oneOf }: Draw, id: string): string => oneOf([id, id.toLowerCase()]);
const pointText = ({ latitude, longitude }: Position): string => `${latitude},${longitude}`;
const someOf = <T>({ random }: Draw, all: readonly T[]): T[] => all.filter(() => random() < 0.4);
/** Omits parameters that are not given. */
const given = (parameters: Record<string, string | number | boolean | null>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(parameters).flatMap(([name, value]) =>
      value === null || value === '' ? [] : [[name, String(value)]],
    ),
  );

/** Near one of the places, to the fourth decimal, but no coordinates that would be rejected as swapped. */
function pointNear(draw: Draw, places: readonly Row[]): Position {
  const place = draw.oneOf(places);
  const near = (column: string, most: number): number =>
    Math.round(
      Math.max(-most, Math.min(most, (numberOf(place, column) ?? 0) + draw.between(-0.3, 0.3))) * 1e4,
    ) / 1e4;
  const point =
    draw.random() < 0.2
      ? anywhere(draw)
      : { latitude: near('latitude_deg', 90), longitude: near('longitude_deg', 180) };
  return isSwappedUs(point) ? { latitude: 40.78, longitude: -73.97 } : point;
}

/** If a latitude is a plausible longitude of the Americas or near Guam, the numbers are swapped. */
function isSwappedUs({ latitude, longitude }: Position): boolean {
  return latitude < -60 && longitude > -20 && longitude < 75;
}

/** The nearest first, and by identifier for equal distances. */
function byDistance(
  places: readonly Row[],
  id: string,
  { point, radius }: { point: Position; radius: number },
): { row: Row; id: string; resolved: object }[] {
  const found = places.map((row) => {
    const at = {
      latitude: numberOf(row, 'latitude_deg') ?? NaN,
      longitude: numberOf(row, 'longitude_deg') ?? NaN,
    };
    return { row, id: String(row[id]), at, km: kilometresBetween(point, at) };
  });
  return found
    .filter(({ km }) => km <= radius)
    .sort((a, b) => (Math.abs(a.km - b.km) > 1e-6 ? a.km - b.km : a.id < b.id ? -1 : 1))
    .map((each) => ({
      row: each.row,
      id: each.id,
      resolved: {
        id: each.id,
        name: textOf(each.row, 'name'),
        distanceKm: new Rounded(each.km, 3),
        bearingDeg: new RoundedBearing(bearingBetween(point, each.at), 0),
      },
    }));
}

/** Times that can be answered: at most an hour ahead. */
const pastOf = (tables: Tables, now: number): Row[] =>
  tables.observations.filter((row) => momentOf(row, 'observed_at') <= now + 60 * minute);

const observations: Ask = ({ tables, draw, now }) => {
  const units = unitsOf(draw);
  const past = pastOf(tables, now);
  const newestOf = (id: string): Row | undefined =>
    newestFirst(past.filter((row) => row['station_id'] === id))[0];
  const path = '/observations';
  const kind = draw.whole(0, 3);
  if (kind === 0) {
    const [row] = newestFirst(past);
    return { path, parameters: { units }, expected: oneObservation(tables, row, units) };
  }
  if (kind === 1) {
    const id = anyId(draw, tables.stations, 'station_id');
    const parameters = { station: inAnyCase(draw, id), units };
    return { path, parameters, expected: oneObservation(tables, newestOf(id), units) };
  }
  if (kind === 2) {
    const ids = [
      ...new Set(Array.from({ length: draw.whole(2, 6) }, () => anyId(draw, tables.stations, 'station_id'))),
    ];
    if (ids.length === 1) return observations({ tables, draw, now });
    const found = ids.map(newestOf).filter((row) => row !== undefined);
    const data = {
      observations: found.map((row) => observation(tables, row, units)),
      missing: ids.filter((id) => newestOf(id) === undefined),
    };
    const asOf = found.length === 0 ? null : Math.max(...found.map((row) => momentOf(row, 'observed_at')));
    return {
      path,
      parameters: { station: ids.join(','), units },
      expected: { data, asOf },
    };
  }
  const [point, radius, maxAge] = [
    pointNear(draw, tables.stations),
    draw.whole(1, 500),
    draw.whole(10, 1440),
  ];
  const parameters = given({ point: pointText(point), radius, maxAge, units });
  for (const near of byDistance(tables.stations, 'station_id', { point, radius })) {
    const [row] = newestFirst(
      past.filter(
        (each) =>
          each['station_id'] === near.id &&
          momentOf(each, 'observed_at') > now - maxAge * minute &&
          hasNumber(each),
      ),
    );
    const found = oneObservation(tables, row, units);
    if (found !== null)
      return { path, parameters, expected: { ...found, resolved: { kind: 'station', ...near.resolved } } };
  }
  return { path, parameters, expected: null };
};

function oneObservation(tables: Tables, row: Row | undefined, units: 'si' | 'us'): Expected | null {
  return row === undefined
    ? null
    : { data: observation(tables, row, units), asOf: momentOf(row, 'observed_at') };
}

const history: Ask = ({ tables, draw, now }) => {
  const [units, station] = [unitsOf(draw), anyId(draw, tables.stations, 'station_id')];
  const end = maybe(draw, begin + draw.whole(-500, Math.floor((now - begin) / minute)) * minute);
  const start = maybe(draw, (end ?? now) - draw.whole(1, 900) * minute);
  const limit = maybe(draw, draw.whole(1, 6));
  const [from, to] = [start ?? (end ?? now) - 1440 * minute, end ?? now];
  const rows = sorted(
    tables.observations.filter(
      (row) =>
        row['station_id'] === station &&
        momentOf(row, 'observed_at') >= from &&
        momentOf(row, 'observed_at') < to,
    ),
    (row) => momentOf(row, 'observed_at'),
  );
  const at = (moment: number | null): string | null =>
    moment === null ? null : new Date(moment).toISOString();
  const data = {
    station: stationData(tables, station, units),
    timeZone: textOf(stationOf(tables, station), 'time_zone'),
    start: inSeconds(from),
    end: inSeconds(to),
    observations: rows.slice(0, limit ?? 1000).map((row) => pastObservation(tables, row, units)),
    units: observationUnits(units),
  };
  const parameters = given({ station, start: at(start), end: at(end), limit, units });
  return { path: '/observations/history', parameters, expected: { data, asOf: null } };
};

const currentConditions: Ask = ({ tables, draw, now }) => {
  const units = unitsOf(draw);
  const [asked, maxAge] = [maybe(draw, draw.whole(10, 360)), draw.whole(0, 2)];
  const age = asked ?? 90;
  const path = '/current-conditions';
  if (maxAge < 2) {
    const stations =
      maxAge === 0 && draw.random() < 0.3
        ? []
        : [
            ...new Set(
              Array.from({ length: draw.whole(1, 5) }, () => anyId(draw, tables.observations, 'station_id')),
            ),
          ];
    const parameters = given({ station: stations.join(','), maxAge: asked, units });
    return { path, parameters, expected: conditions(tables, { stations, now, maxAge: age, units }) };
  }
  const [point, radius] = [pointNear(draw, tables.stations), draw.whole(1, 500)];
  const parameters = given({ point: pointText(point), radius, maxAge: asked, units });
  const near = byDistance(tables.stations, 'station_id', { point, radius })
    .filter(({ id }) =>
      tables.observations.some(
        (row) => row['station_id'] === id && isPresent(row, now, age) && hasNumber(row),
      ),
    )
    .slice(0, 5);
  if (near.length === 0) return { path, parameters, expected: null };
  const found = conditions(tables, { stations: near.map(({ id }) => id), now, maxAge: age, units });
  const place = near.find(({ id }) => id === found?.station)?.resolved;
  return {
    path,
    parameters,
    expected: found === null ? null : { ...found, resolved: { kind: 'station', ...place } },
  };
};

const alerts: Ask = ({ tables, draw, now }) => {
  const kind = draw.whole(0, 5);
  const zone = kind === 1 ? someOf(draw, tables.zones.slice(0, 20)).map((row) => String(row['ugc'])) : [];
  const { latitude, longitude } = anywhere(draw);
  const [width, height] = [draw.between(1, 60), draw.between(1, 30)];
  const south = Math.max(-88, Math.min(80, latitude) - height);
  const box = {
    west: longitude,
    south,
    east: longitude + width > 180 ? longitude + width - 360 : longitude + width,
    north: Math.min(88, south + 2 * height),
  };
  const asked = {
    now,
    zone,
    area: kind === 2 ? 'ZZ' : null,
    office: kind === 3 ? draw.oneOf(['AAA', 'BBB', 'XYZ']) : null,
    point: kind === 4 ? pointNear(draw, tables.stations) : null,
    bbox: kind === 5 && !isSwappedUs({ latitude: box.south, longitude: box.west }) ? box : null,
    severity: draw.random() < 0.6 ? [] : someOf(draw, ['Extreme', 'Severe', 'Minor']),
    event: draw.random() < 0.6 ? [] : someOf(draw, events),
    limit: draw.whole(1, 200),
  };
  const decimals = (value: number): string => value.toFixed(6);
  const { west, east, north } = box;
  const bbox = [west, south, east, north].map(decimals);
  const rounded = {
    west: Number(bbox[0]),
    south: Number(bbox[1]),
    east: Number(bbox[2]),
    north: Number(bbox[3]),
  };
  const parameters = given({
    zone: zone.map((code) => inAnyCase(draw, code)).join(','),
    area: asked.area,
    office: asked.office,
    point: asked.point === null ? null : pointText(asked.point),
    bbox: asked.bbox === null ? null : bbox.join(','),
    severity: asked.severity.map((each) => inAnyCase(draw, each)).join(','),
    event: asked.event.map((each) => each.toUpperCase()).join(','),
    limit: asked.limit,
  });
  const expected = alertsInForce(tables, { ...asked, bbox: asked.bbox === null ? null : rounded });
  return { path: '/alerts', parameters, expected };
};

const oneAlert: Ask = ({ tables, draw }) => {
  const row = draw.oneOf(tables.alerts);
  const path = `/alerts/${encodeURIComponent(String(row['alert_id']))}`;
  return { path, parameters: {}, expected: { data: alertData(tables, row), asOf: null } };
};

const hourMs = 60 * minute;

const forecasts: Ask = ({ tables, draw, now }) => {
  const kind = draw.oneOf(['hourly', 'narrative'] as const);
  const units = unitsOf(draw);
  const path = `/forecasts/${kind}`;
  const count = maybe(draw, draw.whole(1, kind === 'hourly' ? 40 : 28));
  const start = kind === 'hourly' ? maybe(draw, now + draw.whole(-400, 600) * minute) : null;
  const end =
    kind === 'hourly' && count === null && draw.random() < 0.5
      ? (start ?? now) + draw.whole(1, 2000) * minute
      : null;
  const from = start ?? now;
  const hours = count ?? (kind === 'hourly' ? (end === null ? 48 : 168) : 14);
  const until = kind === 'narrative' ? null : (end ?? Math.floor(from / hourMs) * hourMs + hours * hourMs);
  const location = draw.random() < 0.1 ? null : anyId(draw, tables.forecast_runs, 'location_id');
  const asked = { now, kind, location, from, until, count: hours, units };
  const at = (moment: number | null): string | null =>
    moment === null ? null : new Date(moment).toISOString();
  const common = {
    [kind === 'hourly' ? 'hours' : 'periods']: count,
    start: at(start),
    end: at(end),
    units,
  };
  if (draw.random() < 0.6) {
    const parameters = given({ location: location === null ? null : inAnyCase(draw, location), ...common });
    return { path, parameters, expected: forecast(tables, asked) };
  }
  const [point, radius] = [pointNear(draw, tables.locations), draw.whole(1, 500)];
  const parameters = given({ point: pointText(point), radius, ...common });
  const [near] = byDistance(tables.locations, 'location_id', { point, radius }).filter(({ id }) =>
    runsOf(tables, kind, now).some((run) => run['location_id'] === id && momentOf(run, 'valid_until') > now),
  );
  const found = near === undefined ? null : forecast(tables, { ...asked, location: near.id });
  return {
    path,
    parameters,
    expected: found === null ? null : { ...found, resolved: { kind: 'location', ...near?.resolved } },
  };
};

const discussions: Ask = ({ tables, draw, now }) => {
  const office = maybe(draw, anyId(draw, tables.forecast_discussions, 'office'));
  return {
    path: '/forecast-discussions',
    parameters: given({ office: office === null ? null : inAnyCase(draw, office) }),
    expected: discussion(tables, office, now),
  };
};

const weatherStories: Ask = ({ tables, draw, now }) => {
  const office = maybe(draw, anyId(draw, tables.weather_story_runs, 'office'));
  const limit = maybe(draw, draw.whole(1, 20));
  const expected = stories(tables, { office, limit: limit ?? 7, now });
  return { path: '/weather-stories', parameters: given({ office, limit }), expected };
};

const outlooks: Ask = ({ tables, draw, now }) => {
  const day = maybe(draw, draw.whole(1, 8));
  const hazard =
    draw.random() < 0.6 ? [] : someOf(draw, ['categorical', 'tornado', 'wind', 'hail', 'any_severe']);
  const select = draw.oneOf([null, 'issued', 'effective', 'effective']);
  const point = draw.oneOf([
    null,
    pointNear(draw, tables.stations),
    { latitude: draw.between(30, 46), longitude: draw.between(-105, -75) },
  ]);
  const geometry = maybe(draw, draw.random() < 0.5);
  const expected = outlook(tables, {
    now,
    day: day ?? 1,
    hazard,
    isEffective: select === 'effective',
    point,
    hasGeometry: geometry ?? true,
  });
  const parameters = given({
    day,
    hazard: hazard.join(','),
    select,
    point: point === null ? null : pointText(point),
    geometry,
  });
  return { path: '/convective-outlooks', parameters, expected };
};

const outlookDiscussions: Ask = ({ tables, draw, now }) => {
  const day = maybe(draw, draw.whole(1, 8));
  const expected = outlookDiscussion(tables, day ?? 1, now);
  return { path: '/convective-outlooks/discussions', parameters: given({ day }), expected };
};

/** In turn. Queries with more results to compute are more frequent. */
export const questions: readonly Ask[] = [
  observations,
  currentConditions,
  forecasts,
  alerts,
  history,
  currentConditions,
  forecasts,
  oneAlert,
  discussions,
  currentConditions,
  outlooks,
  alerts,
  weatherStories,
  currentConditions,
  forecasts,
  outlooks,
  outlookDiscussions,
  currentConditions,
];
