import { createHash, timingSafeEqual } from 'node:crypto';
import type { UploadTokenConfig } from '../../core/config/config.ts';
import type { Secrets } from '../../core/secrets.ts';
import { WaybillError } from '../../core/errors.ts';

/** A producer token, ready to be compared with. The value itself is not kept. */
export interface Token {
  id: string;
  hash: Buffer;
  pipelines: ReadonlySet<string>;
}

// What RFC 6750 lets a client send: a token that has anything else could never match.
const tokenForm = /^[A-Za-z0-9\-._~+/]+=*$/;
const headerForm = /^Bearer +([A-Za-z0-9\-._~+/]+=*)$/i;

/**
 * Resolves the values of all upload tokens. Throws `secrets_invalid` where one is missing, unusable, or the
 * same as another.
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
 * One token, whatever it is for. Throws `secrets_invalid` where its value is missing or cannot be sent as a
 * bearer token.
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
 * Finds the token of an `Authorization` header. Every entry is compared, in constant time, whatever matched
 * before. Throws `unauthorized`, with the same sentence for a wrong token as for an unknown one.
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

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
