import { canonicalJson } from '../bundle/manifest.ts';
import { compareCodeUnits } from '../paths.ts';
import type { Decided } from '../publish/publish-request.ts';

/**
 * What was decided about one bundle path, and on which state, with the names of the plan file. Two decisions
 * are the same if their canonical JSON is.
 */
export interface DecisionRecord {
  pipeline_id: string;
  destination_id: string;
  /** Relative to the destination root; `.` for the root. */
  destination_path: string;
  bundle: { backend: string; source: string; path: string; created: string };
  /** Digest of the bytes of `.publisher.json`; null if there was none. */
  state: string | null;
  action: string;
  reason: string;
  changes: { path: string; fate: string; why: string }[];
  outputs: { path: string; kind: string; digest: string; size: number; url: string | null }[];
}

/** Pure. */
export function decisionRecord({ plan, planned, stored }: Decided): DecisionRecord {
  const { owner, bundle, destinationPath, action, reason, changes } = plan;
  return {
    pipeline_id: owner.pipelineId,
    destination_id: owner.destinationId,
    destination_path: destinationPath,
    bundle: {
      backend: bundle.source.backend,
      source: bundle.source.id,
      path: bundle.source.path,
      created: String(bundle.created),
    },
    state: stored.raw?.digest ?? null,
    action,
    reason: reason.code,
    changes: changes.map(({ path, fate, why }) => ({ path, fate, why })),
    outputs: planned.map(({ path, kind, digest, size, url }) => ({ path, kind, digest, size, url })),
  };
}

type Place = Pick<DecisionRecord, 'pipeline_id' | 'destination_id' | 'destination_path'>;

/** Pure. */
export function placeOf({ pipeline_id, destination_id, destination_path }: Place): string {
  return `${pipeline_id}/${destination_id} ${destination_path}`;
}

/** Decisions by place; of several about one place the last. */
export class Decisions {
  readonly #byPlace = new Map<string, DecisionRecord>();

  add(record: DecisionRecord): void {
    this.#byPlace.set(placeOf(record), record);
  }

  get(place: Place): DecisionRecord | undefined {
    return this.#byPlace.get(placeOf(place));
  }

  /** In the order of their places. */
  all(): DecisionRecord[] {
    return [...this.#byPlace].sort(([a], [b]) => compareCodeUnits(a, b)).map(([, record]) => record);
  }
}

/** What became different since a decision was written down; null if nothing did. Pure. */
export function differenceOf(
  written: DecisionRecord | undefined,
  made: DecisionRecord | undefined,
): string | null {
  if (written === undefined) return 'it is not in the plan';
  if (made === undefined) return 'nothing is published there any more';
  if (canonicalJson(written) === canonicalJson(made)) return null;
  if (written.state !== made.state) return 'the state of the destination changed';
  const isSameSource =
    canonicalJson([written.bundle, written.outputs]) === canonicalJson([made.bundle, made.outputs]);
  return isSameSource ? 'what lies at the destination changed' : 'the source changed';
}
