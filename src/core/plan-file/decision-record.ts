import { canonicalJson } from '../bundle/manifest.ts';
import { publishedBy } from '../catalog/published-bundles.ts';
import { compareCodeUnits } from '../paths.ts';
import type { BundleIdentity } from '../publish/plan.ts';
import type { Decided } from '../publish/publish-request.ts';
import type { DecidedOrphan } from '../publish/unpublish/unpublication.ts';

/**
 * What was decided about one bundle path, and on which state, with the names of the plan file. Two decisions
 * are the same if their canonical JSON is.
 */
export interface DecisionRecord {
  pipeline_id: string;
  destination_id: string;
  /** Relative to the destination root; `.` for the root. */
  destination_path: string;
  /** The bundle to be published; of an orphan the one that was, null if the catalog does not say. */
  bundle: { backend: string; source: string; path: string; created: string } | null;
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
    bundle: bundleRecord(bundle),
    state: stored.raw?.digest ?? null,
    action,
    reason: reason.code,
    changes: changes.map(({ path, fate, why }) => ({ path, fate, why })),
    outputs: planned.map(({ path, kind, digest, size, url }) => ({ path, kind, digest, size, url })),
  };
}

/** The removal of an orphan. Pure. */
export function orphanRecord({ work, stored }: DecidedOrphan): DecisionRecord {
  const { owner, destinationPath, action, removes } = work;
  const bundle = publishedBy(stored.state, owner);
  return {
    pipeline_id: owner.pipelineId,
    destination_id: owner.destinationId,
    destination_path: destinationPath,
    bundle: bundle === null ? null : bundleRecord(bundle),
    state: stored.raw?.digest ?? null,
    action,
    reason: 'orphan',
    changes: removes.map((path) => ({ path, fate: 'remove', why: 'orphan' })),
    outputs: [],
  };
}

function bundleRecord({ source, created }: BundleIdentity): DecisionRecord['bundle'] {
  return { backend: source.backend, source: source.id, path: source.path, created: String(created) };
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
  if (made === undefined)
    return written.action === 'unpublish'
      ? 'it is not an orphan any more'
      : 'nothing is published there any more';
  if (canonicalJson(written) === canonicalJson(made)) return null;
  if (written.state !== made.state) return 'the state of the destination changed';
  const isSameSource =
    canonicalJson([written.bundle, written.outputs]) === canonicalJson([made.bundle, made.outputs]);
  return isSameSource ? 'what lies at the destination changed' : 'the source changed';
}
