import type { Request, Response } from 'express';
import { WaybillError } from '../../../core/lib/errors.ts';
import { statusOf } from '../../http/answer/error-status.ts';
import { isExpired, type Token, tokenOfValue } from '../../http/auth.ts';
import { requestContext } from '../../http/request/request-context.ts';
import { clientOf } from '../../http/request-log.ts';
import type { Handler } from '../../http/route.ts';
import type { PageRoute } from '../../pages/page-routes.ts';
import { sendPage } from '../../pages/send-page.ts';
import { afterLogin, flashOf, paths, withFlash } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { action, readForm, requireOwnSite } from '../visit.ts';

const login = `/${paths.login()}`;

export const loginPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: login,
  handle: (parts) =>
    (async (req: Request, res: Response) => {
      const next = afterLogin(parts.http.basePath, nextOf(req));
      if ((await parts.sessions.find(req)) !== null) res.redirect(303, next);
      else showLogin(res, parts, { next, flash: flashOf(req.originalUrl) });
    }) as Handler,
};

export const loginAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: login,
  audit: 'login',
  handle: (parts) =>
    (async (req: Request, res: Response) => {
      requireOwnSite(req);
      const form = await readForm(req, res, parts);
      const next = afterLogin(parts.http.basePath, form.get('next'));
      try {
        const token = await tokenOf(req, form.get('token') ?? '', parts);
        requestContext(req).fields['token_id'] = token.id;
        await parts.sessions.begin(req, res, token);
      } catch (error) {
        if (!(error instanceof WaybillError) || statusOf[error.code] !== 401) throw error;
        requestContext(req).fields['code'] = error.code;
        showLogin(res, parts, { next, error: error.message, status: 401 });
        return;
      }
      res.redirect(303, next);
    }) as Handler,
};

export const logoutAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: `/${paths.logout()}`,
  audit: 'logout',
  handle: (parts) =>
    action(parts, async ({ req, res, visitor }) => {
      await parts.sessions.end(req, res, visitor);
      res.redirect(303, withFlash(`${parts.http.basePath}${paths.login()}`, 'logged_out'));
    }),
};

/** Throws `too_many_logins` before comparing the token, otherwise `unauthorized` or `token_expired`. */
async function tokenOf(req: Request, value: string, parts: ConsoleParts): Promise<Token> {
  const { loginLimit, configured, clock, log } = parts;
  const client = clientOf(req);
  await loginLimit.admit(client);
  const { tokens, adminToken } = configured.get();
  const known = adminToken === null ? tokens : [...tokens, adminToken];
  const token = tokenOfValue(value.trim(), known);
  if (token === undefined || isExpired(token, clock)) {
    await loginLimit.failed(client);
    log.warn({ client, token_id: token?.id ?? null }, 'login to the console refused');
  }
  if (token === undefined) throw new WaybillError('unauthorized', 'No token has this value.');
  if (isExpired(token, clock))
    throw new WaybillError('token_expired', `The token "${token.id}" has expired.`);
  return token;
}

function nextOf({ originalUrl }: Request): string | null {
  return new URL(originalUrl, 'http://localhost').searchParams.get('next');
}

function showLogin(
  res: Response,
  { site }: ConsoleParts,
  {
    next,
    error = null,
    flash = null,
    status = 200,
  }: { next: string; error?: string | null; flash?: string | null; status?: number },
): void {
  const page = {
    title: 'Log in',
    template: 'console/login',
    nav: 'console',
    styles: ['console'],
    view: { next, error, flash },
  };
  sendPage(res, site, page, { status });
}
