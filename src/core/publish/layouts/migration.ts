import { type Catalog, type OutputRecord, publishedBy } from '../../catalog/catalog.ts';
import { type Finding, finding, WaybillError } from '../../lib/errors.ts';
import { compareCodeUnits, describeBundlePath, pathWithin } from '../../lib/paths.ts';
import type { Layout } from '../../releases/release.ts';
import { storedBody } from '../../storage/body.ts';
import { type Owner, sameOwner } from '../../storage/identity.ts';
import { keyOf } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { findDamage } from '../decision/damage.ts';
import type { BundleIdentity, DecisionInput, PlannedOutput } from '../plan.ts';
import type { BundlePublication, PublishRequest } from '../publish-request.ts';
import type { ActionResult } from '../results/result.ts';

/*
 * Moves a bundle path from one layout to the other. The published outputs move first, before anything new is
 * published. The old files stay available to readers until they are unpublished.
 */

interface FormerContent {
  bundle: BundleIdentity;
  /** The recorded outputs that still exist, sorted by path. Their content is read from the old location. */
  content: readonly PlannedOutput[];
}

/**
 * Returns the outputs in the catalog whose files still exist in `storage` and match their records. `bundle`
 * is a fallback for catalogs from older waybill versions, which did not record the bundle. Throws `not_owned`
 * if other owners have outputs there, since the migration would lose them, or the storage's error.
 */
export async function formerContent(
  storage: Storage,
  catalog: Catalog,
  { owner, destinationPath, bundle }: Pick<DecisionInput, 'owner' | 'destinationPath' | 'bundle'>,
): Promise<FormerContent> {
  const { outputs: records } = catalog;
  const other = records.find((record) => !sameOwner(record.owner, owner))?.owner;
  if (other !== undefined) throw otherOwnerError(destinationPath, other);
  const outputs = toPlannedOutputs(storage, records);
  const damaged = await findDamage(storage, outputs, storage.localFiles === undefined);
  const content = outputs
    .filter(({ path }) => !damaged.has(path))
    .sort((a, b) => compareCodeUnits(a.path, b.path));
  const { source, created } = publishedBy({ kind: 'valid', catalog }, owner) ?? bundle;
  return { bundle: { source, created }, content };
}

/** Turns records into outputs that read their content from the published files. */
export function toPlannedOutputs(storage: Storage, records: readonly OutputRecord[]): PlannedOutput[] {
  return records.map(({ path, owner, source, kind, digest, size, generated, url }) => {
    const body = storedBody(storage, { key: keyOf(path), size });
    return { path, owner, source, kind, digest, size, generated, url, body };
  });
}

function otherOwnerError(destinationPath: string, { pipelineId, destinationId }: Owner): WaybillError {
  return new WaybillError(
    'not_owned',
    `${describeBundlePath(destinationPath)} has outputs of ${pipelineId}/${destinationId}, which a change of layout would take over; nothing was changed`,
    {
      hint: `publish to another path, or unpublish it with --pipeline ${pipelineId} --destination ${destinationId}`,
    },
  );
}

/*
 * Reports that a bundle path has changed its layout.
 */

/**
 * Adds a layout migration to a result: warns the administrator, and reports outputs as changed even if their
 * content is not.
 */
export function asLayoutChange(
  result: ActionResult,
  from: Layout,
  { destinationPath, warn }: Pick<BundlePublication, 'destinationPath' | 'warn'>,
  { dryRun }: Pick<PublishRequest, 'dryRun'>,
): ActionResult {
  if (result.error !== null) return result;
  warn?.(layoutWarning(from, destinationPath, dryRun));
  if (result.action !== 'skip_same') return result;
  const to = from === 'in_place' ? 'releases' : 'in_place';
  const message = `the layout changed from \`layout: ${from}\` to \`layout: ${to}\``;
  return { ...result, action: 'replace_catalog', reason: { code: 'layout_changed', message } };
}

/**
 * Returns a warning that asks the administrator to point the web server at the new location and unpublish the
 * old one.
 */
function layoutWarning(from: Layout, destinationPath: string, dryRun: boolean): Finding {
  const serve =
    from === 'in_place'
      ? `have it served from "${pathWithin(destinationPath, 'current')}"`
      : `have it served from ${describeBundlePath(destinationPath)} itself`;
  const leftovers = from === 'in_place' ? 'the files that were published in place' : 'its releases';
  const message = `target=${destinationPath}: the layout ${dryRun ? 'would change' : 'has changed'}: ${serve}, then remove ${leftovers} with waybill unpublish --layout ${from} ${destinationPath}`;
  return finding('warning', 'layout_changed', message);
}
