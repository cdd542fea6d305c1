import { canonicalJson } from '../bundle/manifest.ts';
import { catalogVersion } from '../catalog/catalog.ts';
import { digestOf, type Digest } from '../digest.ts';
import { WaybillError } from '../errors.ts';
import type { DecisionRecord } from './decision-record.ts';

export const planFileVersion = 2;

/** The plan of a run as a file: `schemas/plan.schema.json`. */
export interface PlanFile {
  schema_version: typeof planFileVersion;
  kind: 'waybill_plan';
  /** Of the catalogs that it was made for. */
  catalog_version: typeof catalogVersion;
  /** RFC 3339, UTC. */
  created_at: string;
  /** What was asked for: the destinations of each pipeline, in the order in which they are published to. */
  targets: { pipeline_id: string; destination_ids: string[] }[];
  force: boolean;
  allow_removals: boolean;
  /** The channel that is published to; null for the current release, and in place. */
  channel: string | null;
  /** Of all settings of the targets. */
  configuration: Digest;
  decisions: DecisionRecord[];
  /** SHA-256 of the canonical JSON (RFC 8785) of everything else. */
  digest: Digest;
}

/** Everything of a plan that is not the same in each. */
export type PlanContent = Pick<
  PlanFile,
  'created_at' | 'targets' | 'force' | 'allow_removals' | 'channel' | 'configuration' | 'decisions'
>;

/** Pure. */
export function planFile(content: PlanContent): PlanFile {
  const whole = {
    schema_version: planFileVersion,
    kind: 'waybill_plan',
    catalog_version: catalogVersion,
    ...content,
  } as const;
  return { ...whole, digest: digestOf(canonicalJson(whole)) };
}

/**
 * Reads a plan. Throws `plan_invalid` if the bytes are none, if it is of another version, or if it was
 * edited: what has the right digest was written by `planFile`. Pure.
 */
export function parsePlanFile(bytes: Uint8Array, file: string): PlanFile {
  let document: unknown;
  try {
    document = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    throw invalid(file, `it is not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (typeof document !== 'object' || document === null || !('kind' in document))
    throw invalid(file, 'it is not a plan of waybill');
  const { digest, ...content } = document as Partial<PlanFile>;
  if (content.kind !== 'waybill_plan') throw invalid(file, 'it is not a plan of waybill');
  if (content.schema_version !== planFileVersion || content.catalog_version !== catalogVersion)
    throw invalid(
      file,
      `it is of version ${String(content.schema_version)}, for catalogs of version ${String(content.catalog_version)}, and this waybill takes version ${planFileVersion} for ${catalogVersion}`,
    );
  if (digest !== digestOf(canonicalJson(content)))
    throw invalid(file, 'its digest is not that of its content: it was edited, or is cut short');
  if (!isWellFormed(content)) throw invalid(file, 'it lacks what a plan has');
  return document as PlanFile;
}

/** What is read of a plan before its decisions are held against new ones, as whole documents. */
function isWellFormed({
  targets,
  force,
  allow_removals,
  channel,
  decisions,
}: Partial<Record<keyof PlanFile, unknown>>) {
  const isText = (value: unknown): boolean => typeof value === 'string';
  const isObject = (value: unknown): value is Record<string, unknown> =>
    typeof value === 'object' && value !== null;
  return (
    typeof force === 'boolean' &&
    typeof allow_removals === 'boolean' &&
    (channel === null || isText(channel)) &&
    Array.isArray(targets) &&
    targets.every(
      (target: unknown) =>
        isObject(target) &&
        isText(target['pipeline_id']) &&
        Array.isArray(target['destination_ids']) &&
        target['destination_ids'].every(isText),
    ) &&
    Array.isArray(decisions) &&
    decisions.every(
      (record: unknown) =>
        isObject(record) &&
        isText(record['pipeline_id']) &&
        isText(record['destination_id']) &&
        isText(record['destination_path']),
    )
  );
}

function invalid(file: string, reason: string): WaybillError {
  return new WaybillError('plan_invalid', `the plan ${file} cannot be used: ${reason}; nothing was begun`, {
    hint: 'make it anew: waybill run --dry-run --out FILE',
  });
}
