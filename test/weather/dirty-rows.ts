import type { Test } from 'tap';
import type { Rejection } from '../../src/weather/database/cleaner.ts';
import type { WeatherReader } from '../../src/weather/reader.ts';
import { anyAlert } from './suite.ts';

/** The time of every read below. */
export const dirtyMoment = '2026-02-01T12:00:00Z';
const at = '2026-02-01T11:50:00Z';

const units = 'si';
type Read = (reader: WeatherReader) => Promise<{ data: unknown; rejected?: readonly Rejection[] }>;
const conditions: Read = (reader) => reader.currentConditions({ station: ['DIRT'], maxAge: 90, units });
const observation: Read = (reader) => reader.observations({ station: ['DIRT'], units });
const alerts: Read = (reader) => reader.alerts(anyAlert);
const hourly: Read = (reader) => reader.hourlyForecasts({ location: 'DRT/1,1', hours: 48, units });
const narrative: Read = (reader) => reader.narrativeForecasts({ location: 'DRT/1,1', periods: 14, units });
const discussion: Read = (reader) => reader.forecastDiscussions({ office: 'DRT' });
const stories: Read = (reader) => reader.weatherStories({ office: 'DRT', limit: 7 });
const outlook: Read = (reader) =>
  reader.convectiveOutlooks({ day: 7, hazard: [], select: 'issued', geometry: true });
const outlookDiscussion: Read = (reader) => reader.outlookDiscussions({ day: 7 });

const point = { latitude: 40.02, longitude: -100.02 };
const stationsNear: Read = (reader) => reader.stations({ near: point });
const locationsNear: Read = (reader) => reader.locations({ near: point });
const alertsHere: Read = (reader) => reader.alerts({ point });
const observationHere: Read = (reader) => reader.observations({ point });

/** Clean rows, whose answers do not depend on other rows. */
const clean = `
  insert into stations values ('DIRT', 'Dirt', 40, -100, 10, 'America/Chicago');
  insert into observations (station_id, observed_at, received_at, temperature_c, dewpoint_c, relative_humidity_pct, wind_speed_kmh, altimeter_pa)
    values ('DIRT', '2026-02-01T11:00Z', '2026-02-01T11:01Z', 5, 1, 70, 10, 101000);
  insert into alert_runs (run_id, fetched_at) overriding system value values (900, '2026-02-01T11:59Z');
  insert into alerts (alert_id, sent_at, effective_at, expires_at, ends_at, status, message_type, category, severity, certainty, urgency, event, area_desc)
    values ('clean', '${at}', '${at}', '2026-02-02T00:00Z', '2026-02-02T00:00Z', 'Actual', 'Alert', 'Met', 'Severe', 'Likely', 'Expected', 'Flood Watch', 'here');
  insert into alert_run_members values (900, 'clean');
  insert into forecast_runs (run_id, kind, location_id, office, grid_x, grid_y, time_zone, generated_at, updated_at, valid_from, valid_until)
    overriding system value select 900 + n, kind, 'DRT/1,1', 'DRT', 1, 1, 'UTC', '${at}', '${at}', '${at}', '2026-02-02T00:00Z' from unnest(array['hourly', 'narrative']) with ordinality k(kind, n);
  insert into forecast_periods (run_id, number, starts_at, ends_at, is_daytime, temperature_c)
    select run_id, 1, '2026-02-01T12:00Z', '2026-02-01T13:00Z', true, 5 from generate_series(901, 902) run_id;
  insert into forecast_discussions (product_id, office, issued_at, raw_text, received_at) values ('clean', 'DRT', '${at}', 'clean', '${at}');
  insert into weather_story_runs (run_id, office, fetched_at) overriding system value values (900, 'DRT', '${at}');
  insert into weather_stories (run_id, position, title, description, starts_at, ends_at) values (900, 1, 'clean', 'clean', '${at}', '2026-02-02T00:00Z');
  insert into outlook_runs (run_id, day, issued_at, valid_from, valid_until, received_at) overriding system value values (900, 7, '${at}', '2026-02-07T12:00Z', '2026-02-08T12:00Z', '${at}');
  insert into outlooks values (900, 'any_severe', '0.15', 1, 'probability', 1, 15, null, null, null, '{"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1],[0,0]]]}');
  insert into outlook_discussions values (900, 'clean', '${at}', null, 'clean', null, 'clean');`;

/**
 * Drops the constraints of the contract, like an older feeder. The names are those that PostgreSQL
 * generates.
 */
const unconstrained = `do $$ declare c record; begin
  for c in select conrelid::regclass as t, conname from pg_constraint
    where contype = 'c' and connamespace = 'weather'::regnamespace loop
    execute format('alter table %s drop constraint %I', c.t, c.conname); end loop; end $$;`;

interface Dirt {
  name: string;
  /** Executed on the clean rows, and reverted with them. */
  sql: string;
  read: Read;
  /** Field and reason, without the table's name if it is `observations`. */
  rejected: string[];
  /** The parts of the clean data that the answer keeps, as JSON text. */
  keeps: RegExp;
}

const set = (column: string, value: string): string =>
  `insert into observations (station_id, observed_at, ${column}) values ('DIRT', '${at}', ${value})`;
const observed = (column: string, value: string, reason: string): Dirt => ({
  name: `observations.${column} = ${value}`,
  sql: set(column, value),
  read: conditions,
  rejected: [`observations.${column} ${reason}`],
  keeps: /"temperature":5,/,
});

const measured = {
  temperature_c: ["'NaN'", "'Infinity'", "'-Infinity'", '999', '-274'],
  dewpoint_c: ["'NaN'", "'Infinity'"],
  relative_humidity_pct: ["'NaN'", '106', '-1'],
  wind_direction_deg: ["'NaN'", '361', '-90'],
  wind_speed_kmh: ["'NaN'", "'Infinity'", '-5'],
  wind_gust_kmh: ["'NaN'", '9999'],
  altimeter_pa: ["'NaN'", '0', "'Infinity'"],
  sea_level_pressure_pa: ["'NaN'", '1e9'],
  visibility_m: ["'NaN'", "'Infinity'", '-1'],
  temperature_max_24h_c: ["'NaN'"],
  temperature_min_24h_c: ["'-Infinity'"],
  precipitation_1h_mm: ["'NaN'", '-9999'],
  precipitation_3h_mm: ["'Infinity'"],
  precipitation_6h_mm: ["'NaN'"],
  heat_index_c: ["'NaN'"],
  wind_chill_c: ["'-Infinity'"],
};
const reasonOf = (value: string): string => (value.startsWith("'") ? 'not_finite' : 'out_of_range');

const alert = (name: string, column: string, value: string, rejected: string[], more = ''): Dirt => ({
  name: `alerts.${column} = ${value.slice(0, 60)}`,
  sql: `insert into alerts select (jsonb_populate_record(a, '{"alert_id":"${name}"}')).* from alerts a where alert_id = 'clean';
    update alerts set ${column} = ${value} where alert_id = '${name}';
    insert into alert_run_members values (900, '${name}'); ${more}`,
  read: alerts,
  rejected,
  keeps: /"id":"clean"/,
});

const open = `'{"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1],[0,1]]]}'`;
const geometries = [
  `'{"type":"Polygon","coordinates":[]}'`,
  `'{"type":"Polygon","coordinates":[[[0,0],[1,0],[0,0]]]}'`,
  open,
  `'{"type":"Polygon","coordinates":[[[0,0],[1e400,0],[1,1],[0,0]]]}'`,
  `'{"type":"Polygon","coordinates":[[[0,0],[500,0],[1,1],[0,0]]]}'`,
  `'{"type":"Polygon","coordinates":"[[[0,0]]]"}'`,
  `'{"type":"toString","coordinates":[0,0]}'`,
  `'{"coordinates":[[[0,0],[1,0],[1,1],[0,0]]]}'`,
  `'[1,2]'`,
  `'"POLYGON((0 0))"'`,
  `'17'`,
];

/** Each dirty row is read together with the clean rows. */
export const dirt: Dirt[] = [
  ...Object.entries(measured).flatMap(([column, values]) =>
    values.map((value) => observed(column, value, reasonOf(value))),
  ),
  ...["'null'", "'[]'", `'"V"'`, `'{"temperature_c":1}'`, `'{"temperature_c":{"a":null}}'`].map((value) =>
    observed('qc', value, 'bad_json'),
  ),
  observed('received_at', "'infinity'", 'bad_instant'),
  ...["'infinity'", "'2099-01-01Z'", "'2026-02-01T13:30Z'", "'200000-01-01Z'"].map((value) => ({
    name: `observations.observed_at = ${value}`,
    sql: `insert into observations (station_id, observed_at, temperature_c) values ('DIRT', ${value}, 40)`,
    read: observation,
    rejected: [
      `observations.observed_at ${value === "'infinity'" || value.includes('200000') ? 'bad_instant' : 'in_future'}`,
    ],
    keeps: /"temperature":5,/,
  })),
  ...["'-infinity'", "'4713-01-01 00:00:00+00 BC'", "'0001-01-01Z'"].map((value) => ({
    name: `observations.observed_at = ${value} is older than what is good`,
    sql: `insert into observations (station_id, observed_at) values ('DIRT', ${value})`,
    read: observation,
    rejected: [],
    keeps: /"temperature":5,/,
  })),
  ...["'Mars/Olympus'", "''", "'<script>'", "'../../etc/passwd'"].map((value) => ({
    name: `stations.time_zone = ${value}`,
    sql: `update stations set time_zone = ${value} where station_id = 'DIRT'`,
    read: observation,
    rejected: ['stations.time_zone unknown_time_zone'],
    keeps: /"timeZone":null/,
  })),
  ...[
    ['latitude_deg', "'NaN'"],
    ['longitude_deg', '181'],
    ['elevation_m', "'Infinity'"],
  ].map(([column = '', value = '']) => ({
    name: `stations.${column} = ${value}`,
    sql: `update stations set ${column} = ${value} where station_id = 'DIRT'`,
    read: observation,
    rejected: [`stations.${column} ${reasonOf(value)}`],
    keeps: /"temperature":5,/,
  })),
  ...[
    ["'FOG', 1", 'amount unknown_value'],
    ["'OVC', 'NaN'", 'base_m not_finite'],
    ["'OVC', -5e9", 'base_m out_of_range'],
  ].map(([values = '', what = '']) => ({
    name: `observation_clouds ${values}`,
    sql: `insert into observation_clouds values ('DIRT', '2026-02-01T11:00Z', 1, ${values})`,
    read: observation,
    rejected: [`observation_clouds.${what === 'base_m not_finite' ? 'base_m not_finite' : what}`],
    keeps: /"temperature":5,/,
  })),
  {
    name: 'observation_weather.intensity',
    sql: "insert into observation_weather values ('DIRT', '2026-02-01T11:00Z', 1, 'biblical', null, 'rain', 'RA', false)",
    read: observation,
    rejected: ['observation_weather.intensity unknown_value'],
    keeps: /"intensity":null/,
  },
  ...["'infinity'", "'-infinity'", "'200000-01-01Z'", "'0001-01-01 BC'"].map((value) =>
    alert('d', 'ends_at', value, ['alerts.ends_at bad_instant']),
  ),
  alert('d', 'onset_at', "'infinity'", ['alerts.onset_at bad_instant']),
  alert('d', 'sent_at', "'-infinity'", ['alerts.sent_at bad_instant']),
  alert('d', 'effective_at', "'infinity'", ['alerts.effective_at bad_instant']),
  alert('d', 'ends_at', "null, expires_at = 'infinity'", ['alerts.expires_at bad_instant']),
  alert('d', 'severity', "'Apocalyptic'", ['alerts.severity unknown_value']),
  alert('d', 'certainty', "''", ['alerts.certainty unknown_value']),
  alert('d', 'urgency', "'now!'", ['alerts.urgency unknown_value']),
  alert('d', 'parameters', "'null'", ['alerts.parameters bad_json']),
  alert('d', 'parameters', "'[1]'", ['alerts.parameters bad_json']),
  ...geometries.map((value) => alert('d', 'geometry', value, ['alerts.geometry bad_geometry'])),
  alert('d', 'vtec', `array[null, 'a\\b', 'c"d', '{,}', '']`, []),
  alert('d', 'event', `'<script>&"''\u0001\u202E%s{}'`, []),
  alert(
    'd',
    'headline',
    "'a', area_desc = 'b'",
    ['alert_areas.ugc unknown_value'],
    `insert into alert_areas values ('d', 'nowhere', null);`,
  ),
  {
    name: 'alert_runs.fetched_at = infinity',
    sql: "insert into alert_runs (fetched_at) values ('infinity'), ('2099-01-01Z')",
    read: alerts,
    rejected: ['alert_runs.fetched_at bad_instant', 'alert_runs.fetched_at in_future'],
    keeps: /"id":"clean"/,
  },
  ...(
    [
      ['temperature_c', "'NaN'", 'not_finite', /"temperature":null/],
      ['wind_gust_kmh', "'Infinity'", 'not_finite', /"temperature":5,/],
      ['precipitation_probability_pct', '400', 'out_of_range', /"temperature":5,/],
      ['temperature_trend', "'sideways'", 'unknown_value', /"temperature":5,/],
      ['starts_at', "'-infinity'", 'bad_instant', /"location":"DRT\/1,1"/],
      ['ends_at', "'infinity'", 'bad_instant', /"location":"DRT\/1,1"/],
    ] as const
  ).map(([column, value, reason, keeps]) => ({
    name: `forecast_periods.${column} = ${value}`,
    sql: `update forecast_periods set ${column} = ${value} where run_id in (901, 902)`,
    read: column === 'temperature_trend' ? narrative : hourly,
    rejected: [`forecast_periods.${column} ${reason}`],
    keeps,
  })),
  ...(
    [
      ['time_zone', "'Nowhere'", 'unknown_time_zone'],
      ['updated_at', "'infinity'", 'bad_instant'],
      ['valid_until', "'infinity'", 'bad_instant'],
      ['elevation_m', "'NaN'", 'not_finite'],
    ] as const
  ).map(([column, value, reason]) => ({
    name: `forecast_runs.${column} = ${value}`,
    sql: `update forecast_runs set ${column} = ${value} where run_id = 901`,
    read: hourly,
    rejected: [`forecast_runs.${column} ${reason}`],
    keeps: /"temperature":5,/,
  })),
  {
    name: 'forecast_runs.generated_at = infinity',
    sql: `insert into forecast_runs (kind, location_id, office, grid_x, grid_y, time_zone, generated_at, updated_at, valid_from, valid_until)
      values ('narrative', 'DRT/1,1', 'DRT', 1, 1, 'UTC', 'infinity', '${at}', '${at}', '${at}')`,
    read: narrative,
    rejected: ['forecast_runs.generated_at bad_instant'],
    keeps: /"temperature":5,/,
  },
  {
    name: 'forecast_discussions.issued_at = 2099',
    sql: "insert into forecast_discussions (product_id, office, issued_at, raw_text) values ('d', 'DRT', '2099-01-01Z', 'dirty')",
    read: discussion,
    rejected: ['forecast_discussions.issued_at in_future'],
    keeps: /"text":"clean"/,
  },
  {
    name: 'weather_story_runs.fetched_at = infinity',
    sql: "insert into weather_story_runs (office, fetched_at) values ('DRT', 'infinity')",
    read: stories,
    rejected: ['weather_story_runs.fetched_at bad_instant'],
    keeps: /"title":"clean"/,
  },
  {
    name: 'weather_stories.ends_at = infinity',
    sql: "update weather_stories set ends_at = 'infinity', title = '<b>\u0001', updated_at = '-infinity' where run_id = 900",
    read: stories,
    rejected: ['weather_stories.ends_at bad_instant', 'weather_stories.updated_at bad_instant'],
    keeps: /"description":"clean"/,
  },
  {
    name: 'outlook_runs.issued_at = infinity',
    sql: "insert into outlook_runs (day, issued_at, valid_from, valid_until) values (7, 'infinity', '2026-02-07T12:00Z', '2026-02-08T12:00Z')",
    read: outlook,
    rejected: ['outlook_runs.issued_at bad_instant'],
    keeps: /"probability":15/,
  },
  {
    name: 'outlooks.geometry and probability_pct',
    sql: `update outlooks set geometry = ${open}, probability_pct = 'NaN' where run_id = 900`,
    read: outlook,
    rejected: ['outlooks.geometry bad_geometry', 'outlooks.probability_pct not_finite'],
    keeps: /"label":"0.15"/,
  },
  {
    name: 'outlooks.geometry = JSON null',
    sql: "update outlooks set geometry = 'null' where run_id = 900",
    read: outlook,
    rejected: ['outlooks.geometry bad_geometry'],
    keeps: /"probability":15/,
  },
  ...(
    [
      ['stations', 'latitude_deg', "'NaN'", 'not_finite'],
      ['stations', 'longitude_deg', '181', 'out_of_range'],
      ['stations', 'time_zone', "'Nowhere'", 'unknown_time_zone'],
      ['locations', 'latitude_deg', "'Infinity'", 'not_finite'],
      ['locations', 'time_zone', "'Nowhere'", 'unknown_time_zone'],
    ] as const
  ).map(([table, column, value, reason]) => ({
    name: `${table}.${column} = ${value}`,
    sql: `update stations set state = 'TX'; insert into stations values ('DIRT2', 'Dirt', 41, -100, 10, 'UTC');
      insert into locations values ('DRT/1,1', 'clean', 40, -100, 'UTC'), ('DIRT2', 'Dirt', 41, -100, 'UTC');
      update ${table} set ${column} = ${value} where ${table === 'stations' ? 'station_id' : 'location_id'} = 'DIRT2'`,
    read: table === 'stations' ? stationsNear : locationsNear,
    rejected: [`${table}.${column} ${reason}`],
    keeps: /"id":"(DIRT|DRT.1,1)"/,
  })),
  {
    name: 'zones.geometry is none',
    sql: "insert into alert_areas values ('clean', 'TXZ001'); insert into zones values ('TXZ001', 'broken', '[]')",
    read: alertsHere,
    rejected: [],
    keeps: /"total":0,"unplaced":1/,
  },
  {
    name: 'alerts.geometry is none, and its zone has an outline',
    sql: `insert into alert_areas values ('clean', 'TXZ001'); update alerts set geometry = '"here"' where alert_id = 'clean';
      insert into zones values ('TXZ001', 'clean', '{"type":"Polygon","coordinates":[[[-101,39],[-99,39],[-99,41],[-101,41],[-101,39]]]}')`,
    read: alertsHere,
    rejected: ['alerts.geometry bad_geometry'],
    keeps: /"total":1,"unplaced":0.*"id":"clean"/,
  },
  {
    name: 'the nearest station has nothing but dirt',
    sql: `insert into stations values ('NEAR', 'Near', 40.01, -100.01, 10, 'UTC');
      insert into observations (station_id, observed_at, temperature_c) values ('NEAR', '${at}', 'NaN')`,
    read: observationHere,
    rejected: ['observations.temperature_c not_finite'],
    keeps: /"id":"DIRT"/,
  },
  {
    name: 'outlook_discussions.issued_at = infinity',
    sql: "insert into outlook_discussions values (900, 'd', 'infinity', null, null, null, 'dirty')",
    read: outlookDiscussion,
    rejected: ['outlook_discussions.issued_at bad_instant'],
    keeps: /"text":"clean"/,
  },
];

/**
 * Reads each dirty row together with the clean ones. No error occurs, clean answers do not change, and each
 * fault is reported.
 */
export async function dirtyRowsSuite(
  t: Test,
  driver: { run: (sql: string) => Promise<void>; openReader: () => Promise<WeatherReader> },
): Promise<void> {
  t.ok(dirt.length >= 60, String(dirt.length));
  await driver.run(unconstrained);
  for (const { name, sql, read, rejected, keeps } of dirt) {
    await driver.run(`${emptied} ${clean} ${sql}`);
    const reader = await driver.openReader();
    const { data, rejected: found = [] } = await read(reader);
    await reader.close();
    t.same(found.map(({ field, reason }) => `${field} ${reason}`).sort(), [...rejected].sort(), name);
    t.match(JSON.stringify(data), keeps, name);
    t.notMatch(JSON.stringify(data), /Infinity|NaN|Invalid|"infinity"/, name);
  }
}

const tables = [
  'observations',
  'stations',
  'alert_run_members',
  'alert_runs',
  'alerts',
  'forecast_runs',
  'forecast_discussions',
  'weather_story_runs',
  'outlook_runs',
  'locations',
  'zones',
];
const emptied = `truncate ${tables.join(', ')} cascade;`;
