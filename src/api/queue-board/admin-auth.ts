import type { RequestHandler } from 'express';
import { createHash, timingSafeEqual } from 'node:crypto';
import type { Config } from '../../core/config/config.ts';
import type { Secrets } from '../../core/secrets.ts';
import { WaybillError } from '../../core/errors.ts';
import { authenticate, resolveTokens, type Token } from '../http/auth.ts';

/**
 * The token of `server.admin_token_env`; null where none is configured. Throws `secrets_invalid` where it is
 * missing, unusable or an upload token's.
 */
export function resolveAdminToken(config: Config, secrets: Secrets): Token | null {
  const { adminTokenEnv } = config.server;
  if (adminTokenEnv === null) return null;
  const admin = { id: 'server.admin_token_env', valueEnv: adminTokenEnv, pipelines: [] };
  // Together with the others, so that no producer's token opens what is the operator's.
  return resolveTokens([...config.uploadTokens, admin], secrets).at(-1) ?? null;
}

/**
 * Lets through who has the token: as a bearer token, or as the password of basic authentication (under any
 * user name), which is what a browser asks people for. Others get 401.
 */
export function requireAdmin(token: Token): RequestHandler {
  return (req, res, next) => {
    const header = req.headers.authorization;
    if (isPassword(header, token)) {
      next();
      return;
    }
    try {
      authenticate(header, [token]);
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

function isPassword(header: string | undefined, { hash }: Token): boolean {
  const encoded = /^Basic +([A-Za-z0-9+/]+=*)$/i.exec(header ?? '')?.[1];
  if (encoded === undefined) return false;
  const sent = Buffer.from(encoded, 'base64').toString('utf8');
  const password = sent.slice(sent.indexOf(':') + 1);
  return sent.includes(':') && timingSafeEqual(createHash('sha256').update(password).digest(), hash);
}
