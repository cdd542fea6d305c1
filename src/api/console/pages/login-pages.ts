import type { Request, Response } from 'express';
import { WaybillError } from '../../../core/lib/errors.ts';
import { retryAfterOf, statusOf } from '../../http/answer/error-status.ts';
import { isExpired, type Token, tokenOfValue } from '../../http/auth.ts';
import { requestContext } from '../../http/request/request-context.ts';
import { clientOf } from '../../http/request-log.ts';
import type { Handler } from '../../http/route.ts';
import type { PageRoute } from '../../pages/page-routes.ts';
import { sendPage } from '../../pages/send-page.ts';
import { addressOf, claimsOfAnswer, newAttempt } from '../openid-login.ts';
import { afterLogin, flashOf, paths } from '../paths.ts';
import { type ConsoleLogin, personOf, tokenOfPerson } from '../people.ts';
import type { ConsoleParts } from '../ports.ts';
import { noteVisitor, readForm, requireOwnSite, userActor } from '../visit.ts';

const login = `/${paths.login()}`;

export const loginPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: login,
  handle: (parts) =>
    (async (req: Request, res: Response) => {
      const next = afterLogin(parts.http.basePath, nextOf(req));
      const visitor = await parts.sessions.find(req);
      const { searchParams } = new URL(req.originalUrl, 'http://localhost');
      if (visitor !== null && !searchParams.has('switch')) res.redirect(303, next);
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

/** Redirects to the issuer's login page. */
export const loginStart: PageRoute<ConsoleParts> = {
  method: 'get',
  path: `/${paths.loginStart()}`,
  handle: (parts) =>
    (async (req: Request, res: Response) => {
      const login = requireLogin(parts);
      const next = afterLogin(parts.http.basePath, nextOf(req));
      await orShowLogin(req, res, parts, next, async () => {
        const attempt = newAttempt(next);
        const address = await addressOf(attempt, login, parts);
        const expiresAt = new Date(parts.clock.now().getTime() + attemptMs);
        await parts.attempts.set(req, res, attempt, expiresAt);
        res.setHeader('Cache-Control', 'no-store');
        res.redirect(303, address);
      });
    }) as Handler,
};

/** Handles the redirect back from the issuer and starts the session. */
export const loginCallback: PageRoute<ConsoleParts> = {
  method: 'get',
  path: `/${paths.loginCallback()}`,
  audit: 'login',
  handle: (parts) =>
    (async (req: Request, res: Response) => {
      const login = requireLogin(parts);
      const attempt = await parts.attempts.read(req);
      const next = afterLogin(parts.http.basePath, attempt?.next ?? null);
      await orShowLogin(req, res, parts, next, async () => {
        parts.attempts.clear(req, res);
        const { searchParams } = new URL(req.originalUrl, 'http://localhost');
        const person = personOf(await claimsOfAnswer(searchParams, attempt, login, parts), login);
        requestContext(req).actor = userActor(person);
        const token = tokenOfPerson(person, login, parts.configured.get().pipelineIds);
        if (token === null)
          throw new WaybillError(
            'login_refused',
            `you are logged in at ${login.host} as ${person.name}, but you have no role in this console`,
            { hint: 'ask the administrator of this server for a role' },
          );
        noteVisitor(req, token);
        await parts.sessions.begin(req, res, token, person);
        // A 303 would not work: the issuer's site started this navigation, so the browser would not send our
        // strict cookie.
        res.setHeader('Refresh', `0; url=${next}`);
        showLogin(res, parts, { next, isLoggedIn: true });
      });
    }) as Handler,
};

/** The time that visitors have to log in at the issuer, in milliseconds. */
const attemptMs = 600_000;

function requireLogin({ configured }: ConsoleParts): ConsoleLogin {
  const { login } = configured.get();
  if (login !== null) return login;
  throw new WaybillError('not_found', 'this console has no login with an issuer', { hint: 'use a token' });
}

/**
 * Runs a login step and shows any error on the login page. A login that the issuer rejects counts as a failed
 * attempt.
 */
async function orShowLogin(
  req: Request,
  res: Response,
  parts: ConsoleParts,
  next: string,
  work: () => Promise<void>,
): Promise<void> {
  const client = clientOf(req);
  await parts.loginLimit.admit(client);
  try {
    await work();
  } catch (error) {
    if (!(error instanceof WaybillError)) throw error;
    if (error.code !== 'login_refused' && error.code !== 'issuer_unavailable') throw error;
    if (error.code === 'login_refused') await parts.loginLimit.failed(client);
    parts.log.warn({ client, reason: error.message }, 'login to the console failed');
    requestContext(req).fields['code'] = error.code;
    const { message, hint = null } = error;
    const seconds = retryAfterOf(error);
    if (seconds !== undefined) res.setHeader('Retry-After', seconds);
    showLogin(res, parts, { next, problem: { message, hint }, status: statusOf[error.code] });
  }
}

/**
 * Returns the token with this value. Throws `too_many_logins` before it compares the token, and
 * `unauthorized` or `token_expired` afterwards.
 */
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
  { site, configured }: ConsoleParts,
  { next, status = 200, ...view }: LoginView & { next: string; status?: number },
): void {
  const { login } = configured.get();
  const start = login === null ? '' : `${login.publicUrl}${paths.loginStart()}?`;
  const page = {
    title: 'Log in',
    template: 'console/login',
    styles: ['console'],
    view: {
      host: res.req.host,
      next,
      error: null,
      flash: null,
      problem: null,
      isLoggedIn: false,
      issuer:
        login === null
          ? null
          : { name: login.name ?? login.host, href: `${start}${new URLSearchParams({ next }).toString()}` },
      ...view,
    },
  };
  // Before the login, these entries would only lead back here.
  const nav = site.nav.filter(({ path }) => !path.startsWith('console'));
  sendPage(res, { ...site, nav }, page, { status });
}

interface LoginView {
  /** Why the token was rejected. */
  error?: string | null;
  flash?: string | null;
  /** Why the login through the issuer failed. */
  problem?: { message: string; hint: string | null } | null;
  /** If true, the page only shows a link to `next`. */
  isLoggedIn?: boolean;
}
