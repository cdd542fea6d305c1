import { canonicalJson } from '../../bundle/manifest.ts';
import { catalogVersion } from '../../catalog/catalog.ts';
import { digestOf, type Digest } from '../../lib/digest.ts';
import { WaybillError } from '../../lib/errors.ts';
import type { DecisionRecord } from './decision-record.ts';

export const planFileVersion = 2;

/** The plan of a run as a file. Its schema is `schemas/plan.schema.json`. */
export interface PlanFile {
  schema_version: typeof planFileVersion;
  kind: 'waybill_plan';
  /** The version of the catalogs that the plan was made for. */
  catalog_version: typeof catalogVersion;
  /** RFC 3339, UTC. */
  created_at: string;
  /** The requested destinations of each pipeline, in publication order. */
  targets: { pipeline_id: string; destination_ids: string[] }[];
  force: boolean;
  allow_removals: boolean;
  /** The channel to publish to; null for the current release and for the in-place layout. */
  channel: string | null;
  /** The `configurationDigest` of the targets. */
  configuration: Digest;
  decisions: DecisionRecord[];
  /** SHA-256 of the canonical JSON (RFC 8785) of everything else. */
  digest: Digest;
}

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
 * Parses a plan file. Throws `plan_invalid` if the bytes are not a plan, the version is not supported, or the
 * digest does not match. Pure.
 */
export function parsePlanFile(bytes: Uint8Array, file: string): PlanFile {
  let document: unknown;
  try {
    document = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    throw invalid(file, `it is not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (typeof document !== 'object' || document === null || !('kind' in document))
    throw invalid(file, 'it is not a waybill plan');
  const { digest, ...content } = document as Partial<PlanFile>;
  if (content.kind !== 'waybill_plan') throw invalid(file, 'it is not a waybill plan');
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

/** Checks the fields that are read one by one. The rest of a decision is only compared as a whole. */
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
  return new WaybillError('plan_invalid', `cannot use the plan ${file}: ${reason}; nothing was published`, {
    hint: 'make a new plan with waybill run --dry-run --out FILE',
  });
}
