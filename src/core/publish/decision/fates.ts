import { announcedPaths, type OutputRecord } from '../../catalog/catalog.ts';
import type { DecisionInput, PlannedChange, PlannedOutput } from '../plan.ts';
import type { Known } from './known-records.ts';
import { byPath, sameGenerator, sameHeaders, sameSource } from './recorded-as.ts';

/** The planned outputs by fate, in planned order. */
export interface Fates {
  writes: PlannedOutput[];
  kept: PlannedOutput[];
  changes: PlannedChange[];
}

/**
 * Decides for every planned output whether it is written or kept, and why. An output is kept if it is
 * recorded with the same content (and the same headers, if the storage keeps them) and the file has the
 * recorded size. If only other fields of the record differ, the record is refreshed. Pure.
 */
export function fatesOf(input: DecisionInput, known: Known): Fates {
  const { state } = input.observed;
  const judged: Judge = {
    input,
    records: byPath(known.records),
    announced: announcedPaths(state.kind === 'valid' ? state.catalog.pending : null),
  };
  return sorted(input.planned, (output) => fateOf(output, judged));
}

/** The fates under force: every output is written, regardless of records. Pure. */
export function forcedFates({ planned, observed }: DecisionInput): Fates {
  const present = new Set<string>(observed.contents);
  return sorted(planned, ({ path }) =>
    present.has(path) ? { fate: 'change', why: 'forced' } : { fate: 'add', why: 'not_recorded' },
  );
}

interface Judge {
  input: DecisionInput;
  records: ReadonlyMap<string, OutputRecord>;
  /** Paths that an unfinished attempt may have touched. */
  announced: ReadonlySet<string>;
}

type Verdict = Pick<PlannedChange, 'fate' | 'why'>;

function fateOf(output: PlannedOutput, { input: { observed }, records, announced }: Judge): Verdict {
  const record = records.get(output.path);
  if (announced.has(output.path))
    return { fate: record === undefined ? 'add' : 'change', why: 'interrupted' };
  if (record === undefined) return { fate: 'add', why: 'not_recorded' };
  if (observed.state.kind === 'legacy') return { fate: 'change', why: 'legacy_state' };
  if (record.digest !== output.digest || record.size !== output.size)
    return { fate: 'change', why: 'content_differs' };
  const isSameHeaders = sameHeaders(record.generated, output.generated);
  if (!isSameHeaders && observed.keepsHeaders) return { fate: 'change', why: 'headers_differ' };
  const damage = observed.damaged.get(output.path);
  if (damage !== undefined) return { fate: damage === 'missing' ? 'add' : 'change', why: damage };
  return recordFate(record, output, isSameHeaders);
}

/** The fate of an output whose file stays: `keep` or `refresh`. */
function recordFate(record: OutputRecord, output: PlannedOutput, isSameHeaders: boolean): Verdict {
  if (!isSameHeaders) return { fate: 'refresh', why: 'headers_differ' };
  if (record.kind !== output.kind) return { fate: 'refresh', why: 'kind_differs' };
  if (!sameGenerator(record.generated, output.generated))
    return { fate: 'refresh', why: 'generator_differs' };
  if (!sameSource(record.source, output.source)) return { fate: 'refresh', why: 'source_differs' };
  if (record.url !== output.url) return { fate: 'refresh', why: 'url_differs' };
  return { fate: 'keep', why: 'same' };
}

function sorted(planned: readonly PlannedOutput[], judge: (output: PlannedOutput) => Verdict): Fates {
  const fates: Fates = { writes: [], kept: [], changes: [] };
  for (const output of planned) {
    const { fate, why } = judge(output);
    (fate === 'keep' || fate === 'refresh' ? fates.kept : fates.writes).push(output);
    fates.changes.push({ path: output.path, fate, why });
  }
  return fates;
}
