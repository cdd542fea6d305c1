import type { Config } from '../../core/config/config.ts';
import type { Secrets } from '../../core/lib/secrets.ts';
import { scopes } from '../../core/config/schema/schema.ts';
import { resolveDistinct, type Token } from './auth.ts';

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
