import type { CatalogState, GeneratedMetadata, OutputRecord } from '../../catalog/catalog.ts';
import { sameOwner, type SourceIdentity } from '../../identity.ts';
import type { DecisionInput, PlannedOutput } from '../plan.ts';

/** Compares the seven things of `skip_same`; the seventh, the path, is what the record was found by. Pure. */
export function isRecordedAs(record: OutputRecord | undefined, output: PlannedOutput): boolean {
  return (
    record !== undefined &&
    sameOwner(record.owner, output.owner) &&
    sameSource(record.source, output.source) &&
    record.kind === output.kind &&
    record.digest === output.digest &&
    record.size === output.size &&
    sameGenerated(record.generated, output.generated) &&
    record.url === output.url
  );
}

/**
 * True if a valid state alone settles the decision, so that nothing else at the destination needs to be
 * looked at: the decision is `skip_same`. No path can block another one then, because a state whose records
 * block each other is invalid. Pure.
 */
export function isSettledByState(
  { owner, workflow, planned }: Pick<DecisionInput, 'owner' | 'workflow' | 'planned'>,
  state: CatalogState,
): boolean {
  if (state.kind !== 'valid' || state.catalog.pending !== null) return false;
  const { outputs } = state.catalog;
  const recorded = byPath(outputs);
  if (!planned.every((output) => isRecordedAs(recorded.get(output.path), output))) return false;
  if (workflow === 'additive') return true;
  const wanted = new Set<string>(planned.map(({ path }) => path));
  return outputs.every((record) => wanted.has(record.path) || !sameOwner(record.owner, owner));
}

export function byPath(records: readonly OutputRecord[]): Map<string, OutputRecord> {
  return new Map<string, OutputRecord>(records.map((record) => [record.path, record]));
}

function sameSource(a: SourceIdentity, b: SourceIdentity): boolean {
  return a.backend === b.backend && a.id === b.id && a.path === b.path;
}

function sameGenerated(a: GeneratedMetadata, b: GeneratedMetadata): boolean {
  return (
    a.contentType === b.contentType &&
    a.cacheControl === b.cacheControl &&
    a.generator?.name === b.generator?.name &&
    a.generator?.version === b.generator?.version &&
    a.generator?.inputs === b.generator?.inputs
  );
}
