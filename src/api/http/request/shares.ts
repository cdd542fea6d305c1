import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';
import { WaybillError } from '../../../core/lib/errors.ts';
import { onClosed } from './client-connection.ts';
import { requestContext } from './request-context.ts';

/** Divides a limited amount of something among several owners. Each owner also has a limit. */
export interface Shares {
  /**
   * Takes `amount` for `owner` and returns null. If that would exceed a limit, takes nothing and returns
   * which limit it is: `owner` or `total`.
   */
  take(owner: string, amount: number): 'owner' | 'total' | null;
  /** Releases an amount that `owner` took earlier. */
  give(owner: string, amount: number): void;
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

/** Identifies the owner of a request's share: its token or, without one, the client's network. */
interface Caller {
  /** True if the request has a valid token. */
  hasToken: boolean;
  /** A key that is unique for each token and each network. */
  owner: string;
}

export function callerOf(req: IncomingMessage): Caller {
  const { fields, client = null } = requestContext(req);
  const tokenId = fields['token_id'];
  if (tokenId !== undefined) return { hasToken: true, owner: `token ${tokenId}` };
  return { hasToken: false, owner: `client ${networkOf(client)}` };
}

/**
 * Takes one share for the caller and gives it back when the response is closed. Throws `quota_exceeded` if a
 * limit is reached.
 */
export function takeShare(req: IncomingMessage, res: ServerResponse, shares: Shares, what: string): void {
  const { owner } = callerOf(req);
  if (shares.take(owner, 1) !== null) throw quotaExceeded(what);
  onClosed(res, () => shares.give(owner, 1));
}

function quotaExceeded(what: string): WaybillError {
  return new WaybillError('quota_exceeded', `this token has the maximum number of ${what}`, {
    hint: 'wait until one of them has ended',
  });
}

/**
 * Returns the address of an IPv4 client, or the /64 network of an IPv6 client, because such a client usually
 * controls its whole /64. Returns `unknown` for null.
 */
export function networkOf(client: string | null): string {
  if (client === null || !isIPv6(client)) return client ?? 'unknown';
  const address = ipaddr.IPv6.parse(client);
  if (address.isIPv4MappedAddress()) return address.toIPv4Address().toString();
  return address.toNormalizedString().split(':').slice(0, 4).join(':');
}
