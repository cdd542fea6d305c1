import type { WritableDatabase } from '../../../../src/weather/feed/tables/upsert.ts';
import { anywhere, type Draw, outline } from '../../oracle-world.ts';
import { alertRows } from './world-alerts.ts';
import { observationRows } from './world-observations.ts';
import { discussionRows, outlookRows, storyRows } from './world-texts.ts';

/** Rows by table. Every column of the contract has a value at least sometimes. */
export type Rows = Record<string, object[]>;

/** All rows are from the last ten hours or the next hour. Later ones are not valid records yet. */
export const begin = Date.parse('2026-10-01T00:00:00Z');
export const minute = 60_000;

export interface Maker extends Draw {
  /** The value, or sometimes null. */
  some: <T>(value: T, share?: number) => T | null;
  /** With at most this many decimals, often exactly between two roundings. */
  decimal: (least: number, most: number) => number;
  /** In minutes from `begin`, to the millisecond. */
  moment: (from: number, to: number) => string;
  text: (about: string) => string;
}

export function makerOf(draw: Draw): Maker {
  const { random, between, whole, oneOf } = draw;
  return {
    ...draw,
    some: (value, share = 0.25) => (random() < share ? null : value),
    decimal: (least, most) => {
      const scale = 10 ** whole(0, 4);
      return Math.max(
        least,
        Math.min(most, (Math.round(between(least, most) * scale) + oneOf([0, 0.5])) / scale),
      );
    },
    moment: (from, to) => new Date(begin + whole(from * minute, to * minute)).toISOString(),
    text: (about) =>
      `${oneOf(['', 'Óbidos – ', '<b>&amp;</b> ', '"quoted", ', 'a\nline\t', '\u0001 ', '=1+1 ', '☀ '])}${about} ${whole(0, 999)}`,
  };
}

/** Adds weather everywhere to tables that already contain the samples. */
export async function fillWorld(target: WritableDatabase, draw: Draw): Promise<void> {
  const make = makerOf(draw);
  const zones = Array.from({ length: 40 }, (_, n) => ({
    ugc: `ZZ${n % 2 === 0 ? 'Z' : 'C'}${String(n).padStart(3, '0')}`,
    name: make.some(make.text('zone')),
    geometry: outline(draw).geometry,
  }));
  const rows: Rows = {
    zones,
    ...observationRows(make),
    ...forecastRows(make),
    ...alertRows(make),
    ...discussionRows(make),
    ...storyRows(make),
    ...outlookRows(make),
  };
  for (const [table, each] of Object.entries(rows))
    await target.query(
      `insert into ${table} overriding system value
       select * from jsonb_populate_recordset(null::${table}, $1::text::jsonb)`,
      [JSON.stringify(each)],
    );
}

const winds = ['N', 'NNW', 'ESE', 'S'];

function forecastRows(make: Maker): Rows {
  const cells = Array.from({ length: 60 }, (_, n) => ({
    office: make.oneOf(['AAA', 'BBB', 'CCC']),
    x: n,
    y: make.whole(0, 99),
    ...anywhere(make),
  }));
  const id = ({ office, x, y }: (typeof cells)[number]): string => `${office}/${x},${y}`;
  const zone = (): string => make.oneOf(['UTC', 'America/Adak', 'Pacific/Guam', 'America/New_York']);
  // Some cells are not in any table of places.
  const locations = cells.slice(0, 50).map((each) => ({
    location_id: id(each),
    name: make.some(make.text('cell')),
    latitude_deg: each.latitude,
    longitude_deg: each.longitude,
    time_zone: make.some(zone()),
    state: make.some('NY'),
  }));
  const runs = cells.flatMap((each) =>
    (['hourly', 'narrative'] as const).flatMap((kind) =>
      Array.from({ length: make.whole(0, 3) }, () => {
        const generated_at = make.moment(-600, 50);
        const hours = kind === 'hourly' ? 1 : 12;
        const first = Math.floor(Date.parse(generated_at) / (60 * minute)) * 60 * minute;
        const count = kind === 'hourly' ? make.whole(1, 30) : make.whole(1, 14);
        const at = (period: number): string => new Date(first + period * hours * 60 * minute).toISOString();
        return { kind, each, generated_at, count, at };
      }),
    ),
  );
  return {
    locations,
    forecast_runs: runs.map(({ kind, each, generated_at, count, at }, n) => ({
      run_id: 1000 + n,
      kind,
      location_id: id(each),
      office: each.office,
      grid_x: each.x,
      grid_y: each.y,
      time_zone: zone(),
      generated_at,
      updated_at: make.moment(-700, 50),
      valid_from: at(0),
      valid_until: at(count),
      elevation_m: make.some(make.decimal(-90, 4000)),
      received_at: generated_at,
    })),
    forecast_periods: runs.flatMap(({ count, at }, n) =>
      Array.from({ length: count }, (_, period) => ({
        run_id: 1000 + n,
        number: period + 1,
        starts_at: at(period),
        ends_at: at(period + 1),
        name: make.some(make.text('Tonight')),
        is_daytime: make.random() < 0.5,
        temperature_c: make.some(make.decimal(-60, 55)),
        temperature_trend: make.some(make.oneOf(['rising', 'falling'])),
        precipitation_probability_pct: make.some(make.decimal(0, 100)),
        dewpoint_c: make.some(make.decimal(-60, 35)),
        relative_humidity_pct: make.some(make.decimal(0, 100)),
        wind_speed_min_kmh: make.some(make.decimal(0, 60)),
        wind_speed_max_kmh: make.some(make.decimal(0, 200)),
        wind_gust_kmh: make.some(make.decimal(0, 300)),
        wind_direction: make.some(make.oneOf(winds)),
        icon_url: make.some('https://example.org/icon?a=1&b=2'),
        short_forecast: make.some(make.text('short')),
        detailed_forecast: make.some(make.text('detailed')),
      })),
    ),
  };
}
