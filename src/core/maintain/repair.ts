import { loadBundle } from '../bundle/discover.ts';
import { type Catalog, intentPaths, type OutputRecord, publishedBy } from '../catalog/catalog.ts';
import { readState, requireCatalog } from '../catalog/catalog-store.ts';
import { decideUnderLease, guardWithLease } from '../catalog/lease/with-lease.ts';
import { managedPaths } from '../catalog/managed-paths.ts';
import type { DestinationConfig, PipelineConfig } from '../config/config.ts';
import type { CoreContext } from '../context.ts';
import { type ErrorRecord, errorRecord, WaybillError } from '../lib/errors.ts';
import { type Releaser, withReleasers } from '../lib/lifecycle.ts';
import { apply } from '../publish/apply/apply.ts';
import { findBundles, openSource } from '../publish/find-bundles.ts';
import { planOutputs } from '../publish/outputs.ts';
import type { PlannedOutput, Work } from '../publish/plan.ts';
import { sizeAndDigest, storedBody } from '../storage/body.ts';
import { type Owner, sameOwner } from '../storage/identity.ts';
import { keyOf, parseBundlePath } from '../storage/key.ts';
import type { Body, Storage } from '../storage/storage.ts';
import { subdirectory } from '../storage/wrappers/subdirectory.ts';
import type { VerifyReport } from './verify.ts';

export interface RepairReport {
  /**
   * Outputs that were written again or, in a dry run, would be. `from` is the place where the content was
   * found.
   */
  repaired: { path: string; from: string }[];
  /** Outputs that were not repaired, with the reason. */
  unrepaired: { path: string; reason: string }[];
  /** The reason why nothing could be repaired at this bundle path; null otherwise. */
  error: ErrorRecord | null;
}

interface RepairTarget {
  pipeline: PipelineConfig;
  destination: DestinationConfig;
  /** Rooted at the destination. */
  root: Storage;
  /** Only report. Nothing is written, and no lease is taken. */
  dryRun: boolean;
}

/**
 * Repairs outputs that a verification found to be missing or damaged. The content has to match the record
 * exactly. It is taken from the source or, if the source no longer has it, from another destination of the
 * pipeline. Each bundle path is repaired in a separate attempt, which takes the lease and follows the
 * publication protocol. Returns a report for each bundle path that was verified, or null if there is nothing
 * to repair. If a bundle path fails, its report says so.
 */
export async function repair(
  context: CoreContext,
  target: RepairTarget,
  verified: readonly VerifyReport[],
): Promise<(RepairReport | null)[]> {
  const { pipeline, destination } = target;
  return withReleasers(async (onRelease) => {
    const find = repairSources(context, pipeline, destination, onRelease);
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
  find: FindRepairSource,
): Promise<RepairReport> {
  const owner = { pipelineId: pipeline.id, destinationId: destination.id };
  const storage = subdirectory(root, parseBundlePath(destinationPath));
  const report: RepairReport = { repaired: [], unrepaired: [], error: null };
  try {
    const catalog = settledCatalog(requireCatalog((await readState(storage)).state));
    const damaged = new Set(differing.map(({ path }) => path));
    const found = new Map<string, { record: OutputRecord; supply: RepairSource }>();
    for (const record of catalog.outputs.filter(({ path }) => damaged.has(path))) {
      const supply = sameOwner(record.owner, owner) ? await find(destinationPath, record) : null;
      if (supply === null)
        report.unrepaired.push({ path: record.path, reason: refusalReason(record, owner) });
      else found.set(record.path, { record, supply });
    }
    const written = dryRun
      ? new Set(found.keys())
      : await rewriteFiles(context, storage, { owner, destination, destinationPath }, found);
    for (const [path, { supply }] of found)
      if (written.has(path)) report.repaired.push({ path, from: supply.from });
      else report.unrepaired.push({ path, reason: 'it was published again in the meantime' });
    return report;
  } catch (error) {
    return { ...report, repaired: [], error: errorRecord(error) };
  }
}

function refusalReason({ owner }: OutputRecord, own: Owner): string {
  return sameOwner(owner, own)
    ? 'neither the source nor another destination of the pipeline has this content'
    : `it belongs to ${owner.pipelineId}/${owner.destinationId}; repair it there`;
}

/** Writes the files again. Returns their paths. */
async function rewriteFiles(
  context: CoreContext,
  storage: Storage,
  place: { owner: Owner; destination: DestinationConfig; destinationPath: string },
  found: ReadonlyMap<string, { record: OutputRecord; supply: RepairSource }>,
): Promise<Set<string>> {
  if (found.size === 0) return new Set();
  const { clock, log, signal } = context;
  return decideUnderLease(context, storage, async (lease) => {
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
      // If the record is newer, the file has been written since it was verified.
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
        storage: guardWithLease(storage, lease),
        lease,
        clock,
        log,
        concurrency: place.destination.fileConcurrency,
        signal,
      });
    return new Set(writes.map(({ path }) => path));
  });
}

/**
 * Returns the catalog. If there is an unfinished attempt, throws a `state_conflict` error, since the next run
 * will write those files anyway.
 */
function settledCatalog(catalog: Catalog): Catalog {
  if (catalog.pending === null) return catalog;
  throw new WaybillError('state_conflict', 'an attempt did not finish', {
    hint: 'finish it with waybill run, or upload again; then verify again',
  });
}

/*
 * Finds the original content of outputs that have to be repaired.
 */

/**
 * The content of a record, which has been verified. `from` is `source`, or something like `destination
 * "web"`.
 */
interface RepairSource {
  from: string;
  body: Body;
}

/**
 * Looks for the content of a record that was published under `destinationPath`. Returns null if no place has
 * it.
 */
type FindRepairSource = (destinationPath: string, record: OutputRecord) => Promise<RepairSource | null>;

/**
 * Looks in the pipeline's source first, and then in its other destinations. If one of them cannot be read, it
 * is skipped with a warning in the log. Storages are opened as needed, and registered with `onRelease`.
 */
function repairSources(
  context: CoreContext,
  pipeline: PipelineConfig,
  destination: DestinationConfig,
  onRelease: (release: Releaser) => void,
): FindRepairSource {
  const open = async (location: Parameters<CoreContext['openStorage']>[0]): Promise<Storage> => {
    const storage = await context.openStorage(location, { readOnly: true, mustExist: true, dryRun: true });
    onRelease(() => storage.close());
    return storage;
  };
  const places = [
    { from: 'source', find: memoizeAsync(() => fromSource(context, onRelease, pipeline, destination)) },
    ...pipeline.destinations
      .filter(({ id }) => id !== destination.id)
      .map(({ id, location }) => ({
        from: `destination "${id}"`,
        find: memoizeAsync(async () => fromDestination(await open(location))),
      })),
  ];
  return async (destinationPath, record) => {
    for (const { from, find } of places) {
      try {
        const body = await (await find())(destinationPath, record);
        if (body !== null) return { from, body };
      } catch (error) {
        context.log.warn({ err: error, from }, 'reading content for a repair failed');
      }
    }
    return null;
  };
}

type FindBody = (destinationPath: string, record: OutputRecord) => Promise<Body | null>;

function memoizeAsync<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => (made ??= make());
}

/** Looks in the outputs that would be published from the source right now. */
async function fromSource(
  context: CoreContext,
  onRelease: (release: Releaser) => void,
  pipeline: PipelineConfig,
  destination: DestinationConfig,
): Promise<FindBody> {
  const { id: pipelineId, source, sourceId, sceneMaps } = pipeline;
  if (source.backend === 'http_upload') return async () => null;
  const storage = await openSource(context, { ...pipeline, source }, { dryRun: true });
  onRelease(() => storage.close());
  const { candidates } = await findBundles(context, storage, pipeline, { dryRun: true });
  const origin = { backend: source.backend, id: sourceId, sceneMaps };
  const owner = { pipelineId, destinationId: destination.id };
  return async (destinationPath, record) => {
    const candidate = candidates.find(({ path }) => path === record.source.path);
    if (candidate === undefined) return null;
    const bundle = await loadBundle(storage, candidate, origin);
    const options = { owner, destination, destinationPath, recorded: [record] };
    const output = (await planOutputs(bundle, options)).find(({ path }) => path === record.path);
    return output === undefined ? null : verified(output.body, record);
  };
}

/**
 * Looks in the records of another destination. The path may be different, as long as the digest is the same.
 */
async function fromDestination(root: Storage): Promise<FindBody> {
  const places = new Map<string, { storage: Storage; record: OutputRecord }[]>();
  for (const path of await managedPaths(root)) {
    const storage = subdirectory(root, path);
    const { state } = await readState(storage);
    if (state.kind !== 'valid') continue;
    const announced = intentPaths(state.catalog.pending);
    for (const record of state.catalog.outputs) {
      if (announced.has(record.path)) continue;
      const same = places.get(record.digest) ?? [];
      same.push({ storage, record });
      places.set(record.digest, same);
    }
  }
  return async (_destinationPath, wanted) => {
    for (const { storage, record } of places.get(wanted.digest) ?? []) {
      const body = await verified(
        storedBody(storage, { key: keyOf(record.path), size: wanted.size }),
        wanted,
      );
      if (body !== null) return body;
    }
    return null;
  };
}

async function verified(body: Body, { digest, size }: OutputRecord): Promise<Body | null> {
  if (body.size !== size) return null;
  const found = await sizeAndDigest(body.open()).catch(() => null);
  return found?.digest === digest && found.size === size ? body : null;
}
