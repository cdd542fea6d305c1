import { type Catalog, type OutputRecord, publishedBy } from '../catalog/catalog.ts';
import { readState, requireCatalog } from '../catalog/store.ts';
import type { DestinationConfig, PipelineConfig } from '../config/config.ts';
import type { CoreContext } from '../context.ts';
import { errorRecord, WaybillError, type ErrorRecord } from '../lib/errors.ts';
import { sameOwner, type Owner } from '../storage/identity.ts';
import { whileHeld, decidingUnderLease } from '../catalog/lease/with-lease.ts';
import { withReleasers } from '../lib/lifecycle.ts';
import { apply } from '../publish/apply/apply.ts';
import type { PlannedOutput, Work } from '../publish/plan.ts';
import { parseBundlePath } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { within } from '../storage/wrappers/within.ts';
import { supplies, type FindSupply, type Supply } from './supplies.ts';
import type { VerifyReport } from './verify.ts';

export interface RepairReport {
  /** Outputs that were or, in a dry run, would be rewritten. `from` names the source of the content. */
  repaired: { path: string; from: string }[];
  /** Outputs that were not repaired, and why. */
  unrepaired: { path: string; reason: string }[];
  /** Why nothing at this bundle path was repaired; otherwise null. */
  error: ErrorRecord | null;
}

export interface RepairTarget {
  pipeline: PipelineConfig;
  destination: DestinationConfig;
  /** Rooted at the destination. */
  root: Storage;
  /** Writes nothing and takes no lease. */
  dryRun: boolean;
}

/**
 * Rewrites the outputs that a verification found missing or different, with exactly the recorded content. It
 * comes from the source or, if the source no longer has it, from another destination of the pipeline. Each
 * bundle path is a separate attempt, under its lease and with the protocol of a publication. Returns a report
 * for each verified bundle path, or null if there was nothing to repair. Failures at a bundle path are in its
 * report.
 */
export async function repair(
  context: CoreContext,
  target: RepairTarget,
  verified: readonly VerifyReport[],
): Promise<(RepairReport | null)[]> {
  const { pipeline, destination } = target;
  return withReleasers(async (onRelease) => {
    const find = supplies(context, pipeline, destination, onRelease);
    const reports: (RepairReport | null)[] = [];
    for (const report of verified)
      reports.push(report.differing.length === 0 ? null : await repairPath(context, target, report, find));
    return reports;
  });
}

async function repairPath(
  context: CoreContext,
  { pipeline, destination, root, dryRun }: RepairTarget,
  { destinationPath, differing }: VerifyReport,
  find: FindSupply,
): Promise<RepairReport> {
  const owner = { pipelineId: pipeline.id, destinationId: destination.id };
  const storage = within(root, parseBundlePath(destinationPath));
  const report: RepairReport = { repaired: [], unrepaired: [], error: null };
  try {
    const catalog = settledCatalog(requireCatalog((await readState(storage)).state));
    const damaged = new Set(differing.map(({ path }) => path));
    const found = new Map<string, { record: OutputRecord; supply: Supply }>();
    for (const record of catalog.outputs.filter(({ path }) => damaged.has(path))) {
      const supply = sameOwner(record.owner, owner) ? await find(destinationPath, record) : null;
      if (supply === null) report.unrepaired.push({ path: record.path, reason: whyNot(record, owner) });
      else found.set(record.path, { record, supply });
    }
    const written = dryRun
      ? new Set(found.keys())
      : await writeAgain(context, storage, { owner, destination, destinationPath }, found);
    for (const [path, { supply }] of found)
      if (written.has(path)) report.repaired.push({ path, from: supply.from });
      else report.unrepaired.push({ path, reason: 'it was published again in the meantime' });
    return report;
  } catch (error) {
    return { ...report, repaired: [], error: errorRecord(error) };
  }
}

function whyNot({ owner }: OutputRecord, own: Owner): string {
  return sameOwner(owner, own)
    ? 'neither the source nor another destination of the pipeline has this content'
    : `it belongs to ${owner.pipelineId}/${owner.destinationId}; repair it there`;
}

/** Returns the paths that were written. */
async function writeAgain(
  context: CoreContext,
  storage: Storage,
  place: { owner: Owner; destination: DestinationConfig; destinationPath: string },
  found: ReadonlyMap<string, { record: OutputRecord; supply: Supply }>,
): Promise<Set<string>> {
  if (found.size === 0) return new Set();
  const { clock, log, signal } = context;
  return decidingUnderLease(context, storage, async (lease) => {
    const catalog = settledCatalog(requireCatalog(lease.found.state));
    const bundle = publishedBy(lease.found.state, place.owner);
    if (bundle === null)
      throw new WaybillError('state_conflict', 'the catalog does not record which bundle was published', {
        hint: 'an older version wrote it: remove the differing files, then run reconcile-state and publish again',
      });
    const writes: PlannedOutput[] = [];
    const untouched: OutputRecord[] = [];
    for (const record of catalog.outputs) {
      const known = found.get(record.path);
      // A newer record means that the file was written again since the verification.
      if (known?.record.updatedAt === record.updatedAt) writes.push({ ...record, body: known.supply.body });
      else untouched.push(record);
    }
    const work: Work = {
      owner: place.owner,
      bundle,
      action: 'upsert_additive',
      writes,
      kept: [],
      removes: [],
      clears: false,
      untouched,
    };
    if (writes.length > 0)
      await apply(work, {
        storage: whileHeld(storage, lease),
        lease,
        clock,
        log,
        concurrency: place.destination.fileConcurrency,
        ...(signal === undefined ? {} : { signal }),
      });
    return new Set(writes.map(({ path }) => path));
  });
}

/** Throws `state_conflict` if an attempt did not finish, because the next run will rewrite its files. */
function settledCatalog(catalog: Catalog): Catalog {
  if (catalog.pending === null) return catalog;
  throw new WaybillError('state_conflict', 'an attempt did not finish', {
    hint: 'run `waybill run` (or upload again) to finish it, then verify again',
  });
}
