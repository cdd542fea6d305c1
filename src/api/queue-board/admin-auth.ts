import type { RequestHandler } from 'express';
import { createHash, timingSafeEqual } from 'node:crypto';
import type { Config } from '../../core/config/config.ts';
import type { Current } from '../../core/current.ts';
import type { Secrets } from '../../core/secrets.ts';
import { WaybillError } from '../../core/errors.ts';
import { scopes } from '../../core/config/scopes.ts';
import { findToken, resolveDistinct, type KnownToken, type Token } from '../http/auth.ts';

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

/** Replaced by a reload. */
export interface AdminAccess {
  /** Null if none is configured: then nobody is let in. */
  adminToken: KnownToken | null;
}

/**
 * Requires the token, as a bearer token or as the password of basic authentication with any user name (which
 * browsers prompt for). Answers 401 otherwise.
 */
export function requireAdmin(configured: Current<AdminAccess>): RequestHandler {
  return (req, res, next) => {
    const header = req.headers.authorization;
    const { adminToken } = configured.get();
    if (adminToken !== null && isPassword(header, adminToken)) {
      next();
      return;
    }
    try {
      findToken(header, adminToken === null ? [] : [adminToken]);
    } catch (error) {
      res.setHeader('WWW-Authenticate', ['Basic realm="waybill admin", charset="UTF-8"', 'Bearer']);
      throw error instanceof WaybillError
        ? new WaybillError('unauthorized', 'this needs the admin token', {
            hint: 'send it as a bearer token, or as the password of basic authentication',
          })
        : error;
    }
    next();
  };
}

function isPassword(header: string | undefined, { hash }: KnownToken): boolean {
  const encoded = /^Basic +([A-Za-z0-9+/]+=*)$/i.exec(header ?? '')?.[1];
  if (encoded === undefined) return false;
  const sent = Buffer.from(encoded, 'base64').toString('utf8');
  const password = sent.slice(sent.indexOf(':') + 1);
  return sent.includes(':') && timingSafeEqual(createHash('sha256').update(password).digest(), hash);
}
