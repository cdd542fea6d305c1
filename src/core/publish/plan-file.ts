import { canonicalJson } from '../bundle/manifest.ts';
import { catalogVersion, publishedBy } from '../catalog/catalog.ts';
import type { DestinationConfig, PipelineConfig } from '../config/config.ts';
import { type Digest, digestOf } from '../lib/digest.ts';
import { errorMessage, type Finding, finding, WaybillError } from '../lib/errors.ts';
import { isRecord } from '../lib/json-document.ts';
import { compareCodeUnits } from '../lib/paths.ts';
import { describeLocation } from '../storage/backends.ts';
import type { BundleIdentity } from './plan.ts';
import type { Decided } from './publish-request.ts';
import type { DecidedOrphan } from './unpublish/unpublication.ts';

const planFileVersion = 2;

/** A run's plan, saved to a file. Its schema is `schemas/plan.schema.json`. */
export interface PlanFile {
  schema_version: typeof planFileVersion;
  kind: 'waybill_plan';
  /** The catalog version at the time the plan was made. */
  catalog_version: typeof catalogVersion;
  /** RFC 3339, UTC. */
  created_at: string;
  /** The destinations to publish to for each pipeline, in order. */
  targets: { pipeline_id: string; destination_ids: string[] }[];
  force: boolean;
  allow_removals: boolean;
  /** The channel to publish to; null for the current release and for the in-place layout. */
  channel: string | null;
  /** The `configurationDigest` of `targets`. */
  configuration: Digest;
  decisions: DecisionRecord[];
  /** The SHA-256 digest of all other fields, as canonical JSON (RFC 8785). */
  digest: Digest;
}

type PlanContent = Pick<
  PlanFile,
  'created_at' | 'targets' | 'force' | 'allow_removals' | 'channel' | 'configuration' | 'decisions'
>;

export function planFile(content: PlanContent): PlanFile {
  const whole = {
    schema_version: planFileVersion,
    kind: 'waybill_plan',
    catalog_version: catalogVersion,
    ...content,
  } as const;
  return { ...whole, digest: digestOf(canonicalJson(whole)) };
}

const notAPlan = 'it is not a waybill plan ("kind" is not "waybill_plan")';

/**
 * Parses a plan file. Throws `plan_invalid` if it is not a plan, has an unsupported version, or does not
 * match its digest.
 */
export function parsePlanFile(bytes: Uint8Array, file: string): PlanFile {
  let document: unknown;
  try {
    document = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    throw invalid(file, `it is not JSON: ${errorMessage(error)}`);
  }
  if (typeof document !== 'object' || document === null || !('kind' in document))
    throw invalid(file, notAPlan);
  const { digest, ...content } = document as Partial<PlanFile>;
  if (content.kind !== 'waybill_plan') throw invalid(file, notAPlan);
  if (content.schema_version !== planFileVersion || content.catalog_version !== catalogVersion)
    throw invalid(
      file,
      `it has version ${String(content.schema_version)} for catalogs of version ${String(content.catalog_version)}, but this waybill reads version ${planFileVersion} for catalogs of version ${catalogVersion}`,
    );
  if (digest !== digestOf(canonicalJson(content)))
    throw invalid(file, 'its digest does not match: it was edited or is incomplete');
  if (!isWellFormed(content)) throw invalid(file, 'required fields are missing or invalid');
  return document as PlanFile;
}

/** Checks the fields that are used individually. The rest of a decision is only ever compared as a whole. */
function isWellFormed({
  targets,
  force,
  allow_removals,
  channel,
  decisions,
}: Partial<Record<keyof PlanFile, unknown>>) {
  const isText = (value: unknown): boolean => typeof value === 'string';
  return (
    typeof force === 'boolean' &&
    typeof allow_removals === 'boolean' &&
    (channel === null || isText(channel)) &&
    Array.isArray(targets) &&
    targets.every(
      (target: unknown) =>
        isRecord(target) &&
        isText(target['pipeline_id']) &&
        Array.isArray(target['destination_ids']) &&
        target['destination_ids'].every(isText),
    ) &&
    Array.isArray(decisions) &&
    decisions.every(
      (record: unknown) =>
        isRecord(record) &&
        isText(record['pipeline_id']) &&
        isText(record['destination_id']) &&
        isText(record['destination_path']),
    )
  );
}

function invalid(file: string, reason: string): WaybillError {
  return new WaybillError('plan_invalid', `cannot use the plan ${file}: ${reason}; nothing was published`, {
    hint: 'make a new plan with waybill run --config FILE --dry-run --out PLAN',
  });
}

/*
 * Records a plan's decisions in a file, and compares them with the decisions of a later run.
 */

/**
 * The decision for one bundle path and the state it is based on, with the field names from the plan file. Two
 * decisions are the same if their canonical JSON is.
 */
interface DecisionRecord {
  pipeline_id: string;
  destination_id: string;
  /** Relative to the destination root; `.` for the root. */
  destination_path: string;
  /**
   * The bundle to publish. For an orphan, this is the published bundle, or null if the catalog does not
   * record it.
   */
  bundle: { backend: string; source: string; path: string; created: string } | null;
  /** The digest of `.publisher.json`, or null if there was no such file. */
  state: string | null;
  action: string;
  reason: string;
  changes: { path: string; fate: string; why: string }[];
  outputs: { path: string; kind: string; digest: string; size: number; url: string | null }[];
}

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

type DecisionKey = Pick<DecisionRecord, 'pipeline_id' | 'destination_id' | 'destination_path'>;

export function targetLabel({ pipeline_id, destination_id, destination_path }: DecisionKey): string {
  return `${pipeline_id}/${destination_id} ${destination_path}`;
}

/** Collects decisions by place. Adding another one for the same place replaces the first. */
export class Decisions {
  readonly #byPlace = new Map<string, DecisionRecord>();

  add(record: DecisionRecord): void {
    this.#byPlace.set(targetLabel(record), record);
  }

  get(place: DecisionKey): DecisionRecord | undefined {
    return this.#byPlace.get(targetLabel(place));
  }

  /** Returns all decisions, sorted by place. */
  all(): DecisionRecord[] {
    return [...this.#byPlace].sort(([a], [b]) => compareCodeUnits(a, b)).map(([, record]) => record);
  }
}

/**
 * Describes how the current decision is different from the planned one. Returns null if they are the same.
 */
function differenceOf(
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

const maxFindings = 20;

export function planStale(reason: string, findings: readonly Finding[] = []): WaybillError {
  return new WaybillError('plan_stale', `the plan is out of date: ${reason}`, {
    hint: 'make a new plan with waybill run --config FILE --dry-run --out PLAN and have it approved',
    findings: findings.slice(0, maxFindings),
  });
}

/**
 * Throws a `plan_stale` error unless the decisions are still the planned ones. `isPartial` means that some of
 * them could not be made, in which case a missing decision is not a difference.
 */
export function refuseStalePlan(
  planned: readonly DecisionRecord[],
  current: Decisions,
  { isPartial }: { isPartial: boolean },
): void {
  const findings: Finding[] = [];
  const known = new Set(planned.map(targetLabel));
  for (const record of planned) {
    const now = current.get(record);
    if (now === undefined && isPartial) continue;
    const difference = differenceOf(record, now);
    if (difference !== null) findings.push(differenceFinding(record, difference));
  }
  for (const record of current.all())
    if (!known.has(targetLabel(record))) findings.push(differenceFinding(record, 'it is not in the plan'));
  const [first] = findings;
  if (first === undefined) return;
  const others = findings.length === 1 ? '' : `, and ${findings.length - 1} more`;
  throw planStale(`${first.file ?? ''}: ${first.message}${others}; nothing was changed`, findings);
}

/** Throws a `plan_stale` error if `current` is not the decision planned for its place. */
export function refuseOtherDecision(
  planned: ReadonlyMap<string, DecisionRecord>,
  current: DecisionRecord,
): void {
  const place = targetLabel(current);
  const difference = differenceOf(planned.get(place), current);
  if (difference !== null) throw planStale(`${place}: ${difference} while the plan was being applied`);
}

function differenceFinding(record: DecisionRecord, difference: string): Finding {
  return finding('error', 'plan_stale', difference, { file: targetLabel(record) });
}

/**
 * Returns a digest of every setting that makes a difference for a publication to these destinations. It
 * covers the location and identity of sources but not how to connect to them, and the names of secrets but
 * not their values.
 */
export function configurationDigest(
  targets: readonly { pipeline: PipelineConfig; destinations: readonly DestinationConfig[] }[],
): Digest {
  const settings = targets.map(
    ({ pipeline: { id, source, sourceId, autoManifest, sceneMaps, signatures = null }, destinations }) => ({
      id,
      source:
        source.backend === 'http_upload'
          ? source
          : { backend: source.backend, place: describeLocation(source), id: sourceId },
      autoManifest,
      sceneMaps,
      ...(signatures === null ? {} : { signatures }),
      destinations,
    }),
  );
  return digestOf(canonicalJson(settings));
}
