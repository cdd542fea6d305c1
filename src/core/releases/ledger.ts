import { compareCodeUnits } from '../lib/paths.ts';
import type { ReleaseId } from './release.ts';

/*
 * The ledger of a bundle path's releases. Functions that change it return a new one.
 */

/**
 * The history, rollbacks and channels of a bundle path. Only the pointer decides which release is current. If
 * the two cannot be changed together, the ledger is written first, and the change takes effect when the
 * pointer has been switched.
 */
export interface Ledger {
  /** One entry for each release that was current, or was going to be. The last one is the latest. */
  history: readonly Activation[];
  /**
   * The rollbacks in effect. Normally, there is one at most. A second rollback adds another, because the
   * first one must not end before the switch.
   */
  rollbacks: readonly Rollback[];
  /** Releases that are being removed, so they must not become current anymore. */
  removing: readonly ReleaseId[];
  /** Sorted by name. A channel can be listed before its pointer exists. */
  channels: readonly Channel[];
  /** Releases that channels no longer point at. They stay in this list until they are removed. */
  leftByChannels: readonly { id: ReleaseId; leftAt: string }[];
}

/** A pointer with a name, next to the current pointer. It expires after a while. */
export interface Channel {
  name: string;
  /** The release that it points at or will soon point at. */
  id: ReleaseId;
  /** The last time something was published to it (RFC 3339, UTC). */
  setAt: string;
  /** RFC 3339, UTC. */
  expiresAt: string;
}

export interface Activation {
  id: ReleaseId;
  /** RFC 3339, UTC. */
  activatedAt: string;
  /** The time when another release replaced it; null if none did, or if it never became current after all. */
  leftAt: string | null;
  /** Whether a rollback left it, or passed it. It stays in this state until it becomes current again. */
  wasRolledBack: boolean;
}

/** A rollback, which is in effect while `to` is the current release. */
export interface Rollback {
  to: ReleaseId;
  /** The releases that were rolled back. Runs must not make them current again. */
  from: readonly ReleaseId[];
}

/** The pointers and the ledger of a bundle path. */
export interface Releases {
  ledger: Ledger;
  /** null if there is no pointer, or if it points at something else (see `foreignTarget`). */
  current: ReleaseId | null;
  /** The target of the pointer, if it is not a release; null otherwise. */
  foreignTarget: string | null;
  /**
   * The release that each channel points at. A channel whose pointer points at something else is left out.
   */
  channels: ReadonlyMap<string, ReleaseId>;
}

export const emptyLedger: Ledger = {
  history: [],
  rollbacks: [],
  removing: [],
  channels: [],
  leftByChannels: [],
};

export const noReleases: Releases = {
  ledger: emptyLedger,
  current: null,
  foreignTarget: null,
  channels: new Map<string, ReleaseId>(),
};

/** Returns the releases that have been rolled back and that runs must not make current again. */
export function rolledBackReleases({ ledger, current }: Pick<Releases, 'ledger' | 'current'>): ReleaseId[] {
  return effectiveRollbacks({ ledger, current }).flatMap(({ from }) => [...from]);
}

/**
 * Returns the release to roll back to by default, or null if there is none. It is the last one that was
 * current before, leaving out releases that were ever rolled back or are being removed.
 */
export function lastGoodRelease(releases: Releases): ReleaseId | null {
  const { ledger, current } = releases;
  const excluded = new Set<ReleaseId | null>([current, ...rolledBackReleases(releases), ...ledger.removing]);
  let last: { id: ReleaseId; leftAt: string } | null = null;
  for (const { id, leftAt, wasRolledBack } of ledger.history)
    if (leftAt !== null && !wasRolledBack && !excluded.has(id) && (last === null || leftAt >= last.leftAt))
      last = { id, leftAt };
  return last?.id ?? null;
}

/**
 * Returns the ledger to write before switching to `to`. Current rollbacks are still in it: the switch ends
 * them, but if it never happens, they must remain in effect. `rollback` is null unless this is a rollback
 * itself.
 */
export function withActivation(
  { ledger, current }: Releases,
  to: ReleaseId,
  now: string,
  rollback: Rollback | null,
): Ledger {
  const known = new Map(ledger.history.map((activation) => [activation.id, activation]));
  const isRollback = rollback !== null;
  const earlier = ledger.history.findIndex(({ id }) => id === to);
  const history = ledger.history
    .map((one, index) =>
      isRollback && earlier >= 0 && index > earlier ? { ...one, wasRolledBack: true } : one,
    )
    .filter(({ id }) => id !== to && id !== current);
  if (current !== null) {
    const activatedAt = known.get(current)?.activatedAt ?? now;
    history.push({ id: current, activatedAt, leftAt: now, wasRolledBack: isRollback });
  }
  history.push({ id: to, activatedAt: now, leftAt: known.get(to)?.leftAt ?? null, wasRolledBack: false });
  const rollbacks = effectiveRollbacks({ ledger, current });
  return { ...ledger, history, rollbacks: rollback === null ? rollbacks : [...rollbacks, rollback] };
}

/**
 * Returns the ledger for a bundle path that has been unpublished, so that nothing points at a release
 * anymore.
 */
export function withNoCurrent({ ledger, current }: Releases, now: string): Ledger {
  const history = ledger.history.map((one) => (one.id === current ? { ...one, leftAt: now } : one));
  return { ...ledger, history, rollbacks: [], channels: [] };
}

/** Returns a rollback from the current release to `to`. */
export function createRollback(releases: Releases, to: ReleaseId): Rollback {
  const { current } = releases;
  const from = new Set([...rolledBackReleases(releases), ...(current === null ? [] : [current])]);
  from.delete(to);
  return { to, from: [...from] };
}

export function withoutRollbacks(ledger: Ledger): Ledger {
  return { ...ledger, rollbacks: [] };
}

/** Returns the ledger with these releases added to those that are being removed. */
export function withRemoving(ledger: Ledger, ids: readonly ReleaseId[]): Ledger {
  return { ...ledger, removing: [...new Set([...ledger.removing, ...ids])].sort() };
}

/**
 * Returns the ledger once these releases are gone. If one of them is not being removed anymore, it may have
 * been published again, so it stays.
 */
export function withoutReleases(ledger: Ledger, ids: readonly ReleaseId[]): Ledger {
  const removedIds = new Set(ids.filter((id) => ledger.removing.includes(id)));
  return {
    ...ledger,
    history: ledger.history.filter(({ id }) => !removedIds.has(id)),
    removing: ledger.removing.filter((id) => !removedIds.has(id)),
    leftByChannels: ledger.leftByChannels.filter(({ id }) => !removedIds.has(id)),
  };
}

/** Returns the ledger to write before switching a channel, or extending its life. */
export function withChannel(releases: Releases, channel: Channel): Ledger {
  const { ledger } = releases;
  const others = ledger.channels.filter(({ name }) => name !== channel.name);
  const channels = [...others, channel].sort((a, b) => compareCodeUnits(a.name, b.name));
  const leftTargets = channelTargets(releases, [channel.name]).filter((id) => id !== channel.id);
  return { ...ledger, channels, leftByChannels: addLeft(ledger, leftTargets, channel.setAt) };
}

/** Returns the ledger without these channels, which have been removed. */
export function withoutChannels(releases: Releases, names: readonly string[], now: string): Ledger {
  const { ledger } = releases;
  const channels = ledger.channels.filter(({ name }) => !names.includes(name));
  return { ...ledger, channels, leftByChannels: addLeft(ledger, channelTargets(releases, names), now) };
}

export function expiredChannels({ ledger }: Pick<Releases, 'ledger'>, now: Date): string[] {
  const isOver = ({ expiresAt }: Channel): boolean => Date.parse(expiresAt) <= now.getTime();
  return ledger.channels.filter(isOver).map(({ name }) => name);
}

/** Returns the releases that these channels point at or will soon point at. Default: all channels. */
export function channelTargets({ ledger, channels }: Releases, names?: readonly string[]): ReleaseId[] {
  const isSelected = (name: string): boolean => names?.includes(name) ?? true;
  const announced = ledger.channels.filter(({ name }) => isSelected(name)).map(({ id }) => id);
  const pointedAt = [...channels].filter(([name]) => isSelected(name)).map(([, id]) => id);
  return [...new Set([...pointedAt, ...announced])];
}

function addLeft(
  { leftByChannels }: Ledger,
  ids: readonly ReleaseId[],
  leftAt: string,
): Ledger['leftByChannels'] {
  const others = leftByChannels.filter(({ id }) => !ids.includes(id));
  return [...others, ...ids.map((id) => ({ id, leftAt }))];
}

function effectiveRollbacks({ ledger, current }: Pick<Releases, 'ledger' | 'current'>): Rollback[] {
  return ledger.rollbacks.filter(({ to }) => to === current);
}
