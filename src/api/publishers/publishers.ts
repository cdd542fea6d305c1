import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import type { Config, PublisherConfig } from '../../core/config/config.ts';
import type { Scope } from '../../core/config/schema/schema.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Secrets } from '../../core/lib/secrets.ts';
import { describeFileError } from '../../core/lib/system-errors.ts';
import type { AccessTokens, Token } from '../http/auth.ts';
import { type GrantSeal, grantSeal, rulesDigest } from './access-token.ts';
import { maxDocumentBytes } from './fetch-json.ts';
import { type KeySet, keySetOf } from './issuer-keys.ts';

/** A trusted publisher from the configuration. */
export interface Publisher extends PublisherConfig {
  /** The keys from `jwks_file`; null to fetch them through discovery. */
  keys: KeySet | null;
  /** A hash of the issuer, audience and claims. */
  rules: string;
}

/** All trusted publishers. Also verifies the tokens that were issued to them. */
export interface Publishers extends AccessTokens {
  list: readonly Publisher[];
  seal: GrantSeal;
}

/** The trusted publishers. Replaced on reload. */
export interface PublisherAccess {
  publishers: Publishers;
}

/**
 * Resolves the publishers in `trusted_publishers`. If `server.token_keys_env` is not set, tokens are signed
 * with `processKey`. Throws `secrets_invalid` if a key is missing or too short, and `config_invalid` if a
 * `jwks_file` cannot be used.
 */
export function resolvePublishers(config: Config, secrets: Secrets, processKey: Uint8Array): Publishers {
  const list = config.trustedPublishers.map((publisher): Publisher => ({
    ...publisher,
    keys: publisher.jwksFile === null ? null : keysOfFile(publisher.id, publisher.jwksFile),
    rules: rulesDigest([publisher.issuer, publisher.audience, publisher.claims]),
  }));
  const seal = grantSeal(list.length === 0 ? [processKey] : tokenKeys(config, secrets, processKey));
  return { list, seal, open: (value) => openToken(value, list, seal) };
}

function tokenKeys(
  { server: { tokenKeysEnv } }: Config,
  secrets: Secrets,
  processKey: Uint8Array,
): (string | Uint8Array)[] {
  if (tokenKeysEnv === null) return [processKey];
  const keys = secrets
    .require(tokenKeysEnv, 'server.token_keys_env')
    .split(/\s+/)
    .filter((key) => key !== '');
  const isGood = keys.length > 0 && keys.length <= 2 && keys.every((key) => key.length >= 32);
  if (isGood) return keys;
  throw new WaybillError(
    'secrets_invalid',
    `the value of ${tokenKeysEnv} is not one or two keys of 32 characters or more`,
    { hint: 'use the output of `openssl rand -hex 32`; put a space between two keys' },
  );
}

/** Checks every `jwks_file`. Throws `config_invalid` if one cannot be used. */
export function requireIssuerKeys({ trustedPublishers }: Pick<Config, 'trustedPublishers'>): void {
  for (const { id, jwksFile } of trustedPublishers) if (jwksFile !== null) keysOfFile(id, jwksFile);
}

function keysOfFile(id: string, file: string): KeySet {
  try {
    const stats = statSync(file);
    if (!stats.isFile()) throw new Error('it is not a file');
    if (stats.size > maxDocumentBytes) throw new Error(`it is larger than ${maxDocumentBytes / 1024} KiB`);
    const keys = keySetOf(JSON.parse(readFileSync(file, 'utf8')), 'it');
    if (keys.usable === 0)
      throw new Error('it has no usable key: RSA of 2,048 bits or more, P-256, or Ed25519');
    return keys;
  } catch (cause) {
    const reason = cause instanceof SyntaxError ? 'it is not JSON' : describeFileError(cause);
    throw new WaybillError(
      'config_invalid',
      `the jwks_file of the trusted publisher "${id}" cannot be used: ${reason}`,
      { hint: 'save the document of the jwks_uri of the issuer there', cause },
    );
  }
}

/**
 * Verifies an access token and returns it, minus any rights that are no longer configured. Returns null if
 * the publisher has been removed or its rules have changed.
 */
function openToken(value: string, list: readonly Publisher[], seal: GrantSeal): Token | null {
  const grant = seal.open(value);
  if (grant === null) return null;
  const publisher = list.find(({ id, rules }) => id === grant.by.publisher_id && rules === grant.rules);
  if (publisher === undefined) return null;
  const pipelines = grant.pipelines.filter((id) => publisher.pipelines.includes(id));
  const scopes = grant.scopes.filter((scope: Scope) => publisher.scopes.includes(scope));
  return {
    id: publisher.id,
    hash: createHash('sha256').update(value).digest(),
    pipelines: new Set(pipelines),
    scopes: new Set(scopes),
    issuedAt: grant.issuedAt,
    expiresAt: grant.expiresAt,
    publishedBy: grant.by,
  };
}
