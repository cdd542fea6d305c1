import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { UploadTokenConfig } from '../../core/config/config.ts';
import type { Secrets } from '../../core/secrets.ts';
import { WaybillError } from '../../core/errors.ts';

/** A token that requests are compared with. Its value is not kept. */
export interface Token {
  id: string;
  /** SHA-256 of the value. */
  hash: Buffer;
  /** Ids of the pipelines that it may act on. */
  pipelines: ReadonlySet<string>;
}

// RFC 6750 lets clients send these characters only; a token with any other could never match.
const tokenForm = /^[A-Za-z0-9\-._~+/]+=*$/;
const headerForm = /^Bearer +([A-Za-z0-9\-._~+/]+=*)$/i;

/**
 * Resolves the values of all upload tokens. Throws `secrets_invalid` if a value is missing, is unusable, or
 * equals another.
 */
export function resolveTokens(configs: readonly UploadTokenConfig[], secrets: Secrets): Token[] {
  const byHash = new Map<string, UploadTokenConfig>();
  return configs.map((config) => {
    const { id, valueEnv, pipelines } = config;
    const token = resolveToken({ id, valueEnv, pipelines }, `upload token "${id}"`, secrets);
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
 * Resolves one token; `neededBy` names its purpose in error messages. Throws `secrets_invalid` if its value
 * is missing or cannot be sent as a bearer token.
 */
export function resolveToken(
  { id, valueEnv, pipelines }: UploadTokenConfig,
  neededBy: string,
  secrets: Secrets,
): Token {
  const value = secrets.require(valueEnv, neededBy);
  if (!tokenForm.test(value)) {
    throw new WaybillError(
      'secrets_invalid',
      `the value of ${valueEnv} cannot be sent as a bearer token (${neededBy})`,
      {
        hint: 'use letters, digits and - . _ ~ + / only, for example the output of `openssl rand -hex 32`',
      },
    );
  }
  return { id, hash: sha256(value), pipelines: new Set(pipelines) };
}

/**
 * Finds the token of an `Authorization` header. Compares every token in constant time, also after a match.
 * Throws `unauthorized`.
 */
export function authenticate(header: string | undefined, tokens: readonly Token[]): Token {
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
  const hash = sha256(sent);
  let found: Token | undefined;
  for (const token of tokens) if (timingSafeEqual(token.hash, hash)) found = token;
  if (found === undefined) {
    throw new WaybillError('unauthorized', 'the bearer token is not known', {
      hint: 'check the token that this daemon was configured with',
    });
  }
  return found;
}

/** Runs `authenticate`; if it throws, the response gets the challenge of RFC 6750, section 3. */
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
