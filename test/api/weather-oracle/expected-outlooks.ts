import { isWithin } from '../../core/weather/brute-force.ts';
import { polygonsOf } from './expected-alerts.ts';
import { told } from './expected-observations.ts';
import { outlookRuns, window, type Expected } from './expected-texts.ts';
import { cell, momentOf, numberOf, sorted, textOf, type Row, type Tables } from './rows.ts';

/** Convective outlooks as they should be answered. */

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
  const [run] = outlookRuns(tables, day, now).filter(
    (row) => !isEffective || (momentOf(row, 'valid_from') <= now && momentOf(row, 'valid_until') > now),
  );
  if (run === undefined) return null;
  const all = tables.outlooks.filter((row) => row['run_id'] === run['run_id']);
  const categories = all.filter((row) => row['hazard'] === 'categorical' && row['kind'] === 'category');
  const wanted = sorted(
    all.filter((row) => hazard.length === 0 || hazard.includes(String(row['hazard']))),
    (row) => hazards.indexOf(String(row['hazard'])),
    (row) => String(row['kind']),
    (row) => Number(row['rank']),
    (row) => Number(row['part']),
  );
  const there =
    point === null ? wanted : wanted.filter((row) => isWithin(polygonsOf(row['geometry']), point));
  const data = {
    ...window(run),
    forecaster: textOf(run, 'forecaster'),
    maximumCategory: highest(categories)?.['label'] ?? null,
    risk:
      point === null
        ? null
        : hazards
            .filter((name) => wanted.some((row) => row['hazard'] === name))
            .map((name) => risk(name, there)),
    areas: there.map((row) => ({
      hazard: textOf(row, 'hazard'),
      kind: textOf(row, 'kind'),
      label: textOf(row, 'label'),
      labelText: textOf(row, 'label_text'),
      rank: numberOf(row, 'rank'),
      probability: told(numberOf(row, 'probability_pct'), 'percent', 'si'),
      stroke: textOf(row, 'stroke'),
      fill: textOf(row, 'fill'),
      geometry: hasGeometry ? cell(row, 'geometry') : null,
    })),
  };
  return { data, asOf: momentOf(run, 'issued_at') };
}

function risk(hazard: string, there: readonly Row[]): object {
  const most = (kind: string): Row | undefined =>
    highest(there.filter((row) => row['hazard'] === hazard && row['kind'] === kind));
  const [category, probability, intensity] = [most('category'), most('probability'), most('intensity')];
  return {
    hazard,
    category: category?.['label'] ?? null,
    categoryText: category?.['label_text'] ?? null,
    probability:
      probability === undefined ? null : told(numberOf(probability, 'probability_pct'), 'percent', 'si'),
    intensity: intensity?.['label'] ?? null,
  };
}

/** Of equals the first. */
function highest(rows: readonly Row[]): Row | undefined {
  return rows.find((row) => rows.every((other) => Number(other['rank']) <= Number(row['rank'])));
}
