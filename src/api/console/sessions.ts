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

/** The session of a logged-in visitor, as its cookie stores it. */
interface Session {
  /** Unique. A logout ends the session with this id permanently. */
  id: string;
  tokenId: string;
  /** Derived from the token's value, so that a changed value ends the session. */
  fingerprint: string;
  /** The CSRF token, required in every form. */
  csrf: string;
  expiresAt: Date;
}

/**
 * Stores sessions in the browser as encrypted JWTs. Only a process with the secret can read or create one.
 * Any API host with the same secret can open it, so hosts share no session storage.
 */
interface SessionSeal {
  seal(session: Session): Promise<string>;
  /** Returns null if the text has another secret, is damaged or has expired. */
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
  /** The token, as currently configured. */
  token: Token;
  /** Whether it is the token of `server.admin_token_env`. */
  isAdmin: boolean;
  session: Session;
}

interface SessionPorts {
  http: { basePath: string };
  clock: Clock;
  configured: Current<Pick<OperatorAccess, 'tokens' | 'adminToken'>>;
  endedSessions: Pick<EndedSessions, 'add' | 'among'>;
}

interface SessionOptions {
  seal: SessionSeal;
  /** The lifetime of a session, in milliseconds. */
  lifetimeMs: number;
}

const cookieName = 'waybill_session';
const maxSeen = 10_000;
/** Session checks of open streams within this time share one query. In milliseconds. */
const lookEveryMs = 250;

/** Finds the visitor of a request by its cookie. */
export class Sessions {
  readonly #ports: SessionPorts;
  readonly #options: SessionOptions;
  /** Ended sessions that this process has seen recently. `endedSessions` has all of them. */
  readonly #ended = new Set<string>();
  /** Session ids of open streams for the next query. */
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
   * Returns null without an active session. A logout ends a session, and so does removing, changing or
   * expiring its token. Throws `queue_unavailable` if ended sessions cannot be queried.
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

  /** Returns the visitor with its token as currently configured; null if the session has ended. */
  current({ session }: Pick<Visitor, 'session'>): Visitor | null {
    const token = this.#holderOf(session);
    if (token === undefined || this.refusalOf({ session }) !== null) return null;
    return { token, isAdmin: token === this.#ports.configured.get().adminToken, session };
  }

  /** Why the session has ended; null if it is active. */
  refusalOf({ session }: Pick<Visitor, 'session'>): 'token_expired' | 'token_revoked' | null {
    const token = this.#holderOf(session);
    // The next check sees a logout on another host.
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
   * Over TLS the name has a prefix. Browsers then accept the cookie only from this host and never over plain
   * HTTP. `__Host-` also requires the path `/`.
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

/** Differs for each value of the token, without revealing the value or its stored hash. */
function fingerprintOf({ hash }: Token): string {
  return createHash('sha256').update('waybill console').update(hash).digest('base64url').slice(0, 22);
}

function nonce(): string {
  return randomBytes(16).toString('base64url');
}

/**
 * Limits failed logins. A client that fails too often is refused. Failures of many clients together only slow
 * logins down, so that they cannot lock out a valid token.
 */
export interface LoginLimit {
  /**
   * Resolves when the token of this attempt may be compared. Waits `slowdownMs` while too many clients fail.
   * Throws `too_many_logins`, with the time of the next attempt, if this client has failed too often.
   */
  admit(client: string | null): Promise<void>;
  /** Counts a failed attempt. */
  failed(client: string | null): Promise<void>;
}

interface LoginBounds {
  /** Failures of one client, or of one IPv6 /64 network, in a window. */
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
    hint: `try again in ${seconds} s`,
    retryAfterSeconds: seconds,
  });
}
