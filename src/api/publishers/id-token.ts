import { createHash } from 'node:crypto';
import { decodeJwt, decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from 'jose';
import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { violatedClaims } from '../../core/publishers/claim-rules.ts';
import type { RevokedSessions } from '../../workers/queue/revoked-sessions.ts';
import type { LoginLimit } from '../http/login-limit.ts';
import type { IssuerKeys, KeySet } from './issuer-keys.ts';
import type { Publisher } from './publishers.ts';

const algorithms = ['RS256', 'ES256', 'EdDSA'];
/** The clock difference to tolerate between the issuer and this machine, in seconds. */
const toleranceSeconds = 60;
const maxAgeSeconds = 24 * 3600;
const tooOld = 'the ID token is older than 24 h';

/** Verifies ID tokens, and remembers used tokens and ended sessions. */
export interface IdentityService {
  issuerKeys: Pick<IssuerKeys, 'find' | 'metadata'>;
  revokedSessions: Omit<RevokedSessions, 'close'>;
  /** Limits failed attempts to exchange a token. */
  exchangeLimit: LoginLimit;
}

export interface IdentityPorts {
  clock: Clock;
  identity: IdentityService;
}

export interface Verified {
  publisher: Publisher;
  claims: JWTPayload;
}

/**
 * Verifies an ID token and returns the first publisher that matches it. Every token can be used only once.
 * `check` can reject the request before the token counts as used. Throws its errors, `id_token_refused`,
 * `issuer_unavailable`, or `queue_unavailable` if the use of the token cannot be recorded.
 */
export async function verifyIdToken(
  token: string,
  publishers: readonly Publisher[],
  { clock, identity: { issuerKeys, revokedSessions } }: IdentityPorts,
  check: (publisher: Publisher) => void = () => undefined,
): Promise<Verified> {
  const { issuer, kid } = unverified(token);
  const candidates = publishers.filter((publisher) => publisher.issuer === issuer);
  const [first] = candidates;
  if (first === undefined || issuer === undefined)
    throw refused(`no trusted publisher has the issuer ${JSON.stringify(String(issuer).slice(0, 200))}`);
  const keys = first.keys ?? (await issuerKeys.find(issuer, kid));
  const audiences = candidates.map(({ audience }) => audience);
  const claims = await verifiedClaims(token, { issuer, kid, audiences, keys }, clock.now());
  const publisher = matching(candidates, claims);
  check(publisher);
  // Do this last. A token that fails another check can then be used again.
  const { id, until } = useOf(token, claims);
  if (await revokedSessions.addOnce(id, until)) return { publisher, claims };
  throw refused('the ID token was used before', 'get a new ID token for each exchange');
}

/**
 * Verifies the ID token of a login: it must come from this issuer and be intended for this client. Returns
 * its claims. Throws `id_token_refused` and `issuer_unavailable`.
 */
export async function verifyLogin(
  token: string,
  { issuer, clientId }: { issuer: string; clientId: string },
  { clock, identity: { issuerKeys } }: IdentityPorts,
): Promise<JWTPayload> {
  const { kid } = unverified(token);
  const keys = await issuerKeys.find(issuer, kid);
  const claims = await verifiedClaims(token, { issuer, kid, audiences: [clientId], keys }, clock.now());
  const isForOthers = Array.isArray(claims.aud) && claims.aud.length > 1;
  if (isForOthers && claims['azp'] !== clientId) throw refused('the ID token is for another client');
  return claims;
}

/** Reads a token before it is verified, only to find out which keys to verify it with. */
function unverified(token: string): { issuer: string | undefined; kid: string | undefined } {
  try {
    const { alg, kid } = decodeProtectedHeader(token);
    if (typeof alg !== 'string' || !algorithms.includes(alg))
      throw refused(`the algorithm of the ID token is not one of ${algorithms.join(', ')}`);
    const { iss } = decodeJwt(token);
    return { issuer: typeof iss === 'string' ? iss : undefined, kid };
  } catch (error) {
    if (error instanceof WaybillError) throw error;
    throw refused('the subject_token is not a signed JWT');
  }
}

async function verifiedClaims(
  token: string,
  {
    issuer,
    kid,
    audiences,
    keys,
  }: { issuer: string; kid: string | undefined; audiences: string[]; keys: KeySet },
  now: Date,
): Promise<JWTPayload> {
  if (kid !== undefined && keys.weakIds.has(kid))
    throw refused('the key of the ID token is an RSA key of fewer than 2,048 bits');
  try {
    const { payload } = await jwtVerify(token, keys.find, {
      algorithms,
      issuer,
      audience: audiences,
      clockTolerance: toleranceSeconds,
      maxTokenAge: maxAgeSeconds,
      requiredClaims: ['exp'],
      currentDate: now,
    });
    return payload;
  } catch (error) {
    throw refused(reasonOf(error));
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof errors.JWTExpired) return error.claim === 'iat' ? tooOld : 'the ID token has expired';
  if (error instanceof errors.JWTClaimValidationFailed)
    return error.claim === 'aud'
      ? 'the ID token is for another audience'
      : error.claim === 'iat' || error.claim === 'nbf'
        ? `the ID token is not valid yet, or has no number as ${error.claim}`
        : `the claim ${error.claim} of the ID token is missing or invalid`;
  if (error instanceof errors.JWKSNoMatchingKey) return 'the issuer has no such key';
  if (error instanceof errors.JWSSignatureVerificationFailed)
    return 'the signature of the ID token does not match the key of the issuer';
  if (error instanceof errors.JOSEError) return 'the subject_token is not a valid signed JWT';
  // Errors of Web Crypto, and of code that prepares keys for it.
  if (error instanceof DOMException || error instanceof TypeError)
    return 'the key of the issuer is malformed';
  throw error;
}

/** Returns the first publisher whose audience and claims match the token. */
function matching(candidates: readonly Publisher[], claims: JWTPayload): Publisher {
  const audiences = [claims.aud].flat();
  const judged = candidates
    .filter(({ audience }) => audiences.includes(audience))
    .map((publisher) => ({ publisher, broken: violatedClaims(publisher.claims, claims) }))
    .sort((a, b) => a.broken.length - b.broken.length);
  const [best] = judged;
  if (best === undefined) throw refused('the ID token is for another audience');
  if (best.broken.length === 0) return best.publisher;
  // List only the names of the claims. Anyone with an account at the issuer can get here, and must not learn
  // the configured values.
  throw refused(
    `no trusted publisher matches the claims of the ID token; different: ${best.broken.join(', ')}`,
    'compare the claims with `trusted_publishers`; numbers and lists never match',
  );
}

/**
 * Returns the id under which to remember that a token was used, and for how long. Tokens without a `jti` are
 * identified by a hash.
 */
function useOf(token: string, { iss = '', jti, exp = 0, iat = 0 }: JWTPayload): { id: string; until: Date } {
  const unique = typeof jti === 'string' ? `jti ${jti}` : `token ${token.slice(0, token.lastIndexOf('.'))}`;
  const digest = createHash('sha256').update(`${iss}\n${unique}`).digest('base64url');
  const last = Math.min(exp, iat + maxAgeSeconds) + toleranceSeconds;
  return { id: `id-token-${digest}`, until: new Date(last * 1000) };
}

export function refused(message: string, hint?: string): WaybillError {
  return new WaybillError('id_token_refused', message, { hint });
}
