import { createHash, hkdfSync, randomBytes } from 'node:crypto';
import { parseCookie } from 'cookie';
import type { Request, Response } from 'express';
import { EncryptJWT, errors, jwtDecrypt } from 'jose';
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import type { Clock } from '../../core/lib/clock.ts';
import type { Current } from '../../core/lib/current.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { EndedSessions } from '../../workers/queue/ended-sessions.ts';
import { isExpired, type Token } from '../http/auth.ts';
import { networkOf } from '../http/request/shares.ts';
import type { OperatorAccess } from '../pipelines/pipeline-access.ts';

/** The session of a logged-in visitor, as its cookie holds it. */
interface Session {
  /** Unique. A logout ends the session with this id for good. */
  id: string;
  tokenId: string;
  /** Derived from the value of the token, so that a new value ends the session. */
  fingerprint: string;
  /** Every form must send it. */
  csrf: string;
  expiresAt: Date;
}

/**
 * Sessions as text that a browser keeps and nobody but the holder of the secret can read or make: an
 * encrypted JWT. Any API host with the same secret opens it, so that nothing has to be shared or stored.
 */
interface SessionSeal {
  seal(session: Session): Promise<string>;
  /** null if it was made with another secret, is damaged, or has expired. */
  open(text: string, now: Date): Promise<Session | null>;
}

const purpose = 'waybill console session';
const keyBytes = 32;

export function sessionSeal(secret: string | Uint8Array): SessionSeal {
  const key = new Uint8Array(hkdfSync('sha256', secret, '', purpose, keyBytes));
  return {
    seal: ({ id, tokenId, fingerprint, csrf, expiresAt }) =>
      new EncryptJWT({ fingerprint, csrf })
        .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
        .setSubject(tokenId)
        .setJti(id)
        .setExpirationTime(expiresAt)
        .encrypt(key),
    open: async (text, now) => {
      try {
        const { payload } = await jwtDecrypt<{ fingerprint: string; csrf: string }>(text, key, {
          keyManagementAlgorithms: ['dir'],
          contentEncryptionAlgorithms: ['A256GCM'],
          currentDate: now,
          requiredClaims: ['sub', 'jti', 'exp', 'fingerprint', 'csrf'],
        });
        const { sub: tokenId = '', jti: id = '', exp = 0, fingerprint, csrf } = payload;
        return { id, tokenId, fingerprint, csrf, expiresAt: new Date(exp * 1000) };
      } catch (error) {
        if (error instanceof errors.JOSEError) return null;
        throw error;
      }
    },
  };
}

/** A logged-in user. */
export interface Visitor {
  /** As it is configured now. */
  token: Token;
  /** It is the token of `server.admin_token_env`. */
  isAdmin: boolean;
  session: Session;
}

interface SessionPorts {
  http: { basePath: string };
  clock: Clock;
  configured: Current<OperatorAccess>;
  endedSessions: Pick<EndedSessions, 'add' | 'among'>;
}

interface SessionOptions {
  seal: SessionSeal;
  /** How long somebody stays logged in, in milliseconds. */
  lifetimeMs: number;
}

const cookieName = 'waybill_session';
const maxSeen = 10_000;
/** Checks of open streams within this time share one query, in milliseconds. */
const lookEveryMs = 250;

/** Finds the visitor of a request by its cookie. */
export class Sessions {
  readonly #ports: SessionPorts;
  readonly #options: SessionOptions;
  /** Ended sessions that this process has seen recently; `endedSessions` has all of them. */
  readonly #ended = new Set<string>();
  /** Ids of sessions of open streams that the next query looks up. */
  readonly #checked = new Set<string>();

  constructor(ports: SessionPorts, options: SessionOptions) {
    this.#ports = ports;
    this.#options = options;
  }

  async begin(req: Pick<Request, 'secure'>, res: Response, token: Token): Promise<void> {
    const now = this.#ports.clock.now().getTime();
    const { seal, lifetimeMs } = this.#options;
    const expiresAt = new Date(Math.min(now + lifetimeMs, token.expiresAt?.getTime() ?? Infinity));
    const sealed = await seal.seal({
      id: nonce(),
      tokenId: token.id,
      fingerprint: fingerprintOf(token),
      csrf: nonce(),
      expiresAt,
    });
    res.cookie(this.#nameFor(req), sealed, { ...this.#attributes(req), maxAge: expiresAt.getTime() - now });
  }

  /**
   * null if the request has no session, or one that has ended: by a logout, or because its token was removed,
   * has another value, or has expired. Throws `queue_unavailable` if logouts cannot be looked up.
   */
  async find(req: Pick<Request, 'headers' | 'secure'>): Promise<Visitor | null> {
    const sealed = parseCookie(req.headers.cookie ?? '')[this.#nameFor(req)];
    if (sealed === undefined) return null;
    const session = await this.#options.seal.open(sealed, this.#ports.clock.now());
    if (session === null) return null;
    await this.#look([session.id]);
    return this.current({ session });
  }

  /** Ends the session for every copy of its cookie, on all hosts. Throws `queue_unavailable`. */
  async end(req: Pick<Request, 'secure'>, res: Response, { session }: Visitor): Promise<void> {
    res.clearCookie(this.#nameFor(req), this.#attributes(req));
    this.#ended.add(session.id);
    await this.#ports.endedSessions.add(session.id, session.expiresAt);
  }

  /** The visitor with its token as it is configured now; null if the session has ended. */
  current({ session }: Pick<Visitor, 'session'>): Visitor | null {
    const token = this.#holderOf(session);
    if (token === undefined || this.refusalOf({ session }) !== null) return null;
    return { token, isAdmin: token === this.#ports.configured.get().adminToken, session };
  }

  /** Why the session has ended; null if it has not. */
  refusalOf({ session }: Pick<Visitor, 'session'>): 'token_expired' | 'token_revoked' | null {
    const token = this.#holderOf(session);
    // A logout on another host is seen at the next check.
    this.#lookSoon(session);
    if (token === undefined || this.#ended.has(session.id)) return 'token_revoked';
    const { clock } = this.#ports;
    return isExpired(token, clock) || clock.now() >= session.expiresAt ? 'token_expired' : null;
  }

  #holderOf({ tokenId, fingerprint }: Session): Token | undefined {
    const { tokens, adminToken } = this.#ports.configured.get();
    const known = adminToken === null ? tokens : [...tokens, adminToken];
    return known.find((token) => token.id === tokenId && fingerprintOf(token) === fingerprint);
  }

  async #look(ids: readonly string[]): Promise<void> {
    const found = await this.#ports.endedSessions.among(ids);
    if (this.#ended.size + found.length > maxSeen) this.#ended.clear();
    for (const id of found) this.#ended.add(id);
  }

  #lookSoon({ id }: Session): void {
    const lookUp = (): void => {
      const ids = [...this.#checked];
      this.#checked.clear();
      this.#look(ids).catch(() => undefined);
    };
    if (this.#checked.size === 0) this.#ports.clock.timeout(lookEveryMs, lookUp, { unref: true });
    this.#checked.add(id);
  }

  /**
   * Over TLS the name has a prefix: browsers then accept the cookie from this host alone and never over plain
   * HTTP. `__Host-` also needs the path `/`.
   */
  #nameFor({ secure }: Pick<Request, 'secure'>): string {
    if (!secure) return cookieName;
    return `${this.#ports.http.basePath === '/' ? '__Host-' : '__Secure-'}${cookieName}`;
  }

  // Express determines `secure` from the trusted proxies.
  #attributes({ secure }: Pick<Request, 'secure'>): object {
    return { httpOnly: true, sameSite: 'strict', secure, path: this.#ports.http.basePath };
  }
}

/** Tells one value of a token from another, and nothing about either. */
function fingerprintOf({ hash }: Token): string {
  return createHash('sha256').update('waybill console').update(hash).digest('base64url').slice(0, 22);
}

function nonce(): string {
  return randomBytes(16).toString('base64url');
}

/**
 * Limits failed logins. A client that fails too often is refused. Failures of many clients together only slow
 * logins down, so that they never lock out the right token.
 */
export interface LoginLimit {
  /**
   * Resolves when the token of this attempt may be compared, which takes `slowdownMs` while too many clients
   * fail. Throws `too_many_logins`, with the time of the next attempt, if this client has failed too often.
   */
  admit(client: string | null): Promise<void>;
  /** Counts a failed attempt. */
  failed(client: string | null): Promise<void>;
}

interface LoginBounds {
  /** Failures of one client, or of one /64 network of IPv6, in a window. */
  perClient: number;
  /** Failures of all clients in a window. */
  total: number;
  windowSeconds: number;
  slowdownMs: number;
}

const loginBounds: LoginBounds = { perClient: 10, total: 300, windowSeconds: 300, slowdownMs: 2_000 };

export function createLoginLimit(
  { sleep }: Pick<Clock, 'sleep'>,
  { perClient, total, windowSeconds, slowdownMs }: LoginBounds = loginBounds,
): LoginLimit {
  const clients = new RateLimiterMemory({ points: perClient, duration: windowSeconds });
  const everyone = new RateLimiterMemory({ points: total, duration: windowSeconds });
  const counters = (client: string | null): [RateLimiterMemory, string][] => [
    [everyone, 'all'],
    [clients, networkOf(client)],
  ];
  return {
    admit: async (client) => {
      const ofClient = await clients.get(networkOf(client));
      if (ofClient !== null && ofClient.remainingPoints <= 0) throw tooMany(ofClient.msBeforeNext);
      const ofAll = await everyone.get('all');
      if (ofAll !== null && ofAll.remainingPoints <= 0) await sleep(slowdownMs);
    },
    failed: async (client) => {
      for (const [limiter, key] of counters(client))
        await limiter.consume(key).catch((refused: unknown) => {
          // Beyond its limit the counter rejects with its state.
          if (!(refused instanceof RateLimiterRes)) throw refused;
        });
    },
  };
}

function tooMany(ms: number): WaybillError {
  const seconds = Math.max(1, Math.ceil(ms / 1000));
  return new WaybillError('too_many_logins', 'too many attempts to log in have failed', {
    hint: `try again in ${seconds} s, with the token as the daemon was given it`,
    retryAfterSeconds: seconds,
  });
}
