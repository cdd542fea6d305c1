import { createLocalJWKSet, type JSONWebKeySet, type JWK, type JWTVerifyGetKey } from 'jose';
import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { FetchFailure, type fetchJson } from './fetch-json.ts';

/** The keys of an issuer that are suitable for verifying ID tokens. */
export interface KeySet {
  /** The ids of all keys, including those that cannot be used. */
  ids: ReadonlySet<string>;
  /** The ids of RSA keys for signatures that are too short to be used. */
  weakIds: ReadonlySet<string>;
  /** The number of keys that can be used. */
  usable: number;
  find: JWTVerifyGetKey;
}

/** No real issuer publishes this many keys. */
const maxKeys = 100;
const minRsaBits = 2048;

/**
 * Reads a JWKS document. Only uses RSA keys with at least 2,048 bits, P-256 and Ed25519, and skips all
 * others. Throws `FetchFailure` if the document is not a JWKS or contains too many keys.
 */
export function keySetOf(document: unknown, from: string): KeySet {
  const keys = typeof document === 'object' && document !== null && 'keys' in document ? document.keys : null;
  if (!Array.isArray(keys) || !keys.every(isKey)) throw new FetchFailure(`${from} has no list of keys`);
  if (keys.length > maxKeys) throw new FetchFailure(`${from} has more than ${maxKeys} keys`);
  const usable: JWK[] = keys.filter((key) => isUsable(key));
  const weak = keys.filter((key) => key.kty === 'RSA' && signs(key) && !isUsable(key));
  const idsOf = (some: readonly JWK[]): Set<string> => new Set(some.flatMap(({ kid }) => kid ?? []));
  const set: JSONWebKeySet = { keys: usable };
  return {
    ids: idsOf(keys),
    weakIds: idsOf(weak),
    usable: usable.length,
    find: createLocalJWKSet(set),
  };
}

function isKey(key: unknown): key is JWK {
  return typeof key === 'object' && key !== null && 'kty' in key && typeof key.kty === 'string';
}

function signs({ use }: JWK): boolean {
  return use === undefined || use === 'sig';
}

function isUsable(key: JWK): boolean {
  if (!signs(key)) return false;
  const { kty, crv, n } = key;
  if (kty === 'RSA') return typeof n === 'string' && bitsOf(n) >= minRsaBits;
  return (kty === 'EC' && crv === 'P-256') || (kty === 'OKP' && crv === 'Ed25519');
}

function bitsOf(modulus: string): number {
  const hex = Buffer.from(modulus, 'base64url').toString('hex').replace(/^0+/, '');
  return hex === '' ? 0 : (hex.length - 1) * 4 + parseInt(hex.charAt(0), 16).toString(2).length;
}

/** Fetch the keys again before use if they are older than this, in milliseconds. */
const maxAgeMs = 3_600_000;
/** The minimum time between two requests to an issuer, in milliseconds. */
export const refetchMs = 60_000;

/**
 * The parts of an issuer's discovery document that we use. A field is null if the document does not have it.
 */
export interface IssuerMetadata {
  authorizationEndpoint: URL | null;
  tokenEndpoint: URL | null;
  /** Whether the token endpoint wants the client secret in the form rather than in a header. */
  takesSecretInForm: boolean;
}

interface CachedKeys {
  keys: KeySet | null;
  metadata: IssuerMetadata | null;
  /** In monotonic milliseconds. */
  fetchedAt: number;
  triedAt: number;
  fetching: Promise<void> | null;
  failure: string;
}

/**
 * Fetches and caches issuers' keys, which are found through discovery. Cached keys stay usable while an
 * issuer is unreachable. Each issuer is contacted at most once a minute.
 */
export class IssuerKeys {
  readonly #known = new Map<string, CachedKeys>();
  readonly #clock: Clock;
  readonly #fetch: typeof fetchJson;

  constructor(clock: Clock, fetch: typeof fetchJson) {
    this.#clock = clock;
    this.#fetch = fetch;
  }

  /**
   * Returns the issuer's keys, refreshing them if the key `kid` is missing. Throws `issuer_unavailable` if
   * they cannot be fetched, or if the key might be new but the issuer was contacted less than a minute ago.
   */
  async find(issuer: string, kid: string | undefined): Promise<KeySet> {
    const known = this.#known.get(issuer) ?? never();
    this.#known.set(issuer, known);
    if (isCurrent(known, kid, this.#clock.monotonic())) return known.keys;
    const waitMs = known.triedAt + refetchMs - this.#clock.monotonic();
    if (known.fetching === null && waitMs > 0) return this.#withoutFetch(issuer, kid, known, waitMs);
    known.fetching ??= this.#refresh(issuer, known);
    await known.fetching;
    if (known.keys !== null && (known.failure === '' || has(known.keys, kid))) return known.keys;
    throw unavailable(known.failure, refetchMs);
  }

  /** Returns the endpoints from the issuer's discovery document. Throws the same errors as `find`. */
  async metadata(issuer: string): Promise<IssuerMetadata> {
    await this.find(issuer, undefined);
    const metadata = this.#known.get(issuer)?.metadata ?? null;
    if (metadata === null) throw new TypeError('keys are fetched with their discovery document');
    return metadata;
  }

  #withoutFetch(
    issuer: string,
    kid: string | undefined,
    { keys, failure }: CachedKeys,
    waitMs: number,
  ): KeySet {
    if (keys !== null && has(keys, kid)) return keys;
    const reason = failure === '' ? `${new URL(issuer).origin} had no such key a moment ago` : failure;
    throw unavailable(reason, waitMs);
  }

  async #refresh(issuer: string, known: CachedKeys): Promise<void> {
    known.triedAt = this.#clock.monotonic();
    try {
      const { jwksUri, metadata } = await this.#discover(issuer);
      known.keys = keySetOf(await this.#fetch(jwksUri, this.#clock), `the JWKS of ${jwksUri.origin}`);
      known.metadata = metadata;
      known.fetchedAt = this.#clock.monotonic();
      known.failure = '';
    } catch (error) {
      if (!(error instanceof FetchFailure)) throw error;
      known.failure = error.message;
    } finally {
      known.fetching = null;
    }
  }

  async #discover(issuer: string): Promise<{ jwksUri: URL; metadata: IssuerMetadata }> {
    const base = issuer.replace(/\/$/, '');
    const discovery = new URL(`${base}/.well-known/openid-configuration`);
    const document = ((await this.#fetch(discovery, this.#clock)) ?? {}) as Record<string, unknown>;
    if (document['issuer'] !== issuer)
      throw new FetchFailure(`the discovery document of ${discovery.origin} names another issuer`);
    const addressAt = (name: string): URL | null => {
      const text = document[name];
      const url = typeof text === 'string' && URL.canParse(text) ? new URL(text) : null;
      return url !== null && (url.protocol === 'https:' || url.protocol === discovery.protocol) ? url : null;
    };
    const jwksUri = addressAt('jwks_uri');
    if (jwksUri === null)
      throw new FetchFailure(`the discovery document of ${discovery.origin} has no jwks_uri with https`);
    const methods = document['token_endpoint_auth_methods_supported'];
    return {
      jwksUri,
      metadata: {
        authorizationEndpoint: addressAt('authorization_endpoint'),
        tokenEndpoint: addressAt('token_endpoint'),
        takesSecretInForm: Array.isArray(methods) && !methods.includes('client_secret_basic'),
      },
    };
  }
}

function never(): CachedKeys {
  return {
    keys: null,
    metadata: null,
    fetchedAt: -Infinity,
    triedAt: -Infinity,
    fetching: null,
    failure: '',
  };
}

function isCurrent(
  known: CachedKeys,
  kid: string | undefined,
  now: number,
): known is CachedKeys & { keys: KeySet } {
  return known.keys !== null && has(known.keys, kid) && now - known.fetchedAt < maxAgeMs;
}

/** Tokens without a key id can be verified if only one of the keys is suitable. */
function has({ ids }: KeySet, kid: string | undefined): boolean {
  return kid === undefined || ids.has(kid);
}

function unavailable(reason: string, waitMs: number): WaybillError {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  return new WaybillError('issuer_unavailable', `the keys of the issuer are not available: ${reason}`, {
    hint: `try again in ${seconds} s`,
    retryAfterSeconds: seconds,
  });
}
