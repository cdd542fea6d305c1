import { compareCodeUnits } from '../lib/paths.ts';
import type { ReleaseId } from './release.ts';

/*
 * The ledger of a bundle path's releases, and the pure functions that change it.
 */

/**
 * Facts about the releases of a bundle path that the pointer does not hold. The pointer alone determines the
 * current release. If both change in two steps, the ledger changes first, and its change has no effect until
 * the pointer follows.
 */
export interface Ledger {
  /** One entry per release that was or was about to be current. The latest is last. */
  history: readonly Activation[];
  /**
   * The effective rollbacks, usually at most one. During a second rollback there are two, so that the first
   * stays effective until the switch.
   */
  rollbacks: readonly Rollback[];
  /** Releases that are being removed and can no longer become current. */
  removing: readonly ReleaseId[];
  /** Sorted by name. Includes channels whose pointer does not exist yet. */
  channels: readonly Channel[];
  /** Releases that a channel pointed at before, until they are removed. */
  leftByChannels: readonly { id: ReleaseId; leftAt: string }[];
}

/** A named pointer that expires, in addition to the current one. */
export interface Channel {
  name: string;
  /** The release that it points at or is about to point at. */
  id: ReleaseId;
  /** RFC 3339, UTC: the time of the last publication to it. */
  setAt: string;
  /** RFC 3339, UTC. */
  expiresAt: string;
}

export interface Activation {
  id: ReleaseId;
  /** RFC 3339, UTC. */
  activatedAt: string;
  /** When another release replaced it; null if none did, or if it never became current. */
  leftAt: string | null;
}

/** Effective while `to` is current. */
export interface Rollback {
  to: ReleaseId;
  /** Releases that runs do not make current again. */
  from: readonly ReleaseId[];
}

/** The pointers and the ledger of a bundle path. */
export interface Releases {
  ledger: Ledger;
  /** null if there is no pointer or it does not point at a release (see `foreignTarget`). */
  current: ReleaseId | null;
  /** The target of a pointer that does not point at a release; otherwise null. */
  foreignTarget: string | null;
  /** The releases that the channels' pointers point at. Omits pointers with another target. */
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

/** Returns the releases that were rolled back, so that runs do not make them current again. */
export function rolledBack({ ledger, current }: Pick<Releases, 'ledger' | 'current'>): ReleaseId[] {
  return effective({ ledger, current }).flatMap(({ from }) => [...from]);
}

/**
 * Returns the default target of a rollback: the most recent earlier release that was not rolled back itself
 * and is not being removed, or null if there is none.
 */
export function lastGood(releases: Releases): ReleaseId | null {
  const { ledger, current } = releases;
  const excluded = new Set<ReleaseId | null>([current, ...rolledBack(releases), ...ledger.removing]);
  let last: { id: ReleaseId; leftAt: string } | null = null;
  for (const { id, leftAt } of ledger.history)
    if (leftAt !== null && !excluded.has(id) && (last === null || leftAt >= last.leftAt))
      last = { id, leftAt };
  return last?.id ?? null;
}

/**
 * Returns the ledger to write before a switch to `to`. Effective rollbacks are kept: the switch makes them
 * ineffective, and they must hold if it never happens. `rollback` is null unless the switch is a rollback.
 */
export function beforeSwitch(
  { ledger, current }: Releases,
  to: ReleaseId,
  now: string,
  rollback: Rollback | null,
): Ledger {
  const known = new Map(ledger.history.map((activation) => [activation.id, activation]));
  const history = ledger.history.filter(({ id }) => id !== to && id !== current);
  if (current !== null)
    history.push({ id: current, activatedAt: known.get(current)?.activatedAt ?? now, leftAt: now });
  history.push({ id: to, activatedAt: now, leftAt: known.get(to)?.leftAt ?? null });
  const rollbacks = effective({ ledger, current });
  return { ...ledger, history, rollbacks: rollback === null ? rollbacks : [...rollbacks, rollback] };
}

/** Returns the ledger after the bundle path was unpublished, with all pointers removed. */
export function leaving({ ledger, current }: Releases, now: string): Ledger {
  const history = ledger.history.map((one) => (one.id === current ? { ...one, leftAt: now } : one));
  return { ...ledger, history, rollbacks: [], channels: [] };
}

/** Returns the rollback from the current release to `to`. */
export function rollbackTo(releases: Releases, to: ReleaseId): Rollback {
  const { current } = releases;
  const from = new Set([...rolledBack(releases), ...(current === null ? [] : [current])]);
  from.delete(to);
  return { to, from: [...from] };
}

/** Returns the ledger without rollbacks. */
export function resumed(ledger: Ledger): Ledger {
  return { ...ledger, rollbacks: [] };
}

/** Returns the ledger that announces the removal of these releases. */
export function announcing(ledger: Ledger, ids: readonly ReleaseId[]): Ledger {
  return { ...ledger, removing: [...new Set([...ledger.removing, ...ids])].sort() };
}

/**
 * Returns the ledger after these releases were removed. An id that is no longer announced is kept, because
 * the release may have been published again.
 */
export function forgetting(ledger: Ledger, ids: readonly ReleaseId[]): Ledger {
  const gone = new Set(ids.filter((id) => ledger.removing.includes(id)));
  return {
    ...ledger,
    history: ledger.history.filter(({ id }) => !gone.has(id)),
    removing: ledger.removing.filter((id) => !gone.has(id)),
    leftByChannels: ledger.leftByChannels.filter(({ id }) => !gone.has(id)),
  };
}

/** Returns the ledger to write before a channel switches to another release or is renewed. */
export function withChannel(releases: Releases, channel: Channel): Ledger {
  const { ledger } = releases;
  const others = ledger.channels.filter(({ name }) => name !== channel.name);
  const channels = [...others, channel].sort((a, b) => compareCodeUnits(a.name, b.name));
  const left = channelTargets(releases, [channel.name]).filter((id) => id !== channel.id);
  return { ...ledger, channels, leftByChannels: leftSince(ledger, left, channel.setAt) };
}

/** Returns the ledger after these channels were removed. */
export function withoutChannels(releases: Releases, names: readonly string[], now: string): Ledger {
  const { ledger } = releases;
  const channels = ledger.channels.filter(({ name }) => !names.includes(name));
  return { ...ledger, channels, leftByChannels: leftSince(ledger, channelTargets(releases, names), now) };
}

/** Returns the names of the expired channels. */
export function expiredChannels({ ledger }: Pick<Releases, 'ledger'>, now: Date): string[] {
  const isOver = ({ expiresAt }: Channel): boolean => Date.parse(expiresAt) <= now.getTime();
  return ledger.channels.filter(isOver).map(({ name }) => name);
}

/** Returns the releases that these channels point at or are about to point at. Default: all channels. */
export function channelTargets({ ledger, channels }: Releases, names?: readonly string[]): ReleaseId[] {
  const isSelected = (name: string): boolean => names?.includes(name) ?? true;
  const announced = ledger.channels.filter(({ name }) => isSelected(name)).map(({ id }) => id);
  const pointedAt = [...channels].filter(([name]) => isSelected(name)).map(([, id]) => id);
  return [...new Set([...pointedAt, ...announced])];
}

function leftSince(
  { leftByChannels }: Ledger,
  ids: readonly ReleaseId[],
  leftAt: string,
): Ledger['leftByChannels'] {
  const others = leftByChannels.filter(({ id }) => !ids.includes(id));
  return [...others, ...ids.map((id) => ({ id, leftAt }))];
}

function effective({ ledger, current }: Pick<Releases, 'ledger' | 'current'>): Rollback[] {
  return ledger.rollbacks.filter(({ to }) => to === current);
}
