import { createHash, randomBytes } from 'node:crypto';
import { parseCookie } from 'cookie';
import type { Request, Response } from 'express';
import type { Clock } from '../../../core/lib/clock.ts';
import type { Current } from '../../../core/lib/current.ts';
import type { EndedSessions } from '../../../workers/queue/ended-sessions.ts';
import { isExpired, type Token } from '../../http/auth.ts';
import type { OperatorAccess } from '../../runs/pipeline-access.ts';
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
  endedSessions: Pick<EndedSessions, 'add' | 'among'>;
}

export interface SessionOptions {
  seal: SessionSeal;
  /** How long somebody stays logged in, in milliseconds. */
  lifetimeMs: number;
}

/** Who is logged in, by the cookie of the request. */
export interface Sessions {
  begin(req: Pick<Request, 'secure'>, res: Response, token: Token): Promise<void>;
  /**
   * null if the request has no session, or one that has ended: by a logout, or because the token is gone, has
   * another value, or has expired. Throws `queue_unavailable` if logouts cannot be looked up.
   */
  find(req: Pick<Request, 'headers' | 'secure'>): Promise<Visitor | null>;
  /** Ends the session for every copy of its cookie, on all hosts. Throws `queue_unavailable`. */
  end(req: Pick<Request, 'secure'>, res: Response, visitor: Visitor): Promise<void>;
  /** The visitor with its token as it is configured now; null if it is no longer logged in. */
  current(visitor: Visitor): Visitor | null;
  /** Why a visitor of before is none any more; null if it still is one. */
  refusalOf(visitor: Visitor): 'token_expired' | 'token_revoked' | null;
}

const cookieName = 'waybill_session';
const maxSeen = 10_000;
/** Checks of open streams within this time share one query, in milliseconds. */
const lookEveryMs = 250;

export function createSessions(ports: SessionPorts, { seal, lifetimeMs }: SessionOptions): Sessions {
  const { http, clock, configured, endedSessions } = ports;
  /** The ended sessions that this process has seen lately; `endedSessions` has all of them. */
  const ended = new Set<string>();
  const look = async (ids: readonly string[]): Promise<void> => {
    const found = await endedSessions.among(ids);
    if (ended.size + found.length > maxSeen) ended.clear();
    for (const id of found) ended.add(id);
  };
  /** Sessions of open streams that are looked up next. */
  const checked = new Set<string>();
  const lookSoon = ({ id }: Session): void => {
    if (checked.size === 0) clock.timeout(lookEveryMs, lookUpChecked, { unref: true });
    checked.add(id);
  };
  const lookUpChecked = (): void => {
    const ids = [...checked];
    checked.clear();
    look(ids).catch(() => undefined);
  };
  /**
   * Over TLS the name has a prefix: browsers then take the cookie from this host alone and never over plain
   * HTTP. `__Host-` also needs the path `/`.
   */
  const nameFor = ({ secure }: Pick<Request, 'secure'>): string => {
    if (!secure) return cookieName;
    return `${http.basePath === '/' ? '__Host-' : '__Secure-'}${cookieName}`;
  };
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
    // A logout on another host is seen at the next check.
    lookSoon(session);
    if (token === undefined || ended.has(session.id)) return 'token_revoked';
    return isExpired(token, clock) || clock.now() >= session.expiresAt ? 'token_expired' : null;
  };
  const current = ({ session }: Pick<Visitor, 'session'>): Visitor | null => {
    const token = holderOf(session.tokenId, session.fingerprint);
    if (token === undefined) return null;
    const visitor = { token, isAdmin: token === configured.get().adminToken, session };
    return refusalOf(visitor) === null ? visitor : null;
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
      res.cookie(nameFor(req), await seal.seal(session), { ...attributes(req), maxAge });
    },
    find: async (req) => {
      const sealed = parseCookie(req.headers.cookie ?? '')[nameFor(req)];
      if (sealed === undefined) return null;
      const session = await seal.open(sealed, clock.now());
      if (session === null) return null;
      await look([session.id]);
      return current({ session });
    },
    end: async (req, res, { session }) => {
      res.clearCookie(nameFor(req), attributes(req));
      ended.add(session.id);
      await endedSessions.add(session.id, session.expiresAt);
    },
    current,
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
