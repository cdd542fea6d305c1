import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair } from 'jose';
import { Provider } from 'oidc-provider';
import type { Test } from 'tap';

/** A real OpenID Connect provider on loopback, with one client. Every login succeeds. */
export interface OidcProvider {
  issuer: string;
  clientId: string;
  /** The account of the next logins without a hint, with its claims. null: the user denies the login. */
  user: { id: string; claims: Record<string, unknown> } | null;
  /** Logs in by the authorization code flow with PKCE, and returns the ID token with these claims. */
  idToken: (claims: Record<string, unknown>) => Promise<string>;
}

const redirectUri = 'http://127.0.0.1:1/callback';
const verifier = 'v'.repeat(64);

export async function startOidcProvider(
  t: Test,
  alg: 'RS256' | 'ES256' = 'RS256',
  { redirectUris = [redirectUri], secret }: { redirectUris?: string[]; secret?: string } = {},
): Promise<OidcProvider> {
  const server = createServer();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { privateKey } = await generateKeyPair(alg, { extractable: true });
  const accounts = new Map<string, Record<string, unknown>>();
  const clientId = 'waybill-test';
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: clientId,
        ...(secret === undefined
          ? { token_endpoint_auth_method: 'none' as const, application_type: 'native' as const }
          : { client_secret: secret }),
        redirect_uris: redirectUris,
        id_token_signed_response_alg: alg,
      },
    ],
    jwks: { keys: [{ ...(await exportJWK(privateKey)), use: 'sig', alg, kid: 'provider-key' }] },
    cookies: { keys: ['a key of this test'] },
    claims: {
      openid: ['sub', 'repository_id', 'ref', 'repository', 'groups', 'email', 'email_verified'],
    },
    conformIdTokenClaims: false,
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_ctx, { uid }) => `/interaction/${uid}` },
    findAccount: (_ctx, sub) => ({
      accountId: sub,
      claims: () => ({ sub, ...(accounts.get(sub) ?? opened.user?.claims) }),
    }),
  });
  const serve = provider.callback();
  server.on('request', (req: IncomingMessage, res: ServerResponse) => {
    if (req.url?.startsWith('/interaction/') === true) void consent(provider, opened, req, res);
    else void serve(req, res);
  });
  const opened: OidcProvider = {
    issuer,
    clientId,
    user: null,
    idToken: async (claims) => {
      const account = `job-${accounts.size + 1}`;
      accounts.set(account, claims);
      const code = await login(issuer, clientId, account);
      const form = { grant_type: 'authorization_code', code, client_id: clientId, redirect_uri: redirectUri };
      const body = new URLSearchParams({ ...form, code_verifier: verifier });
      const response = await fetch(`${issuer}/token`, { method: 'POST', body });
      return ((await response.json()) as { id_token: string }).id_token;
    },
  };
  return opened;
}

/** Follows the redirects of a login to the code. `login_hint` is the account. */
async function login(issuer: string, clientId: string, account: string): Promise<string> {
  const { subtle } = globalThis.crypto;
  const digest = await subtle.digest('SHA-256', Buffer.from(verifier));
  const query = new URLSearchParams({
    client_id: clientId,
    redirect_uri: redirectUri,
    response_type: 'code',
    scope: 'openid',
    login_hint: account,
    code_challenge: Buffer.from(digest).toString('base64url'),
    code_challenge_method: 'S256',
  });
  const cookies = new Map<string, string>();
  let url = `${issuer}/auth?${query.toString()}`;
  while (!url.startsWith(redirectUri)) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(url, { redirect: 'manual', headers: { cookie } });
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      cookies.set(name, value);
    }
    const location = response.headers.get('location');
    if (location === null) throw new Error(`no redirect: ${response.status} ${await response.text()}`);
    url = new URL(location, url).href;
  }
  const code = new URL(url).searchParams.get('code');
  if (code === null) throw new Error(`no code: ${url}`);
  return code;
}

/** Logs in the account of the hint, or the default user, and grants the scope. */
async function consent(
  provider: Provider,
  { user }: OidcProvider,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  const { params } = await provider.interactionDetails(req, res);
  const hint = params['login_hint'];
  const accountId = typeof hint === 'string' ? hint : user?.id;
  if (accountId === undefined) {
    await provider.interactionFinished(req, res, { error: 'access_denied' });
    return;
  }
  const grant = new provider.Grant({ accountId, clientId: String(params['client_id']) });
  grant.addOIDCScope('openid');
  const result = { login: { accountId }, consent: { grantId: await grant.save() } };
  await provider.interactionFinished(req, res, result);
}
