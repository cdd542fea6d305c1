import type { IncomingMessage, ServerResponse } from 'node:http';
import { WaybillError } from '../../../core/lib/errors.ts';
import { networkOf } from './client-network.ts';
import { requestContext } from './request-context.ts';
import type { Shares } from './shares.ts';

/** The owner of what a request takes of a bounded amount: its token, or the network of its client. */
export interface Caller {
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
