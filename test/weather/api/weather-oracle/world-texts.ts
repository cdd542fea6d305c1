import { outline } from '../../oracle-world.ts';
import type { Maker, Rows } from './world.ts';

export const offices = ['AAA', 'BBB', 'CCC', 'DDD'];

export function discussionRows(make: Maker): Rows {
  const discussions = Array.from({ length: 20 }, (_, n) => ({
    product_id: `product-${make.whole(0, 9)}-${n}`,
    office: make.oneOf(offices.slice(1)),
    issued_at: make.moment(-600, 50),
    wmo_header: make.some(make.text('FXUS')),
    awips_id: make.some('AFDBBB'),
    correction: make.some('AAA'),
    raw_text: make.text('raw'),
    received_at: make.moment(-600, 50),
  }));
  const sections = discussions.flatMap(({ product_id }) =>
    Array.from({ length: make.whole(0, 4) }, (_, n) => ({
      product_id,
      position: n + 1,
      heading: make.text('heading'),
      qualifier: make.some(make.text('through')),
      body: make.text('body'),
    })),
  );
  return { forecast_discussions: discussions, forecast_discussion_sections: sections };
}

export function storyRows(make: Maker): Rows {
  const runs = Array.from({ length: 14 }, (_, n) => ({
    run_id: 1000 + n,
    office: make.oneOf(offices.slice(1)),
    fetched_at: make.moment(-600, 50),
  }));
  const stories = runs.flatMap(({ run_id }) =>
    Array.from({ length: make.whole(0, 9) }, (_, n) => ({
      run_id,
      position: n + 1,
      title: make.text('title'),
      description: make.text('description'),
      alt_text: make.some(make.text('alt')),
      image_url: make.some('https://example.org/image.png?a&b'),
      priority: make.random() < 0.3,
      starts_at: make.moment(-900, 0),
      ends_at: make.moment(0, 900),
      updated_at: make.some(make.moment(-900, 50)),
    })),
  );
  return { weather_story_runs: runs, weather_stories: stories };
}

const levels: readonly [
  hazard: string,
  label: string,
  kind: string,
  rank: number,
  probability: number | null,
][] = [
  ['categorical', 'TSTM', 'category', 1, null],
  ['categorical', 'MRGL', 'category', 2, null],
  ['categorical', 'SLGT', 'category', 3, null],
  ['tornado', '0.02', 'probability', 2, 2],
  ['tornado', '0.05', 'probability', 5, 5],
  ['tornado', 'CIG1', 'intensity', 1, null],
  ['wind', '0.15', 'probability', 15, 15],
  ['hail', '0.05', 'probability', 5, 5.4],
  ['hail', 'SIGN', 'intensity', 1, null],
  ['any_severe', '0.30', 'probability', 30, 30],
];

export function outlookRows(make: Maker): Rows {
  const runs = Array.from({ length: 40 }, (_, n) => {
    const from = make.whole(-300, 300);
    return {
      run_id: 1000 + n,
      shape: 'weather.outlook.v2',
      day: make.whole(1, 7),
      issued_at: make.moment(-600, 50),
      valid_from: make.moment(from, from),
      valid_until: make.moment(from + 60, from + 900),
      forecaster: make.some(make.text('forecaster')),
      received_at: make.moment(-600, 50),
    };
  });
  const areas = runs.flatMap(({ run_id }) => {
    const middle = { west: make.between(-100, -80), south: make.between(34, 42) };
    return levels.flatMap(([hazard, label, kind, rank, probability_pct]) =>
      Array.from({ length: make.oneOf([0, 1, 1, 2]) }, (_, n) => ({
        run_id,
        hazard,
        label,
        part: n + 1,
        kind,
        rank,
        probability_pct,
        label_text: make.some(make.text(label)),
        stroke: make.some('#ff0000'),
        fill: make.some('#00ff00'),
        geometry:
          make.random() < 0.3 ? outline(make).geometry : within(middle, 9 / rank + 3 * n + make.random()),
      })),
    );
  });
  const discussions = runs
    .filter(() => make.random() < 0.6)
    .flatMap(({ run_id }) =>
      Array.from({ length: make.whole(1, 2) }, (_, n) => ({
        run_id,
        product_id: `swo-${make.whole(0, 9)}-${n}`,
        issued_at: make.moment(-600, 50),
        correction: make.some('CORR 1'),
        headline: make.some(make.text('headline')),
        summary: make.some(make.text('summary')),
        raw_text: make.text('raw'),
      })),
    );
  return { outlook_runs: runs, outlooks: areas, outlook_discussions: discussions };
}

/** A square. Higher risks have smaller squares, and all of a run are nested. */
function within({ west, south }: { west: number; south: number }, size: number): object {
  const ring = [
    [west - size, south - size],
    [west + size, south - size],
    [west + size, south + size],
    [west - size, south + size],
    [west - size, south - size],
  ];
  return { type: 'Polygon', coordinates: [ring] };
}
