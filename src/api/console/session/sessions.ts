import { createHash, randomBytes } from 'node:crypto';
import { parseCookie } from 'cookie';
import type { Request, Response } from 'express';
import type { Clock } from '../../../core/clock.ts';
import type { Current } from '../../../core/current.ts';
import { isExpired, type Token } from '../../http/auth.ts';
import type { OperatorAccess } from '../../runs/pipeline-access.ts';
import { forgottenSessions } from './forgotten-sessions.ts';
import type { Session, SessionSeal } from './session-seal.ts';

/** Somebody who is logged in. */
export interface Visitor {
  /** As it is configured now. */
  token: Token;
  /** It is the token of `server.admin_token_env`. */
  isAdmin: boolean;
  session: Session;
}

export interface SessionPorts {
  http: { basePath: string };
  clock: Clock;
  configured: Current<OperatorAccess>;
}

export interface SessionOptions {
  seal: SessionSeal;
  /** How long somebody stays logged in, in milliseconds. */
  lifetimeMs: number;
}

/** Who is logged in, by the cookie of the request. */
export interface Sessions {
  begin(req: Pick<Request, 'secure'>, res: Response, token: Token): Promise<void>;
  /** Null for whoever is not logged in, or not any more: the token is gone, another one, or has expired. */
  find(req: Pick<Request, 'headers'>): Promise<Visitor | null>;
  /** Of this browser, and of whoever has a copy of its cookie on this host. */
  end(req: Pick<Request, 'secure'>, res: Response, visitor: Visitor): void;
  /** Why a visitor of before is none any more; null if it still is one. */
  refusalOf(visitor: Visitor): 'token_expired' | 'token_revoked' | null;
}

export const cookieName = 'waybill_session';

export function createSessions(ports: SessionPorts, { seal, lifetimeMs }: SessionOptions): Sessions {
  const { http, clock, configured } = ports;
  const forgotten = forgottenSessions(clock);
  // Express knows by the trusted proxies whether the browser speaks TLS.
  const attributes = ({ secure }: Pick<Request, 'secure'>): object => ({
    httpOnly: true,
    sameSite: 'strict',
    secure,
    path: http.basePath,
  });
  const holderOf = (tokenId: string, fingerprint: string): Token | undefined => {
    const { tokens, adminToken } = configured.get();
    const known = adminToken === null ? tokens : [...tokens, adminToken];
    return known.find((token) => token.id === tokenId && fingerprintOf(token) === fingerprint);
  };
  const refusalOf = ({ session }: Visitor): 'token_expired' | 'token_revoked' | null => {
    const token = holderOf(session.tokenId, session.fingerprint);
    if (token === undefined || forgotten.has(session.id)) return 'token_revoked';
    return isExpired(token, clock) || clock.now() >= session.expiresAt ? 'token_expired' : null;
  };
  return {
    begin: async (req, res, token) => {
      const expiresAt = new Date(
        Math.min(clock.now().getTime() + lifetimeMs, token.expiresAt?.getTime() ?? Infinity),
      );
      const session = {
        id: nonce(),
        tokenId: token.id,
        fingerprint: fingerprintOf(token),
        csrf: nonce(),
        expiresAt,
      };
      const maxAge = expiresAt.getTime() - clock.now().getTime();
      res.cookie(cookieName, await seal.seal(session), { ...attributes(req), maxAge });
    },
    find: async (req) => {
      const sealed = parseCookie(req.headers.cookie ?? '')[cookieName];
      if (sealed === undefined) return null;
      const session = await seal.open(sealed, clock.now());
      if (session === null) return null;
      const token = holderOf(session.tokenId, session.fingerprint);
      if (token === undefined) return null;
      const visitor = { token, isAdmin: token === configured.get().adminToken, session };
      return refusalOf(visitor) === null ? visitor : null;
    },
    end: (req, res, { session }) => {
      forgotten.add(session);
      res.clearCookie(cookieName, attributes(req));
    },
    refusalOf,
  };
}

/** Tells one value of a token from another, and nothing about either. */
function fingerprintOf({ hash }: Token): string {
  return createHash('sha256').update('waybill console').update(hash).digest('base64url').slice(0, 22);
}

function nonce(): string {
  return randomBytes(16).toString('base64url');
}
