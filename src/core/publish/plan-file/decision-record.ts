import { canonicalJson } from '../../bundle/manifest.ts';
import { publishedBy } from '../../catalog/catalog.ts';
import { compareCodeUnits } from '../../lib/paths.ts';
import type { BundleIdentity } from '../plan.ts';
import type { Decided } from '../publish-request.ts';
import type { DecidedOrphan } from '../unpublish/unpublication.ts';

/*
 * The decisions in a plan file, and how they differ from the decisions of a later run.
 */

/**
 * The decision about one bundle path and the state it is based on, with the field names of the plan file. Two
 * decisions are equal if their canonical JSON is.
 */
export interface DecisionRecord {
  pipeline_id: string;
  destination_id: string;
  /** Relative to the destination root; `.` for the root. */
  destination_path: string;
  /** The bundle to publish. For an orphan, the published bundle, or null if the catalog has no record. */
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

/** The record of the removal of an orphan. Pure. */
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

/** Decisions by place. A later decision about the same place replaces the earlier one. */
export class Decisions {
  readonly #byPlace = new Map<string, DecisionRecord>();

  add(record: DecisionRecord): void {
    this.#byPlace.set(placeOf(record), record);
  }

  get(place: Place): DecisionRecord | undefined {
    return this.#byPlace.get(placeOf(place));
  }

  /** Sorted by place. */
  all(): DecisionRecord[] {
    return [...this.#byPlace].sort(([a], [b]) => compareCodeUnits(a, b)).map(([, record]) => record);
  }
}

/** How the current decision differs from the planned one, for a message; null if it does not. Pure. */
export function differenceOf(
  planned: DecisionRecord | undefined,
  current: DecisionRecord | undefined,
): string | null {
  if (planned === undefined) return 'it is not in the plan';
  if (current === undefined)
    return planned.action === 'unpublish'
      ? 'it is no longer an orphan'
      : 'this run would no longer publish to it';
  if (canonicalJson(planned) === canonicalJson(current)) return null;
  if (planned.state !== current.state) return 'the state of the destination changed';
  const isSameSource =
    canonicalJson([planned.bundle, planned.outputs]) === canonicalJson([current.bundle, current.outputs]);
  return isSameSource ? 'the files at the destination changed' : 'the source changed';
}
