import type { LeaseContext } from '../catalog/lease/with-lease.ts';
import type { Storage } from '../storage/storage.ts';
import { expiredChannels, type Releases, withChannel, withoutChannels } from './ledger.ts';
import { channelLinkKey, parsePointerTarget, type ReleaseId } from './release.ts';
import { changeReleases } from './releases-store.ts';
import { type SwitchRefusal, unusableReason } from './stored-releases.ts';

/*
 * Channels are named pointers that exist next to the current pointer and expire after a while. A release is
 * not removed as long as a channel points at it, but publishing to a channel does not make the release a
 * rollback target.
 */

interface ChannelSwitch {
  name: string;
  to: ReleaseId;
  /** The release that the channel pointed at when this was decided; null if it did not exist. */
  from: ReleaseId | null;
  /** How long until the channel expires, in milliseconds. */
  ttlMs: number;
}

/**
 * Points a channel at a release that was just published, or extends the channel's life. Returns null if that
 * worked. Refuses if another process has switched the channel in the meantime, if the release is incomplete
 * or being removed, or if there already is a foreign file with the pointer's name. Throws the same errors as
 * `changeReleases`.
 */
export async function setChannel(
  context: LeaseContext,
  storage: Storage,
  { name, to, from, ttlMs }: ChannelSwitch,
): Promise<SwitchRefusal | null> {
  return changeReleases(context, storage, async (releases) => {
    const refusal = await refusalOf(storage, releases, { name, to, from });
    if (refusal !== null) return { result: refusal, next: null };
    const now = context.clock.now();
    const expiresAt = new Date(now.getTime() + ttlMs).toISOString();
    const ledger = withChannel(releases, { name, id: to, setAt: now.toISOString(), expiresAt });
    return {
      result: null,
      next: { ledger, current: releases.current, channels: new Map([[name, to]]) },
    };
  });
}

async function refusalOf(
  storage: Storage,
  releases: Releases,
  { name, to, from }: Omit<ChannelSwitch, 'ttlMs'>,
): Promise<SwitchRefusal | null> {
  const found = releases.channels.get(name) ?? null;
  if (found !== from && found !== to) return { why: 'overtaken', id: to };
  if (releases.ledger.removing.includes(to)) return { why: 'being_removed', id: to };
  const obstacle = await unusableReason(storage, to);
  if (obstacle !== null) return { ...obstacle, id: to };
  const isTaken = found === null && !(await isFree(storage, name));
  return isTaken ? { why: 'name_taken', name } : null;
}

/**
 * Returns false if a foreign file has the pointer's name. This cannot happen on an object store, where
 * channels are fields of the pointer object.
 */
async function isFree(storage: Storage, name: string): Promise<boolean> {
  if (storage.readLink === undefined) return true;
  const key = channelLinkKey(name);
  const target = await storage.readLink(key);
  if (target !== null) return parsePointerTarget(target) !== null;
  return (await storage.stat(key)) === undefined;
}

/**
 * Removes the expired channels and returns their names. The pointers are removed first. Throws the same
 * errors as `changeReleases`.
 */
export async function removeExpiredChannels(context: LeaseContext, storage: Storage): Promise<string[]> {
  return removing(context, storage, (releases) => expiredChannels(releases, context.clock.now()));
}

/**
 * Removes a channel before it expires. Returns false if it does not exist. Throws the same errors as
 * `changeReleases`.
 */
export async function removeChannel(context: LeaseContext, storage: Storage, name: string): Promise<boolean> {
  const named = ({ ledger: { channels } }: Releases): string[] =>
    channels.filter((channel) => channel.name === name).map((channel) => channel.name);
  return (await removing(context, storage, named)).length > 0;
}

async function removing(
  context: LeaseContext,
  storage: Storage,
  select: (releases: Releases) => string[],
): Promise<string[]> {
  return changeReleases(context, storage, async (releases) => {
    const names = select(releases);
    if (names.length === 0) return { result: names, next: null };
    const ledger = withoutChannels(releases, names, context.clock.now().toISOString());
    const channels = new Map(names.map((name) => [name, null]));
    return { result: names, next: { ledger, current: releases.current, channels } };
  });
}
