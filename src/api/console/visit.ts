import type { IncomingMessage } from 'node:http';
import type { Request, Response } from 'express';
import { asWaybillError, WaybillError } from '../../core/lib/errors.ts';
import { prefersPage } from '../http/answer/negotiate.ts';
import type { Problem } from '../http/answer/problem-document.ts';
import { problemOf, retryAfterSeconds } from '../http/problem.ts';
import { keepAuthorized } from '../http/request/authority.ts';
import { requestContext } from '../http/request/request-context.ts';
import type { Handler } from '../http/route.ts';
import type { ConsoleAccess, ConsoleParts } from './ports.ts';
import { readForm, requireOwnSite, requireCsrf, type Form } from './form.ts';
import { loginPath } from './paths.ts';
import type { Visitor } from './session/sessions.ts';

/** One request of somebody who is logged in. */
export interface Visit<Params = Record<string, never>> {
  req: Request<Params>;
  res: Response;
  visitor: Visitor;
  /** By which the whole request is judged. */
  access: ConsoleAccess;
  parts: ConsoleParts;
  /** Why what the visitor asked for was not done; the page that it was asked on then says so. */
  refusal?: Problem;
}

/** Serves a page to whoever is logged in; everybody else is led to the login, and comes back afterwards. */
export function page<Params>(
  parts: ConsoleParts,
  show: (visit: Visit<Params>) => Promise<void> | void,
): Handler {
  const handler = async (req: Request<Params>, res: Response): Promise<void> => {
    const visitor = await visitorOf(req, parts);
    if (visitor === null) {
      res.redirect(303, loginPath(parts.http.basePath, req.originalUrl));
      return;
    }
    await show({ req, res, visitor, access: parts.configured.get(), parts });
  };
  return handler as Handler;
}

/**
 * Does what a form asks for. It has to come from a page of this session: the cookie alone, which a browser
 * sends with whatever asks for it, does nothing. What is refused is told on the page that `again` shows,
 * which is the one with the form; if that cannot be shown either, or nobody wants a page, it is thrown.
 */
export function action<Params>(
  parts: ConsoleParts,
  act: (visit: Visit<Params>, form: Form) => Promise<void>,
  again?: (visit: Visit<Params>) => Promise<void> | void,
): Handler {
  const handler = async (req: Request<Params>, res: Response): Promise<void> => {
    requireOwnSite(req);
    const admitted = await requireVisitor(req, parts);
    const form = await readForm(req, res, parts);
    const visitor = requireCurrent(admitted, parts);
    requireCsrf(visitor, form.get('csrf'));
    const visit: Visit<Params> = { req, res, visitor, access: parts.configured.get(), parts };
    try {
      await act(visit, form);
    } catch (thrown) {
      if (again === undefined || res.headersSent || !prefersPage(req.headers.accept)) throw thrown;
      await tellRefusal(visit, asWaybillError(thrown), again);
    }
  };
  return handler as Handler;
}

async function tellRefusal<Params>(
  visit: Visit<Params>,
  error: WaybillError,
  again: (visit: Visit<Params>) => Promise<void> | void,
): Promise<void> {
  const context = requestContext(visit.req);
  const refusal = problemOf(error, context.id);
  // A defect is logged, and told, as everywhere.
  if (refusal.status === 500) throw error;
  const retryAfter = error.retryAfterSeconds ?? retryAfterSeconds[error.code];
  if (retryAfter !== undefined) visit.res.setHeader('Retry-After', retryAfter);
  await Promise.resolve(again({ ...visit, refusal })).catch(() => {
    throw error;
  });
  context.fields['code'] = refusal.code;
}

type ConsoleRequest = IncomingMessage & Pick<Request, 'secure'>;

/** Throws `unauthorized` if the request has no session. */
export async function requireVisitor(req: ConsoleRequest, parts: ConsoleParts): Promise<Visitor> {
  const visitor = await visitorOf(req, parts);
  if (visitor === null) throw loggedOut();
  return keepAuthorized(req, () => requireCurrent(visitor, parts));
}

/** The visitor as of now. Throws `unauthorized` for one that is no longer logged in. */
export function requireCurrent(visitor: Visitor, { sessions }: Pick<ConsoleParts, 'sessions'>): Visitor {
  const current = sessions.current(visitor);
  if (current === null) throw loggedOut();
  return current;
}

function loggedOut(): WaybillError {
  return new WaybillError('unauthorized', 'the session has ended', { hint: 'log in, and do it again' });
}

async function visitorOf(req: ConsoleRequest, { sessions }: ConsoleParts): Promise<Visitor | null> {
  const visitor = await sessions.find(req);
  if (visitor !== null) requestContext(req).fields['token_id'] = visitor.token.id;
  return visitor;
}
