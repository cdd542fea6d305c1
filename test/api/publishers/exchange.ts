import type { PublisherConfig } from '../../../src/core/config/config.ts';
import { audience } from '../../services/issuer.ts';

export { audience };

/** A trusted publisher of the pipeline `maps`. */
export const publisherOf = (issuer: string, more: Partial<PublisherConfig> = {}): PublisherConfig => ({
  id: 'site-ci',
  issuer,
  audience,
  jwksFile: null,
  claims: { repository_id: '12345', ref: 'refs/heads/main' },
  pipelines: ['maps'],
  scopes: ['upload', 'read'],
  maxLifetimeMs: 900_000,
  ...more,
});

/** Claims that `publisherOf` matches. */
export const claims = {
  repository_id: '12345',
  repository: 'octo-org/site',
  ref: 'refs/heads/main',
  sha: '0123456789abcdef0123456789abcdef01234567',
  run_id: '77',
};

/** The parameters of an exchange, without the ID token. */
export const exchangeForm = {
  grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
  subject_token_type: 'urn:ietf:params:oauth:token-type:id_token',
};

export async function exchange(
  origin: string,
  token: string,
  more: Record<string, string> = {},
): Promise<{ status: number; body: Record<string, unknown>; headers: Headers }> {
  const form = new URLSearchParams({ ...exchangeForm, subject_token: token, ...more });
  const response = await fetch(`${origin}/v1/token`, { method: 'POST', body: form });
  const body = (await response.json()) as Record<string, unknown>;
  return { status: response.status, body, headers: response.headers };
}

/** Returns the token that was issued for the ID token. */
export async function accessToken(origin: string, idToken: string): Promise<string> {
  const { status, body } = await exchange(origin, idToken);
  if (status !== 200) throw new Error(`the exchange was refused: ${JSON.stringify(body)}`);
  return String(body['access_token']);
}
