import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Config, UploadTokenConfig } from '../../core/config/config.ts';
import { type Scope, scopes } from '../../core/config/schema/schema.ts';
import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Secrets } from '../../core/lib/secrets.ts';

/** A token that requests are compared with. Its value is not kept. */
export interface KnownToken {
  id: string;
  /** SHA-256 of the value. */
  hash: Buffer;
}

/** The token of a producer or an operator. */
export interface Token extends KnownToken {
  /** Ids of the pipelines that it may act on. */
  pipelines: ReadonlySet<string>;
  /** What it may do with them. */
  scopes: ReadonlySet<Scope>;
  /** From when on it is refused; null: never. */
  expiresAt: Date | null;
}

/** What every token is made from. */
type TokenSource = Pick<UploadTokenConfig, 'id' | 'valueEnv'>;

// RFC 6750 lets clients send these characters only; a token with any other could never match.
const tokenForm = /^[A-Za-z0-9\-._~+/]+=*$/;
// Of a value that only its holder has.
const digestForm = /^sha256:([0-9a-f]{64})$/i;
const headerForm = /^Bearer +([A-Za-z0-9\-._~+/]+=*)$/i;

/** The values of all upload tokens. Throws as `resolveDistinct`. */
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
 * Resolves the values of tokens in their order. Throws `secrets_invalid` if a value is missing, is unusable,
 * or equals another.
 */
function resolveDistinct(configs: readonly TokenSource[], secrets: Secrets): KnownToken[] {
  const byHash = new Map<string, TokenSource>();
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
 * Resolves one token; `neededBy` names its purpose in error messages. The secret is the value, or
 * `sha256:<hex>` of it. Throws `secrets_invalid` if it is missing or cannot be sent as a bearer token.
 */
export function resolveToken({ id, valueEnv }: TokenSource, neededBy: string, secrets: Secrets): KnownToken {
  const value = secrets.require(valueEnv, neededBy);
  const digest = digestForm.exec(value)?.[1];
  if (digest !== undefined) return { id, hash: Buffer.from(digest, 'hex') };
  if (!tokenForm.test(value)) {
    throw new WaybillError(
      'secrets_invalid',
      `the value of ${valueEnv} cannot be sent as a bearer token (${neededBy})`,
      {
        hint: 'use letters, digits and - . _ ~ + / only, for example the output of `openssl rand -hex 32`; or sha256: and the 64 hexadecimal digits of its SHA-256',
      },
    );
  }
  return { id, hash: sha256(value) };
}

/** The token of an `Authorization` header. Throws `unauthorized`, and `token_expired` if its time is over. */
export function authenticate(
  header: string | undefined,
  tokens: readonly Token[],
  clock: Pick<Clock, 'now'>,
): Token {
  const token = findToken(header, tokens);
  if (!isExpired(token, clock)) return token;
  throw new WaybillError('token_expired', `the token "${token.id}" has expired`, {
    hint: 'use a newer token, or have `expires` of its entry in upload_tokens changed',
  });
}

export function isExpired({ expiresAt }: Pick<Token, 'expiresAt'>, clock: Pick<Clock, 'now'>): boolean {
  return expiresAt !== null && clock.now() >= expiresAt;
}

/**
 * Checks that the token has the scope; if not, the response says so as RFC 6750 has it. Throws
 * `insufficient_scope`.
 */
export function requireScope({ id, scopes }: Token, scope: Scope, res: ServerResponse): void {
  if (scopes.has(scope)) return;
  res.setHeader('WWW-Authenticate', `Bearer realm="waybill", error="insufficient_scope", scope="${scope}"`);
  throw new WaybillError('insufficient_scope', `the token "${id}" does not have the scope "${scope}"`, {
    hint: 'use a token that has it, or have it added to `scopes` of its entry in upload_tokens',
  });
}

/**
 * Finds the token of an `Authorization` header. Compares every token in constant time, also after a match.
 * Throws `unauthorized`.
 */
export function findToken<T extends KnownToken>(header: string | undefined, tokens: readonly T[]): T {
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
  const found = tokenOfValue(sent, tokens);
  if (found === undefined) {
    throw new WaybillError('unauthorized', 'the bearer token is not known', {
      hint: 'check the token that this daemon was configured with',
    });
  }
  return found;
}

/** The token of this value; undefined if none has it. Compares every token, also after a match. */
export function tokenOfValue<T extends KnownToken>(value: string, tokens: readonly T[]): T | undefined {
  const hash = sha256(value);
  let found: T | undefined;
  for (const token of tokens) if (timingSafeEqual(token.hash, hash)) found = token;
  return found;
}

/** Runs `authenticate`, or `findToken`; if it throws, the response gets the challenge of RFC 6750. */
export function challenge<T>(req: IncomingMessage, res: ServerResponse, authenticate: () => T): T {
  try {
    return authenticate();
  } catch (error) {
    const hint = req.headers.authorization === undefined ? '' : ', error="invalid_token"';
    res.setHeader('WWW-Authenticate', `Bearer realm="waybill"${hint}`);
    throw error;
  }
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/**
 * The token of `server.admin_token_env`; null if none is configured. Throws `secrets_invalid` if its value is
 * missing, is unusable, or equals that of an upload token.
 */
export function resolveAdminToken(config: Config, secrets: Secrets): Token | null {
  const { adminTokenEnv } = config.server;
  if (adminTokenEnv === null) return null;
  const admin = { id: 'server.admin_token_env', valueEnv: adminTokenEnv };
  // Resolved together with the upload tokens, so that none of them can have the same value.
  const known = resolveDistinct([...config.uploadTokens, admin], secrets).at(-1);
  if (known === undefined) return null;
  return { ...known, pipelines: new Set(), scopes: new Set(scopes), expiresAt: null };
}
