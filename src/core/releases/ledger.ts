import { compareCodeUnits } from '../paths.ts';
import type { ReleaseId } from './release.ts';

/**
 * What has to be remembered of the releases of a bundle path beside the pointer. Which release is current is
 * said by the pointer alone, and nothing here contradicts it: where the two are changed in two steps, this
 * comes first, and is without effect until the pointer follows.
 */
export interface Ledger {
  /** One for each release that was current, or was about to be; the one that became so last at the end. */
  history: readonly Activation[];
  /**
   * What was rolled back, for as long as that holds. Usually one at most: a second one is there while another
   * rollback is under way, so that the first holds until that is done.
   */
  rollbacks: readonly Rollback[];
  /** Releases that are being removed, and can no longer become current. */
  removing: readonly ReleaseId[];
  /** Sorted by name. One that is announced here is known, whether or not its pointer is there yet. */
  channels: readonly Channel[];
  /** Releases that a channel led to before, for as long as they are there. */
  leftByChannels: readonly { id: ReleaseId; leftAt: string }[];
}

/** A second pointer beside the current one, for a time. */
export interface Channel {
  name: string;
  /** What it leads to, or is about to. */
  id: ReleaseId;
  /** RFC 3339, UTC: when it was set last, and when its time is over. */
  setAt: string;
  expiresAt: string;
}

export interface Activation {
  id: ReleaseId;
  /** RFC 3339, UTC. */
  activatedAt: string;
  /** When another became current instead; null if none did yet, or if this one never was. */
  leftAt: string | null;
}

/** Effective as long as `to` is current. */
export interface Rollback {
  to: ReleaseId;
  /** Releases that do not become current again by themselves. */
  from: readonly ReleaseId[];
}

/** What readers are given, and what is remembered. */
export interface Releases {
  ledger: Ledger;
  /** Null if there is no pointer, or it names no release (see `foreignTarget`). */
  current: ReleaseId | null;
  /** What the pointer names instead of a release; null if it names one, or there is none. */
  foreignTarget: string | null;
  /** What the pointers of the channels name, by channel; those that name no release are not in it. */
  channels: ReadonlyMap<string, ReleaseId>;
}

export const emptyLedger: Ledger = {
  ...{ history: [], rollbacks: [], removing: [] },
  ...{ channels: [], leftByChannels: [] },
};

export const noReleases: Releases = {
  ...{ ledger: emptyLedger, current: null, foreignTarget: null },
  channels: new Map<string, ReleaseId>(),
};

/** The releases that were rolled back and do not become current by themselves. Pure. */
export function rolledBack({ ledger, current }: Pick<Releases, 'ledger' | 'current'>): ReleaseId[] {
  return effective({ ledger, current }).flatMap(({ from }) => [...from]);
}

/**
 * The release that a rollback goes to unless told otherwise: of those that were current before, the last one
 * that was not itself rolled back, and is not being removed. Null if there is none. Pure.
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
 * The ledger for a switch to `to`. Rollbacks that are effective stay: they become ineffective with the
 * switch, and hold if that never happens. `rollback` is set if this is one. Pure.
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

/** Once no pointer leads to a release any more: the bundle path is taken down. Pure. */
export function leaving({ ledger, current }: Releases, now: string): Ledger {
  const history = ledger.history.map((one) => (one.id === current ? { ...one, leftAt: now } : one));
  return { ...ledger, history, rollbacks: [], channels: [] };
}

/** The rollback that a switch from the current release to `to` is. Pure. */
export function rollbackTo(releases: Releases, to: ReleaseId): Rollback {
  const { current } = releases;
  const from = new Set([...rolledBack(releases), ...(current === null ? [] : [current])]);
  from.delete(to);
  return { to, from: [...from] };
}

/** Without any rollback. Pure. */
export function resumed(ledger: Ledger): Ledger {
  return { ...ledger, rollbacks: [] };
}

/** Announces that these are removed. Pure. */
export function announcing(ledger: Ledger, ids: readonly ReleaseId[]): Ledger {
  return { ...ledger, removing: [...new Set([...ledger.removing, ...ids])].sort() };
}

/** Once these were removed. What is not announced any more may be there anew, and is left as it is. Pure. */
export function forgetting(ledger: Ledger, ids: readonly ReleaseId[]): Ledger {
  const gone = new Set(ids.filter((id) => ledger.removing.includes(id)));
  return {
    ...ledger,
    history: ledger.history.filter(({ id }) => !gone.has(id)),
    removing: ledger.removing.filter((id) => !gone.has(id)),
    leftByChannels: ledger.leftByChannels.filter(({ id }) => !gone.has(id)),
  };
}

/** The ledger for a channel that is about to lead to another release, or to stay for longer. Pure. */
export function withChannel(releases: Releases, channel: Channel): Ledger {
  const { ledger } = releases;
  const others = ledger.channels.filter(({ name }) => name !== channel.name);
  const channels = [...others, channel].sort((a, b) => compareCodeUnits(a.name, b.name));
  const left = ledTo(releases, [channel.name]).filter((id) => id !== channel.id);
  return { ...ledger, channels, leftByChannels: leftSince(ledger, left, channel.setAt) };
}

/** Once these channels are gone. Pure. */
export function withoutChannels(releases: Releases, names: readonly string[], now: string): Ledger {
  const { ledger } = releases;
  const channels = ledger.channels.filter(({ name }) => !names.includes(name));
  return { ...ledger, channels, leftByChannels: leftSince(ledger, ledTo(releases, names), now) };
}

/** The channels whose time is over. Pure. */
export function expiredChannels({ ledger }: Pick<Releases, 'ledger'>, now: Date): string[] {
  const isOver = ({ expiresAt }: Channel): boolean => Date.parse(expiresAt) <= now.getTime();
  return ledger.channels.filter(isOver).map(({ name }) => name);
}

/** What readers of these channels have, or are about to have; of all channels by default. Pure. */
export function ledTo({ ledger, channels }: Releases, names?: readonly string[]): ReleaseId[] {
  const isMeant = (name: string): boolean => names?.includes(name) ?? true;
  const announced = ledger.channels.filter(({ name }) => isMeant(name)).map(({ id }) => id);
  const seen = [...channels].filter(([name]) => isMeant(name)).map(([, id]) => id);
  return [...new Set([...seen, ...announced])];
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
