import { createHash, randomBytes } from 'node:crypto';
import { WaybillError } from '../../core/lib/errors.ts';
import { FetchFailure, requestJson } from '../publishers/fetch-json.ts';
import { type IdentityPorts, verifyLogin } from '../publishers/id-token.ts';
import { paths } from './paths.ts';
import type { Claims, ConsoleLogin } from './people.ts';

/*
 * Implements login through an OpenID Connect issuer, using the authorization code flow with PKCE. The pending
 * login is stored in an encrypted cookie, so any API host can finish it.
 */

/** A pending login, as stored in the browser's cookie. */
export interface LoginAttempt {
  /**
   * Sent to the issuer and checked when it redirects back, so that the response can only be used in this
   * browser.
   */
  state: string;
  /** The issuer includes this in the ID token, so that a token from a different login is rejected. */
  nonce: string;
  /** The PKCE verifier. Without it, a stolen code cannot be exchanged. */
  verifier: string;
  /** The page to open after login. */
  next: string;
}

export function newAttempt(next: string): LoginAttempt {
  return { state: secret(), nonce: secret(), verifier: secret(), next };
}

function secret(): string {
  return randomBytes(32).toString('base64url');
}

/**
 * Returns the URL of the issuer's login page for this attempt. Throws `issuer_unavailable` if the issuer
 * cannot be reached.
 */
export async function addressOf(
  { state, nonce, verifier }: LoginAttempt,
  login: ConsoleLogin,
  { identity: { issuerKeys } }: IdentityPorts,
): Promise<string> {
  const { authorizationEndpoint } = await issuerKeys.metadata(login.issuer);
  if (authorizationEndpoint === null) throw incomplete(login, 'authorization_endpoint');
  const url = new URL(authorizationEndpoint);
  const parameters = {
    response_type: 'code',
    client_id: login.clientId,
    redirect_uri: redirectUri(login),
    scope: [...new Set(['openid', ...login.scopes])].join(' '),
    state,
    nonce,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
}

/** Uses the configured URL, because a client can send any `Host` header. */
function redirectUri({ publicUrl }: ConsoleLogin): string {
  return `${publicUrl}${paths.loginCallback()}`;
}

/**
 * Finishes a login after the issuer's redirect and returns the person's verified claims. Throws
 * `login_refused`, or `issuer_unavailable` if the issuer is unreachable or violates the protocol.
 */
export async function claimsOfAnswer(
  query: URLSearchParams,
  attempt: LoginAttempt | null,
  login: ConsoleLogin,
  ports: IdentityPorts,
): Promise<Claims> {
  const code = codeOf(query, attempt, login);
  const idToken = await idTokenOf(code, attempt?.verifier ?? '', login, ports);
  const claims: Claims = await verifyLogin(idToken, login, ports).catch((error: unknown) => {
    if (!(error instanceof WaybillError) || error.code !== 'id_token_refused') throw error;
    throw refusal(`the answer of ${login.host} is not valid: ${error.message}`, askAdministrator);
  });
  if (claims['nonce'] !== attempt?.nonce)
    throw refusal(`the answer of ${login.host} belongs to another login`, tryAgain);
  const { sub: subject } = claims;
  if (typeof subject !== 'string' || !/^[\x21-\x7e]{1,255}$/.test(subject))
    throw refusal(`the answer of ${login.host} names no user`, askAdministrator);
  return claims;
}

const tryAgain = 'log in again';
const askAdministrator =
  'try again later; if it fails again, ask the administrator of this server to read its log';

/**
 * Returns the authorization code after checking that the redirect belongs to this login attempt. Throws
 * `login_refused`.
 */
function codeOf(query: URLSearchParams, attempt: LoginAttempt | null, login: ConsoleLogin): string {
  const { host, issuer } = login;
  const only = (name: string): string | null => {
    const [value = null, ...more] = query.getAll(name);
    return more.length > 0 ? '' : value;
  };
  if (only('state') !== attempt?.state)
    throw refusal('this login was not started in this browser, or it took more than 10 minutes', tryAgain);
  const from = only('iss');
  if (from !== null && from !== issuer)
    throw refusal(`the answer to this login does not come from ${host}`, tryAgain);
  const error = only('error');
  if (error === 'access_denied') throw refusal(`the login was cancelled or denied at ${host}`, tryAgain);
  if (error !== null) throw refusal(`the login failed at ${host}${named(error)}`, askAdministrator);
  const code = only('code');
  if (code === null || code === '') throw refusal(`the answer of ${host} has no code`, tryAgain);
  return code;
}

/** Exchanges the code for an ID token. Throws `login_refused` and `issuer_unavailable`. */
async function idTokenOf(
  code: string,
  verifier: string,
  login: ConsoleLogin,
  { clock, identity: { issuerKeys } }: IdentityPorts,
): Promise<string> {
  const { host, clientId, clientSecret } = login;
  const { tokenEndpoint, takesSecretInForm } = await issuerKeys.metadata(login.issuer);
  if (tokenEndpoint === null) throw incomplete(login, 'token_endpoint');
  const isInForm = clientSecret === null || takesSecretInForm;
  const fields = new URLSearchParams({
    grant_type: 'authorization_code',
    code,
    redirect_uri: redirectUri(login),
    code_verifier: verifier,
    ...(isInForm ? { client_id: clientId } : {}),
    ...(isInForm && clientSecret !== null ? { client_secret: clientSecret } : {}),
  });
  const form = isInForm ? { fields } : { fields, authorization: basic(clientId, clientSecret) };
  const { status, document } = await requestJson(tokenEndpoint, clock, form).catch((failure: unknown) => {
    throw failure instanceof FetchFailure ? unavailable(login, failure.message) : failure;
  });
  const { error, id_token: idToken } = (document ?? {}) as Record<string, unknown>;
  if (status !== 200) {
    if (error === 'invalid_grant')
      throw refusal('the login took too long, or its last page was opened twice', tryAgain);
    throw refusal(`this console is not accepted by ${host}${named(error)}`, askAdministrator);
  }
  if (typeof idToken === 'string') return idToken;
  throw refusal(`the answer of ${host} has no ID token`, askAdministrator);
}

/** RFC 6749, section 2.3.1, requires both parts to be form-encoded. */
function basic(clientId: string, clientSecret: string): string {
  const encoded = [clientId, clientSecret].map((part) =>
    new URLSearchParams({ '': part }).toString().slice(1),
  );
  return `Basic ${Buffer.from(encoded.join(':')).toString('base64')}`;
}

/** Only shows error codes in the format that OAuth defines. Anything else could be text from an attacker. */
function named(error: unknown): string {
  return typeof error === 'string' && /^[a-z_]{1,50}$/.test(error) ? ` (${error})` : '';
}

function refusal(message: string, hint: string): WaybillError {
  return new WaybillError('login_refused', message, { hint });
}

function unavailable({ host }: ConsoleLogin, reason: string): WaybillError {
  return new WaybillError('issuer_unavailable', `the login with ${host} does not work now: ${reason}`, {
    hint: 'try again in a minute, or log in with a token',
  });
}

function incomplete(login: ConsoleLogin, name: string): WaybillError {
  return unavailable(login, `its discovery document has no ${name} with https`);
}
