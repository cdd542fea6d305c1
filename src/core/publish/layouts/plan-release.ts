import { intentPaths, type OutputRecord, publishedBy } from '../../catalog/catalog.ts';
import { readState, type StoredState } from '../../catalog/catalog-store.ts';
import type { DestinationConfig } from '../../config/config.ts';
import { WaybillError } from '../../lib/errors.ts';
import { compareInstants } from '../../lib/instant.ts';
import { compareCodeUnits, describeBundlePath } from '../../lib/paths.ts';
import { type Releases, rolledBackReleases } from '../../releases/ledger.ts';
import { currentLinkKey, type ReleaseId, releaseIdOf } from '../../releases/release.ts';
import { readReleases } from '../../releases/releases-store.ts';
import { releaseStorage } from '../../releases/stored-releases.ts';
import { sameOwner } from '../../storage/identity.ts';
import type { Storage } from '../../storage/storage.ts';
import { findDamage } from '../decision/damage.ts';
import { decide } from '../decision/decide.ts';
import { emptyObservation } from '../decision/observe.ts';
import { byPath, isSettledByState, matchesRecord, reusableOutputs } from '../decision/records.ts';
import { enforceLimits } from '../decision/refusals.ts';
import {
  changesDestination,
  type Damage,
  type DecisionBasis,
  type DecisionInput,
  type Observation,
  type Plan,
  type PlannedOutput,
} from '../plan.ts';
import type { PublishRequest } from '../publish-request.ts';
import { toPlannedOutputs } from './migration.ts';

/*
 * Reads what is at a bundle path before publishing a release there.
 */

/**
 * The state of a bundle path as seen through one of its pointers: all pointers, the ledger, and the published
 * catalog.
 */
export interface Snapshot {
  releases: Releases;
  /** The channel to publish to; null for the current release. */
  channel: string | null;
  /** The release that the channel points at or, without a channel, the release that is current. */
  pointer: ReleaseId | null;
  /** The release that readers see: `pointer` or, if the channel has none, the current release. */
  visible: ReleaseId | null;
  /** The state of `visible`. If there is no release yet, the state of the files in place. */
  stored: StoredState;
  /** Rooted at the files that `stored` records; null if there is no state. */
  base: Storage | null;
}

/** Reports whether the bundle path uses the in-place layout. If so, its files have to be migrated first. */
export function isInPlace({ visible, base }: Snapshot): boolean {
  return visible === null && base !== null;
}

/**
 * Reads the pointers, the ledger and one catalog of the bundle path that `storage` is rooted at. Throws
 * `unmanaged_content` if the pointer's name is taken by a foreign file, and `state_conflict` if the in-place
 * catalog cannot be read or the ledger is malformed.
 */
export async function readSnapshot(
  storage: Storage,
  destinationPath: string,
  channel: string | null,
): Promise<Snapshot> {
  const releases = await readReleases(storage);
  const { current, foreignTarget } = releases;
  const pointer = channel === null ? current : (releases.channels.get(channel) ?? null);
  const visible = pointer ?? current;
  const found = { releases, channel, pointer };
  const where = describeBundlePath(destinationPath);
  if (foreignTarget !== null)
    throw foreignPointer(where, `leads to "${foreignTarget}", which is not a release`);
  if (visible !== null) {
    const base = releaseStorage(storage, visible);
    return { ...found, visible, stored: await readState(base), base };
  }
  const stored = await readState(storage);
  const inTheWay = storage.rename === undefined ? undefined : await storage.stat(currentLinkKey);
  if (inTheWay !== undefined) throw blocked(where, stored);
  if (stored.state.kind === 'absent') return { ...found, visible, stored, base: null };
  if (stored.state.kind !== 'valid') throw unreadableInPlace(where);
  return { ...found, visible, stored, base: storage };
}

function foreignPointer(where: string, what: string): WaybillError {
  return new WaybillError(
    'unmanaged_content',
    `${where}: "${currentLinkKey}" ${what}: waybill did not create it`,
    {
      hint: 'check it, because readers may follow it; then move it away and run again',
    },
  );
}

function blocked(where: string, { state }: StoredState): WaybillError {
  const isOutput = ({ path }: OutputRecord): boolean => `${path}/`.startsWith(`${currentLinkKey}/`);
  if (state.kind !== 'valid' || !state.catalog.outputs.some(isOutput))
    return foreignPointer(where, 'is not a symbolic link');
  return new WaybillError(
    'state_conflict',
    `${where} is published with \`layout: in_place\` and has an output at "${currentLinkKey}", where the pointer of the releases would be`,
    { hint: 'publish once in place without that output, or publish the releases at another path' },
  );
}

function unreadableInPlace(where: string): WaybillError {
  return new WaybillError(
    'state_conflict',
    `${where} is published with \`layout: in_place\`, and its catalog cannot be read`,
    {
      hint: 'publish there once with `layout: in_place` to repair the catalog or see what is wrong with it',
    },
  );
}

/*
 * Decides how to publish a bundle as a release.
 */

export interface PlannedRelease {
  id: ReleaseId;
  /** All outputs, sorted by path. This includes those that an additive publication carries over. */
  content: readonly PlannedOutput[];
  /** Paths whose content is the same in the current release. */
  same: ReadonlySet<string>;
}

export interface ReleasePlan {
  /**
   * The changes that readers will see, computed as though the outputs replaced the current release in place.
   */
  plan: Plan;
  /** The release to publish; null if nothing changes or if this release was rolled back. */
  release: PlannedRelease | null;
  /** The release whose rollback prevents this publication; null otherwise. */
  heldBack: ReleaseId | null;
}

/**
 * Decides whether to publish a release, and what goes into it. `storage` is rooted at the bundle path. Throws
 * any error from `newDecider` or `onDecided`, `state_conflict` if the current release is missing outputs
 * that an additive publication needs to carry over, or the storage's error.
 */
export async function planRelease(
  storage: Storage,
  snapshot: Snapshot,
  destination: Pick<DestinationConfig, 'stale' | 'limits'>,
  input: DecisionBasis,
  { allowRemovals = false, onDecided }: Pick<PublishRequest, 'allowRemovals' | 'onDecided'>,
): Promise<ReleasePlan> {
  const { stored } = snapshot;
  const decided = await decideAgainst(storage, snapshot, input);
  const release = changesDestination(decided.action) ? await contentOf(snapshot, decided) : null;
  const heldBack = release === null ? null : await findHeldBack(storage, snapshot, release.id, input);
  const plan = heldBack === null ? decided : unchanged(decided, heldBack);
  const guards = snapshot.pointer === snapshot.visible ? destination : noLimits;
  enforceLimits(plan, stored, guards, { force: input.force, allowRemovals });
  onDecided?.({ plan, planned: input.planned, stored });
  return { plan, release: heldBack === null ? release : null, heldBack };
}

/**
 * Limits for the first publication to a channel. It cannot remove anything or replace a newer bundle, so
 * there is nothing to limit.
 */
const noLimits = { stale: 'publish', limits: { maxRemoved: null } } as const;

async function decideAgainst(
  storage: Storage,
  { stored: { state }, base }: Snapshot,
  input: DecisionBasis,
): Promise<Plan> {
  const seen: Observation = { ...emptyObservation(state, storage), maxBackupBytes: null };
  const other = state.kind === 'valid' ? otherOwner(state.catalog.outputs, input) : null;
  if (other !== null) return planTakeover(input, seen, other);
  if (isSettledByState(input, state)) return decide({ ...input, observed: { ...seen, isSettled: true } });
  if (state.kind !== 'valid' || base === null) return decide({ ...input, observed: seen });
  const reusable = reusableOutputs(input.planned, state.catalog, storage.facts);
  const damaged = await damagedIn(base, reusable);
  return decide({ ...input, observed: { ...seen, damaged } });
}

function otherOwner(
  outputs: readonly OutputRecord[],
  { owner }: Pick<DecisionInput, 'owner'>,
): string | null {
  const other = outputs.find((record) => !sameOwner(record.owner, owner))?.owner;
  return other === undefined ? null : `${other.pipelineId}/${other.destinationId}`;
}

/**
 * Plans to take over a bundle path from another owner, which requires force. A release always belongs to a
 * single owner, because a rollback restores all of it. This owner's release becomes current; the other
 * owner's release is kept in case of a rollback.
 */
function planTakeover(input: DecisionBasis, seen: Observation, other: string): Plan {
  const plan = decide({ ...input, observed: { ...seen, state: { kind: 'absent' } } });
  const message = `the current release was published by ${other}`;
  const reason = { code: 'release_of_other_owner', message } as const;
  if (input.force) return { ...plan, action: 'force_replace', reason };
  return { ...emptyPlan(plan), action: 'fail_unmanaged', reason };
}

function unchanged(plan: Plan, heldBack: ReleaseId): Plan {
  const message = `release ${heldBack} was rolled back, and runs do not make it current again`;
  return { ...emptyPlan(plan), action: 'skip_same', reason: { code: 'rolled_back', message } };
}

function emptyPlan(plan: Plan): Plan {
  return {
    ...plan,
    writes: [],
    kept: [],
    removes: [],
    unkept: [],
    untouched: [],
    changes: [],
    clears: false,
  };
}

async function contentOf(
  { visible, stored: { state }, base }: Snapshot,
  { bundle, writes, kept, untouched, destinationPath }: Plan,
): Promise<PlannedRelease> {
  const carried = base === null ? [] : toPlannedOutputs(base, untouched);
  if (base !== null && visible !== null) {
    const [missing] = (await damagedIn(base, carried)).keys();
    if (missing !== undefined) throw missingOutputError(destinationPath, visible, missing);
  }
  const content = [...writes, ...kept, ...carried].sort((a, b) => compareCodeUnits(a.path, b.path));
  const announced = intentPaths(state.kind === 'valid' ? state.catalog.pending : null);
  const same = [...kept, ...carried].map(({ path }) => path).filter((path) => !announced.has(path));
  return { id: releaseIdOf(bundle.created, content), content, same: new Set<string>(same) };
}

async function damagedIn(
  release: Storage,
  outputs: readonly PlannedOutput[],
): Promise<ReadonlyMap<string, Damage>> {
  return findDamage(release, outputs, release.localFiles === undefined);
}

function missingOutputError(destinationPath: string, shown: ReleaseId, path: string): WaybillError {
  const where = destinationPath === '.' ? '' : `${destinationPath}/`;
  return new WaybillError(
    'state_conflict',
    `"${path}" of the current release ${shown} is missing or damaged, and an additive publication carries it over`,
    { hint: `run waybill verify --repair to restore it, or check ${where}releases/${shown}` },
  );
}

/**
 * Returns the rolled-back release that this plan would publish again, or null if there is none. Usually its
 * id is the same. An additive plan may carry over different outputs by now, so the planned outputs are
 * compared as well.
 */
async function findHeldBack(
  storage: Storage,
  { releases, channel }: Snapshot,
  id: ReleaseId,
  { owner, bundle, planned }: DecisionBasis,
): Promise<ReleaseId | null> {
  if (channel !== null) return null;
  for (const held of rolledBackReleases(releases)) {
    if (held === id) return held;
    const { state } = await readState(releaseStorage(storage, held));
    const published = publishedBy(state, owner);
    if (state.kind !== 'valid' || published === null) continue;
    const records = byPath(state.catalog.outputs);
    const isSame = planned.every((output) => equalsRecord(records.get(output.path), output));
    if (isSame && compareInstants(published.created, bundle.created) === 0) return held;
  }
  return null;
}

/**
 * Compares an output with its record. Two signed statements count as equal even if they name different runs.
 */
function equalsRecord(record: OutputRecord | undefined, output: PlannedOutput): boolean {
  if (record === undefined || output.includesRunId !== true) return matchesRecord(record, output);
  return matchesRecord(record, { ...output, digest: record.digest, size: record.size });
}
