import type { IncomingMessage } from 'node:http';
import { networkOf } from './client-network.ts';
import { requestContext } from './request-context.ts';

/** The owner of what a request takes of a bounded amount: its token, or the network of its client. */
export interface Caller {
  /** False if the request has shown no token that is known. */
  hasToken: boolean;
  /** Unique among tokens, or among networks. */
  owner: string;
}

export function callerOf(req: IncomingMessage): Caller {
  const { fields, client = null } = requestContext(req);
  const tokenId = fields['token_id'];
  if (tokenId !== undefined) return { hasToken: true, owner: String(tokenId) };
  return { hasToken: false, owner: networkOf(client) };
}
