import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Config, UploadTokenConfig } from '../../core/config/config.ts';
import { type Role, roleScopes } from '../../core/config/schema/console-login.ts';
import { type Scope, scopes } from '../../core/config/schema/schema.ts';
import type { Clock } from '../../core/lib/clock.ts';
import { isFuture } from '../../core/lib/clock-skew.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Secrets } from '../../core/lib/secrets.ts';
import type { PublishedBy } from '../../core/publishers/published-by.ts';
import { requestContext } from './request/request-context.ts';

/** A token that requests can authenticate with. Only its hash is kept in memory. */
export interface KnownToken {
  id: string;
  /** SHA-256 of the value. */
  hash: Buffer;
}

/** The token of a producer or an administrator. */
export interface Token extends KnownToken {
  /** Ids of the pipelines that the token grants access to. */
  pipelines: ReadonlySet<string>;
  /** The operations that the token allows in these pipelines. */
  scopes: ReadonlySet<Scope>;
  /** When the token expires; null if it never does. */
  expiresAt: Date | null;
  /**
   * Present if this daemon issued the token. If this time is in the future, the token is rejected, because
   * its expiry cannot be trusted either.
   */
  issuedAt?: Date;
  /** Present if a trusted publisher got this token. */
  publishedBy?: PublishedBy;
  /** Present if this is not a real token, but a person who is logged in to the console. */
  person?: PersonRights;
}

/** A person with an account at an OpenID Connect issuer. */
export interface PersonRights {
  issuer: string;
  subject: string;
  name: string;
  /** The person's role in each pipeline, which determines the scopes. */
  roles: ReadonlyMap<string, Role>;
  /** Whether the person may do everything that the admin token may. */
  isAdmin: boolean;
}

/** Reports whether the token allows the operation on the pipeline. */
export function allows({ pipelines, scopes, person }: Token, scope: Scope, pipelineId: string): boolean {
  if (!pipelines.has(pipelineId)) return false;
  const role = person?.roles.get(pipelineId);
  return role === undefined ? scopes.has(scope) : roleScopes[role].some((one) => one === scope);
}

/** Verifies tokens that were issued to trusted publishers. */
export interface AccessTokens {
  /**
   * Returns the token with the rights that it has now. Returns null if we did not issue it, or if it has been
   * revoked.
   */
  open(value: string): Token | null;
}

/** All tokens that are valid under the current configuration. Replaced on reload. */
export interface TokenAccess {
  tokens: readonly Token[];
  publishers: AccessTokens;
}

type ConfiguredToken = Pick<UploadTokenConfig, 'id' | 'valueEnv'>;

// The characters that RFC 6750 allows in a token. No client could send a token with any others.
const tokenForm = /^[A-Za-z0-9\-._~+/]+=*$/;
// Instead of the value itself, a secret may contain its digest.
const digestForm = /^sha256:([0-9a-f]{64})$/i;
const headerForm = /^Bearer +([A-Za-z0-9\-._~+/]+=*)$/i;

export function resolveTokens(configs: readonly UploadTokenConfig[], secrets: Secrets): Token[] {
  const known = resolveDistinct(configs, secrets);
  return configs.map(({ pipelines, scopes, expiresAt }, index) => ({
    ...(known[index] as KnownToken),
    pipelines: new Set(pipelines),
    scopes: new Set(scopes),
    expiresAt,
  }));
}

/**
 * Resolves tokens, in order. Throws `secrets_invalid` if a value is missing, malformed, or shared by two
 * tokens.
 */
function resolveDistinct(configs: readonly ConfiguredToken[], secrets: Secrets): KnownToken[] {
  const byHash = new Map<string, ConfiguredToken>();
  return configs.map((config) => {
    const { id, valueEnv } = config;
    const token = resolveToken(config, `upload token "${id}"`, secrets);
    const { hash } = token;
    const other = byHash.get(hash.toString('hex'));
    if (other !== undefined) {
      throw new WaybillError(
        'secrets_invalid',
        `the upload tokens "${other.id}" (${other.valueEnv}) and "${id}" (${valueEnv}) have the same value`,
        {
          hint: 'give each producer a value of its own, or one token that allows all its pipelines',
        },
      );
    }
    byHash.set(hash.toString('hex'), config);
    return token;
  });
}

/**
 * Resolves a token from a secret, which contains either the value or `sha256:<hex>`. `neededBy` is used in
 * error messages. Throws `secrets_invalid` if the secret is missing or cannot be sent as a bearer token.
 */
export function resolveToken(
  { id, valueEnv }: ConfiguredToken,
  neededBy: string,
  secrets: Secrets,
): KnownToken {
  const value = secrets.require(valueEnv, neededBy);
  const digest = digestForm.exec(value)?.[1];
  if (digest !== undefined) return { id, hash: Buffer.from(digest, 'hex') };
  if (value.toLowerCase().startsWith('sha256:'))
    throw new WaybillError(
      'secrets_invalid',
      `the value of ${valueEnv} begins with sha256:, but 64 hexadecimal digits do not follow (${neededBy})`,
      { hint: 'waybill token new prints a new token, and the value for the daemon' },
    );
  if (!tokenForm.test(value)) {
    throw new WaybillError(
      'secrets_invalid',
      `the value of ${valueEnv} cannot be sent as a bearer token (${neededBy})`,
      {
        hint: 'use letters, digits and - . _ ~ + / only, for example the output of waybill token new',
      },
    );
  }
  return { id, hash: sha256(value) };
}

/**
 * Returns the token in an `Authorization` header. Throws `unauthorized`, or `token_expired` if it has
 * expired.
 */
export function authenticate(
  header: string | undefined,
  access: TokenAccess,
  clock: Pick<Clock, 'now'>,
): Token {
  const token = findCaller(header, access);
  requireUnexpired(token, clock);
  return token;
}

/** Throws `token_expired` if the token has expired. */
export function requireUnexpired(token: Token, clock: Pick<Clock, 'now'>): void {
  if (!isExpired(token, clock)) return;
  throw new WaybillError('token_expired', `the token "${token.id}" has expired`, {
    hint:
      token.publishedBy === undefined
        ? 'use a newer token, or ask the administrator to change `expires` of its entry in upload_tokens'
        : 'exchange another ID token, or ask the administrator to raise `max_lifetime` of its entry in trusted_publishers',
  });
}

export function isExpired(
  { expiresAt, issuedAt }: Pick<Token, 'expiresAt' | 'issuedAt'>,
  clock: Pick<Clock, 'now'>,
): boolean {
  if (issuedAt !== undefined && isFuture(issuedAt.getTime(), clock)) return true;
  return expiresAt !== null && clock.now() >= expiresAt;
}

/**
 * Throws `insufficient_scope` if the token does not have the scope. In that case, also sets the challenge
 * header from RFC 6750.
 */
export function requireScope({ id, scopes }: Token, scope: Scope, res: ServerResponse): void {
  if (scopes.has(scope)) return;
  res.setHeader('WWW-Authenticate', `Bearer realm="waybill", error="insufficient_scope", scope="${scope}"`);
  throw new WaybillError('insufficient_scope', `the token "${id}" does not have the scope "${scope}"`, {
    hint: 'use a token that has it, or ask the administrator to add it to `scopes` of the entry of this token',
  });
}

/**
 * Returns the token in an `Authorization` header. To keep the timing constant, it compares every token even
 * after a match. Throws `unauthorized`.
 */
export function findToken<T extends KnownToken>(header: string | undefined, tokens: readonly T[]): T {
  return known(tokenOfValue(sentToken(header), tokens));
}

/** Like `findToken`, but also accepts tokens that were issued to trusted publishers. */
export function findCaller(header: string | undefined, { tokens, publishers }: TokenAccess): Token {
  const sent = sentToken(header);
  return known(tokenOfValue(sent, tokens) ?? publishers.open(sent) ?? undefined);
}

function sentToken(header: string | undefined): string {
  if (header === undefined) {
    throw new WaybillError('unauthorized', 'the request has no Authorization header', {
      hint: 'send `Authorization: Bearer <token>`',
    });
  }
  const sent = headerForm.exec(header)?.[1];
  if (sent === undefined) {
    throw new WaybillError('unauthorized', 'the Authorization header is not a bearer token', {
      hint: 'send `Authorization: Bearer <token>`',
    });
  }
  return sent;
}

function known<T>(found: T | undefined): T {
  if (found !== undefined) return found;
  throw new WaybillError('unauthorized', 'the bearer token is not known', {
    hint: 'check the token that this daemon was configured with',
  });
}

/**
 * Returns the token with this value, or undefined. Compares every token even after a match, to keep the
 * timing constant.
 */
export function tokenOfValue<T extends KnownToken>(value: string, tokens: readonly T[]): T | undefined {
  const hash = sha256(value);
  let found: T | undefined;
  for (const token of tokens) if (timingSafeEqual(token.hash, hash)) found = token;
  return found;
}

/** Runs `authenticate`, and sets the challenge header from RFC 6750 if it throws. */
export function challenge<T>(req: IncomingMessage, res: ServerResponse, authenticate: () => T): T {
  try {
    return authenticate();
  } catch (error) {
    const hint = req.headers.authorization === undefined ? '' : ', error="invalid_token"';
    res.setHeader('WWW-Authenticate', `Bearer realm="waybill"${hint}`);
    throw error;
  }
}

/** Records the caller in the request's log line, and in the run if the request starts one. */
export function noteCaller(req: IncomingMessage, { id, publishedBy }: Token): void {
  const context = requestContext(req);
  context.fields['token_id'] = id;
  if (publishedBy === undefined) return;
  context.publishedBy = publishedBy;
  const { subject, ci_run_id: ciRunId } = publishedBy;
  if (subject !== null) context.fields['publisher_subject'] = subject;
  if (ciRunId !== null) context.fields['ci_run_id'] = ciRunId;
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/**
 * Returns the token from `server.admin_token_env`, or null if there is none. Throws `secrets_invalid` if its
 * value is missing, malformed, or the same as an upload token's.
 */
export function resolveAdminToken(config: Config, secrets: Secrets): Token | null {
  const { adminTokenEnv } = config.server;
  if (adminTokenEnv === null) return null;
  const admin = { id: 'server.admin_token_env', valueEnv: adminTokenEnv };
  // Resolve all tokens together, to detect a value that two of them share.
  const known = resolveDistinct([...config.uploadTokens, admin], secrets).at(-1);
  if (known === undefined) return null;
  return { ...known, pipelines: new Set(), scopes: new Set(scopes), expiresAt: null };
}
