import { round } from './weather-shapes.ts';

/** Outlooks of storms, as a feeder would store them. */

const thunder = round(
  '-100 28, -99.5 33, -97 36.5, -91 38.7, -84 39.2, -79 37.8, -77.5 34.5, -80 30, -84 28, -90 27.3, -96 26.8',
);
const marginal = round(
  '-97.5 29.5, -96.5 33, -93 36, -88 37.2, -83 36, -81.5 33, -83.5 30, -89 28.6, -94 28.6',
);
const slight = round('-94.6 30.5, -93.6 33, -91 35, -88 35.2, -85.6 33.5, -86 31, -89 29.6, -92.5 29.4');
export const high = round('-91.9 31.8, -91 33.4, -89.3 34.3, -87.4 34, -86.7 32.8, -87.8 31.5, -90 31.1');

const categories: readonly [label: string, name: string, fill: string, shape: string][] = [
  ['TSTM', 'General Thunderstorms Risk', '#C1E9C1', thunder],
  ['MRGL', 'Marginal Risk', '#66A366', marginal],
  ['SLGT', 'Slight Risk', '#FFE066', slight],
];

/** The outlooks of today, tomorrow and the day after. The risk ends tomorrow. */
export function outlookRows(): string {
  const runs = [
    ['2026-01-20T16:30Z', '2026-01-20T16:30Z', '2026-01-21T12:00Z', categories],
    ['2026-01-20T17:30Z', '2026-01-21T12:00Z', '2026-01-22T12:00Z', categories.slice(0, 2)],
    ['2026-01-20T13:30Z', '2026-01-22T12:00Z', '2026-01-23T12:00Z', categories.slice(0, 1)],
  ] as const;
  const nowhere = '{"type":"MultiPolygon","coordinates":[]}';
  const chances = [
    ['tornado', 'NONE', 0, 'null', nowhere],
    ['wind', '0.05', 1, '5', marginal],
    ['hail', 'NONE', 0, 'null', nowhere],
  ] as const;
  return runs
    .flatMap(([issued, from, until, shown], index) => [
      `insert into outlook_runs (day, issued_at, valid_from, valid_until)
       values (${index + 1}, '${issued}', '${from}', '${until}');`,
      ...shown.map(
        ([label, name, fill, shape], rank) =>
          `insert into outlooks (run_id, hazard, label, kind, rank, label_text, stroke, fill, geometry)
           select max(run_id), 'categorical', '${label}', 'category', ${rank + 2}, '${name}', '#333333', '${fill}', '${shape}' from outlook_runs;`,
      ),
      ...(index === 2 ? [['any_severe', 'NONE', 0, 'null', nowhere] as const] : chances).map(
        ([hazard, label, rank, percent, shape]) =>
          `insert into outlooks (run_id, hazard, label, kind, rank, probability_pct, geometry)
           select max(run_id), '${hazard}', '${label}', 'probability', ${rank}, ${percent}, '${shape}' from outlook_runs;`,
      ),
    ])
    .join('\n');
}
