import { compareCodeUnits } from '../lib/paths.ts';
import type { ReleaseId } from './release.ts';

/*
 * The ledger of a bundle path's releases, and the functions that change it.
 */

/**
 * Facts about a bundle path's releases that are not in the pointer. The pointer alone determines the current
 * release. If the two are changed in separate steps, the ledger is written first, and its change takes effect
 * only once the pointer follows.
 */
export interface Ledger {
  /** One entry per release that was, or was about to become, current. The latest entry is last. */
  history: readonly Activation[];
  /**
   * The rollbacks in effect, usually at most one. During a second rollback there are two, so that the first
   * stays in effect until the switch.
   */
  rollbacks: readonly Rollback[];
  /** Releases that are being removed and can no longer become current. */
  removing: readonly ReleaseId[];
  /** Sorted by name. Includes channels whose pointer does not exist yet. */
  channels: readonly Channel[];
  /** Releases that a channel used to point at. They are listed until they are removed. */
  leftByChannels: readonly { id: ReleaseId; leftAt: string }[];
}

/** A named pointer that expires, in addition to the current pointer. */
export interface Channel {
  name: string;
  /** The release that it points at, or is about to point at. */
  id: ReleaseId;
  /** The time of the last publication to it, as RFC 3339 in UTC. */
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

/** A rollback. It is in effect while `to` is current. */
export interface Rollback {
  to: ReleaseId;
  /** The releases that runs must not make current again. */
  from: readonly ReleaseId[];
}

/** The pointers and the ledger of a bundle path. */
export interface Releases {
  ledger: Ledger;
  /** null if there is no pointer or it does not point at a release (see `foreignTarget`). */
  current: ReleaseId | null;
  /** The target of a pointer that does not point at a release; otherwise null. */
  foreignTarget: string | null;
  /** The release that each channel's pointer points at. Omits pointers that do not point at a release. */
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
 * Returns the default rollback target, or null if there is none. It is the most recent earlier release that
 * was not itself rolled back and is not being removed.
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
 * Returns the ledger to write before a switch to `to`. Rollbacks in effect are kept: the switch will end
 * them, but they must stay in effect if it never happens. `rollback` is null unless the switch is a rollback.
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

/** Returns the releases that these channels point at, or are about to point at. Default: all channels. */
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
