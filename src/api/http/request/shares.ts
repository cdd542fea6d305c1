import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';
import { WaybillError } from '../../../core/lib/errors.ts';
import { requestContext } from './request-context.ts';

/** A bounded amount of which each owner may take a part, so that one of them cannot take all of it. */
export interface Shares {
  /**
   * Takes `amount` for `owner` if both bounds allow it. Returns the bound that refuses it, `owner` or
   * `total`; null if it was taken.
   */
  take(owner: string, amount: number): 'owner' | 'total' | null;
  /** Returns what `owner` has taken before. */
  give(owner: string, amount: number): void;
  /** The amount that all owners have now. */
  taken(): number;
}

interface ShareBounds {
  total: number;
  perOwner: number;
}

export function createShares({ total, perOwner }: ShareBounds): Shares {
  const owners = new Map<string, number>();
  let taken = 0;
  return {
    take: (owner, amount) => {
      const before = owners.get(owner) ?? 0;
      if (before + amount > perOwner) return 'owner';
      if (taken + amount > total) return 'total';
      owners.set(owner, before + amount);
      taken += amount;
      return null;
    },
    give: (owner, amount) => {
      const left = (owners.get(owner) ?? 0) - amount;
      if (left > 0) owners.set(owner, left);
      else owners.delete(owner);
      taken -= amount;
    },
    taken: () => taken,
  };
}

/** The owner of what a request takes of a bounded amount: its token, or the network of its client. */
interface Caller {
  /** False if the request has shown no token that is known. */
  hasToken: boolean;
  /** Unique among tokens and networks. */
  owner: string;
}

export function callerOf(req: IncomingMessage): Caller {
  const { fields, client = null } = requestContext(req);
  const tokenId = fields['token_id'];
  if (tokenId !== undefined) return { hasToken: true, owner: `token ${tokenId}` };
  return { hasToken: false, owner: `client ${networkOf(client)}` };
}

/**
 * Takes one share for the caller until its response has closed. Throws `quota_exceeded` if the caller has as
 * many as it may have.
 */
export function takeShare(req: IncomingMessage, res: ServerResponse, shares: Shares, what: string): void {
  const { owner } = callerOf(req);
  if (shares.take(owner, 1) !== null) throw quotaExceeded(what);
  res.once('close', () => shares.give(owner, 1));
}

function quotaExceeded(what: string): WaybillError {
  return new WaybillError('quota_exceeded', `this token has as many ${what} as it may have at a time`, {
    hint: 'wait until one of them has ended',
  });
}

/**
 * The address of a client, or its /64 network: a client with one IPv6 address usually has all 2^64 of its
 * network. `unknown` for null.
 */
export function networkOf(client: string | null): string {
  if (client === null || !isIPv6(client)) return client ?? 'unknown';
  const address = ipaddr.IPv6.parse(client);
  if (address.isIPv4MappedAddress()) return address.toIPv4Address().toString();
  return address.toNormalizedString().split(':').slice(0, 4).join(':');
}
