import { isWithin } from '../../brute-force.ts';
import { polygonsOf } from './expected-alerts.ts';
import { converted } from './expected-observations.ts';
import { type Expected, outlookRuns, window } from './expected-texts.ts';
import { cell, instantOf, momentOf, numberOf, type Row, sorted, type Tables, textOf } from './rows.ts';

/** The expected convective outlooks. */

export interface OutlookQuestion {
  now: number;
  day: number;
  hazard: string[];
  isEffective: boolean;
  point: { latitude: number; longitude: number } | null;
  hasGeometry: boolean;
}

const hazards = ['categorical', 'tornado', 'wind', 'hail', 'any_severe'];

export function outlook(tables: Tables, asked: OutlookQuestion): Expected | null {
  const { now, day, hazard, isEffective, point, hasGeometry } = asked;
  const runs = outlookRuns(tables, day, now).filter(
    (row) => !isEffective || (momentOf(row, 'valid_from') <= now && momentOf(row, 'valid_until') > now),
  );
  const has = (row: Row, name: string): boolean =>
    tables.outlooks.some(
      (area) => area['run_id'] === row['run_id'] && area['hazard'] === name && area['kind'] !== 'intensity',
    );
  const expected = day > 3 ? ['any_severe'] : day === 3 ? ['categorical', 'any_severe'] : hazards.slice(0, 4);
  const run =
    runs.find((row) => has(row, expected[0] ?? '')) ??
    runs.find((row) => hazards.some((name) => has(row, name)));
  if (run === undefined) return null;
  const overlapping = runs.filter(
    (row) =>
      momentOf(row, 'valid_from') < momentOf(run, 'valid_until') &&
      momentOf(row, 'valid_until') > momentOf(run, 'valid_from'),
  );
  const runOf = new Map(
    expected.map((name) => [name, overlapping.find((row) => has(row, name)) ?? run] as const),
  );
  const all = tables.outlooks.filter(
    (row) => row['run_id'] === (runOf.get(String(row['hazard'])) ?? run)['run_id'],
  );
  const outlined = all.filter((row) => row['rank'] !== 0);
  const categories = outlined.filter((row) => row['hazard'] === 'categorical' && row['kind'] === 'category');
  const isWanted = (name: string): boolean => hazard.length === 0 || hazard.includes(name);
  const wanted = sorted(
    outlined.filter((row) => isWanted(String(row['hazard']))),
    (row) => hazards.indexOf(String(row['hazard'])),
    (row) => String(row['kind']),
    (row) => Number(row['rank']),
    (row) => Number(row['part']),
  );
  const there =
    point === null ? wanted : wanted.filter((row) => isWithin(polygonsOf(row['geometry']), point));
  const listed = hazards.filter(
    (name) => expected.includes(name) || all.some((row) => row['hazard'] === name),
  );
  const isMissing = (name: string): boolean =>
    !all.some((row) => row['hazard'] === name && row['kind'] !== 'intensity');
  const data = {
    ...window(run),
    forecaster: textOf(run, 'forecaster'),
    maximumCategory: highest(categories)?.['label'] ?? null,
    risk:
      point === null
        ? null
        : listed
            .filter(isWanted)
            .map((name) => risk(name, there, { isMissing: isMissing(name), isCovered: isCovered(point) })),
    areas: there.map((row) => ({
      hazard: textOf(row, 'hazard'),
      kind: textOf(row, 'kind'),
      label: textOf(row, 'label'),
      labelText: textOf(row, 'label_text'),
      rank: numberOf(row, 'rank'),
      probability: converted(numberOf(row, 'probability_pct'), 'percent', 'si'),
      stroke: textOf(row, 'stroke'),
      fill: textOf(row, 'fill'),
      geometry: hasGeometry ? cell(row, 'geometry') : null,
    })),
  };
  const unknown = [
    ...(listed.includes('categorical') && isMissing('categorical') ? ['maximumCategory'] : []),
    ...listed.filter((name) => isWanted(name) && isMissing(name)),
  ].map((field) => ({ field, reason: 'not_received' }));
  const otherIssues = [...runOf].flatMap(([field, row]) =>
    row === run ? [] : [{ field, issuedAt: instantOf(row, 'issued_at') }],
  );
  const meta = {
    ...(unknown.length === 0 ? {} : { unknown }),
    ...(otherIssues.length === 0 ? {} : { otherIssues }),
    ...(runs[0] === run || runs[0] === undefined ? {} : { newerIssuedAt: instantOf(runs[0], 'issued_at') }),
  };
  return { data, asOf: momentOf(run, 'issued_at'), meta };
}

/** The contiguous states are in this box. The outlooks do not cover other places. */
function isCovered({ longitude, latitude }: NonNullable<OutlookQuestion['point']>): boolean {
  return longitude >= -125 && longitude <= -66 && latitude >= 24 && latitude <= 50;
}

function risk(
  hazard: string,
  there: readonly Row[],
  { isMissing, isCovered }: { isMissing: boolean; isCovered: boolean },
): object {
  const most = (kind: string): Row | undefined =>
    highest(there.filter((row) => row['hazard'] === hazard && row['kind'] === kind));
  const [category, probability, intensity] = [most('category'), most('probability'), most('intensity')];
  const isOutlined = (category ?? probability) !== undefined;
  return {
    hazard,
    state: isMissing ? 'unknown' : isOutlined ? 'outlined' : isCovered ? 'none' : 'unknown',
    reason: isMissing ? 'not_received' : isOutlined || isCovered ? null : 'not_covered',
    category: category?.['label'] ?? null,
    categoryText: category?.['label_text'] ?? null,
    probability:
      probability === undefined ? null : converted(numberOf(probability, 'probability_pct'), 'percent', 'si'),
    intensity: intensity?.['label'] ?? null,
  };
}

/** The first of several equal ones. */
function highest(rows: readonly Row[]): Row | undefined {
  return rows.find((row) => rows.every((other) => Number(other['rank']) <= Number(row['rank'])));
}
