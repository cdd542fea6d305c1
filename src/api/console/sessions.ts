import { createHash, randomBytes } from 'node:crypto';
import type { Request, Response } from 'express';
import type { Clock } from '../../core/lib/clock.ts';
import { isFuture } from '../../core/lib/clock-skew.ts';
import type { Current } from '../../core/lib/current.ts';
import type { RevokedSessions } from '../../workers/queue/revoked-sessions.ts';
import { isExpired, type Token } from '../http/auth.ts';
import type { OperatorAccess } from '../pipelines/pipeline-access.ts';
import { type ConsoleLogin, type Person, tokenOfPerson } from './people.ts';
import { type Seal, SealedCookie } from './sealed-cookie.ts';

/** A logged-in visitor's session, as stored in its cookie. */
export interface Session {
  /** A unique id. Logging out records it, so copies of the cookie stop working too. */
  id: string;
  /** The token or person that this session belongs to. */
  holder: TokenHolder | Person;
  /** The CSRF token, which every form must contain. */
  csrf: string;
  /** Milliseconds since 1970, as is `expiresMs`. */
  begunMs: number;
  expiresMs: number;
}

interface TokenHolder {
  tokenId: string;
  /** Derived from the token's value, so changing the value ends the session. */
  fingerprint: string;
}

/** A logged-in user. */
export interface Visitor {
  /** The token as it is configured now, which may differ from when the visitor logged in. */
  token: Token;
  /** True for the token in `server.admin_token_env`, and for people with the admin role. */
  isAdmin: boolean;
  session: Session;
}

interface SessionPorts {
  http: { basePath: string };
  clock: Clock;
  configured: Current<
    Pick<OperatorAccess, 'tokens' | 'adminToken'> & {
      login: ConsoleLogin | null;
      pipelineIds: ReadonlySet<string>;
    }
  >;
  identity: { revokedSessions: Pick<RevokedSessions, 'add' | 'findRevoked'> };
}

interface SessionOptions {
  seal: Seal<Session>;
  /** The lifetime of a session, in milliseconds. */
  lifetimeMs: number;
}

const maxSeen = 10_000;
/** Open streams keep checking their sessions. Checks within this many milliseconds share a query. */
const refreshEveryMs = 250;
/**
 * The longest session lifetime that can be configured. Records of logging out everywhere are kept for this
 * long, which outlasts every session.
 */
const maxLifetimeMs = 30 * 86_400_000;

/** Identifies the visitor from the session cookie of a request. */
export class Sessions {
  readonly #ports: SessionPorts;
  readonly #cookie: SealedCookie<Session>;
  readonly #lifetimeMs: number;
  /**
   * A cache of ended sessions, and of tokens and people that logged out everywhere, with the time each entry
   * expires. The full list is in `revokedSessions`.
   */
  readonly #ended = new Map<string, Date>();
  /** Ids of sessions with open streams, to be checked in the next query. */
  readonly #checked = new Set<string>();

  constructor(ports: SessionPorts, { seal, lifetimeMs }: SessionOptions) {
    this.#ports = ports;
    this.#lifetimeMs = lifetimeMs;
    const { clock, http } = ports;
    const common = { seal, clock, basePath: http.basePath };
    this.#cookie = new SealedCookie({ ...common, name: 'waybill_session', sameSite: 'strict' });
  }

  async begin(
    req: Pick<Request, 'secure'>,
    res: Response,
    token: Token,
    person: Person | null = null,
  ): Promise<void> {
    const begunMs = this.#ports.clock.now().getTime();
    const expiresMs = Math.min(begunMs + this.#lifetimeMs, token.expiresAt?.getTime() ?? Infinity);
    const holder = person ?? { tokenId: token.id, fingerprint: fingerprintOf(token) };
    const session = { id: nonce(), holder, csrf: nonce(), begunMs, expiresMs };
    await this.#cookie.set(req, res, session, new Date(expiresMs));
  }

  /**
   * Returns null if there is no active session. Sessions end when the visitor logs out, or when the token
   * expires, changes or is removed. Throws `queue_unavailable` if the ended sessions cannot be queried.
   */
  async find(req: Pick<Request, 'headers' | 'secure'>): Promise<Visitor | null> {
    const session = await this.#cookie.read(req);
    if (session === null) return null;
    await this.#refreshEnded(idsOf(session));
    return this.current({ session });
  }

  /** Ends the session on all hosts, including any copies of its cookie. Throws `queue_unavailable`. */
  async end(req: Pick<Request, 'secure'>, res: Response, { session }: Visitor): Promise<void> {
    this.#cookie.clear(req, res);
    await this.#store(session.id, new Date(session.expiresMs));
  }

  /**
   * Ends all sessions of the token or person, in all browsers and on all hosts. Throws the same errors as
   * `end`.
   */
  async endAll(req: Pick<Request, 'secure'>, res: Response, { session }: Visitor): Promise<void> {
    this.#cookie.clear(req, res);
    // The logout time is computed from this expiry, so sessions that are started later stay valid.
    await this.#store(holderId(session), new Date(this.#ports.clock.now().getTime() + maxLifetimeMs));
  }

  async #store(id: string, expiresAt: Date): Promise<void> {
    this.#ended.set(id, expiresAt);
    await this.#ports.identity.revokedSessions.add(id, expiresAt);
  }

  /** Returns the visitor with the token as it is configured now, or null if the session has ended. */
  current({ session }: Pick<Visitor, 'session'>): Visitor | null {
    const token = this.#tokenOf(session);
    if (token === null || this.refusalOf({ session }) !== null) return null;
    const isAdmin = token.person?.isAdmin ?? token === this.#ports.configured.get().adminToken;
    return { token, isAdmin, session };
  }

  /** Returns why the session has ended, or null if it is active. */
  refusalOf({ session }: Pick<Visitor, 'session'>): 'token_expired' | 'token_revoked' | null {
    const token = this.#tokenOf(session);
    // Logouts on other hosts are picked up by the next query.
    this.#refreshSoon(session);
    if (token === null || this.#hasLoggedOut(session)) return 'token_revoked';
    const { clock } = this.#ports;
    const isOver = clock.now().getTime() >= session.expiresMs || isFuture(session.begunMs, clock);
    return isOver || isExpired(token, clock) ? 'token_expired' : null;
  }

  #hasLoggedOut(session: Session): boolean {
    if (this.#ended.has(session.id)) return true;
    const everywhere = this.#ended.get(holderId(session))?.getTime() ?? -Infinity;
    return session.begunMs + maxLifetimeMs <= everywhere;
  }

  #tokenOf({ holder }: Session): Token | null {
    const { tokens, adminToken, login, pipelineIds } = this.#ports.configured.get();
    if ('subject' in holder) return tokenOfPerson(holder, login, pipelineIds);
    const known = adminToken === null ? tokens : [...tokens, adminToken];
    const { tokenId, fingerprint } = holder;
    return known.find((token) => token.id === tokenId && fingerprintOf(token) === fingerprint) ?? null;
  }

  async #refreshEnded(ids: readonly string[]): Promise<void> {
    const found = await this.#ports.identity.revokedSessions.findRevoked(ids);
    if (this.#ended.size + found.size > maxSeen) this.#ended.clear();
    for (const [id, expiresAt] of found) {
      this.#ended.set(id, expiresAt);
      // A host whose clock ran ahead may have recorded a logout in the future. That would also end every
      // session started until then, so treat the logout as happening now.
      const latest = new Date(this.#ports.clock.now().getTime() + maxLifetimeMs);
      if (isFuture(expiresAt.getTime() - maxLifetimeMs, this.#ports.clock)) await this.#store(id, latest);
    }
  }

  #refreshSoon(session: Session): void {
    const refresh = (): void => {
      const ids = [...this.#checked];
      this.#checked.clear();
      this.#refreshEnded(ids).catch(() => undefined);
    };
    if (this.#checked.size === 0) this.#ports.clock.timeout(refreshEveryMs, refresh, { unref: true });
    for (const id of idsOf(session)) this.#checked.add(id);
  }
}

function idsOf(session: Session): string[] {
  return [session.id, holderId(session)];
}

/** Identifies the token or person that a session belongs to, for logging out everywhere. */
function holderId({ holder }: Session): string {
  const text = 'subject' in holder ? `${holder.issuer}\n${holder.subject}` : holder.fingerprint;
  return `holder-${createHash('sha256').update(text).digest('base64url')}`;
}

/**
 * Returns a string that is different for each token value, but reveals neither the value nor the stored hash.
 */
function fingerprintOf({ hash }: Token): string {
  return createHash('sha256').update('waybill console').update(hash).digest('base64url').slice(0, 22);
}

function nonce(): string {
  return randomBytes(16).toString('base64url');
}
