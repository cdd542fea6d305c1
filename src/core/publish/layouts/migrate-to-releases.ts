import type { Catalog } from '../../catalog/catalog.ts';
import { isSameBytes, readState, requireCatalog, type StoredState } from '../../catalog/catalog-store.ts';
import { isContention } from '../../catalog/lease/lease.ts';
import { withLease } from '../../catalog/lease/with-lease.ts';
import { settleInterrupted } from '../../catalog/settle-interrupted.ts';
import { pathWithin } from '../../lib/paths.ts';
import { withoutRollbacks } from '../../releases/ledger.ts';
import { type ReleaseId, releaseIdOf, releaseKey } from '../../releases/release.ts';
import { requireReleases } from '../../releases/releases-store.ts';
import { activate } from '../../releases/switch.ts';
import { fillRelease, type ReleaseContents } from './fill-release.ts';
import type { Candidate, Migration, PublicationTask } from './layout.ts';
import { formerContent } from './migration.ts';
import { isInPlace, type PlannedRelease, type Snapshot } from './plan-release.ts';

/*
 * Moves a bundle path from the in-place layout to releases by turning the published files into the first
 * release.
 */

interface MigrationToReleases extends Migration {
  /** The release that will be made from the files published in place. */
  release: PlannedRelease;
  /**
   * The snapshot as it will look once the release is current. The files are still read from their old
   * location, though.
   */
  snapshot: Snapshot;
}

/**
 * Plans a release of the files that are recorded as published in place. Returns null if there are none. If an
 * interrupted attempt may have touched some of them, checks those first. `storage` is rooted at the bundle
 * path. Throws `not_owned` if other owners have outputs there, any error from `acquireLease` if another
 * publisher is active, or the storage's error.
 */
export async function migrationToReleases(
  task: PublicationTask,
  snapshot: Snapshot,
  candidate: Candidate,
): Promise<MigrationToReleases | null> {
  if (!isInPlace(snapshot)) return null;
  const { context, storage, publication, request } = task;
  const pick = async (found: StoredState): Promise<MigrationToReleases> => {
    const catalog = requireCatalog(found.state);
    const { outputs } = await settleInterrupted(storage, catalog);
    const settled = { ...catalog, outputs, pending: null };
    const input = candidate.input(request);
    const { bundle, content } = await formerContent(storage, settled, input);
    const id = releaseIdOf(bundle.created, content);
    const same = new Set<string>(content.map(({ path }) => path));
    const release = { id, content, same };
    const filling: ReleaseContents = {
      release,
      plan: { owner: input.owner, bundle },
      base: '',
      destinationPath: pathWithin(input.destinationPath, releaseKey(id)),
      destination: publication.destination,
    };
    const there = outputs.filter(({ path }) => same.has(path));
    return {
      release,
      snapshot: afterMigration(snapshot, id, { ...settled, outputs: there }),
      execute: async () => carryOut(task, filling, found),
    };
  };
  if (request.dryRun || requireCatalog(snapshot.stored.state).pending === null) return pick(snapshot.stored);
  return withLease(context, storage, async ({ found }) => pick(found));
}

/** Returns the snapshot as it will be after the migration, so that the publication can be decided on that. */
function afterMigration(snapshot: Snapshot, current: ReleaseId, catalog: Catalog): Snapshot {
  const { releases, channel, pointer, stored } = snapshot;
  return {
    ...snapshot,
    // Making a release current cancels any rollback.
    releases: { ...releases, ledger: withoutRollbacks(releases.ledger), current },
    pointer: channel === null ? current : pointer,
    visible: current,
    stored: { ...stored, state: { kind: 'valid', catalog } },
  };
}

/**
 * Creates the release and makes it current. The files in place and their catalog stay. Returns false without
 * switching if another publisher published or switched in the meantime. Throws the same errors as
 * `fillRelease` and `changeReleases`.
 */
async function carryOut(
  { context, storage }: PublicationTask,
  filling: ReleaseContents,
  found: StoredState,
): Promise<boolean> {
  const isStill = async (): Promise<boolean> => isSameBytes((await readState(storage)).raw, found.raw);
  await requireReleases(storage);
  try {
    await fillRelease(context, storage, filling);
    const to = filling.release.id;
    const options = { dryRun: false, from: null, isStill };
    const { outcome } = await activate(context, storage, to, options);
    return outcome !== 'refused';
  } catch (error) {
    // Another process may have removed the files while we were reading them.
    if (isContention(error) || !(await isStill())) return false;
    throw error;
  }
}
