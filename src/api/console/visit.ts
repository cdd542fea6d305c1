import { timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Request, Response } from 'express';
import type { Scope } from '../../core/config/schema/schema.ts';
import { asWaybillError, WaybillError } from '../../core/lib/errors.ts';
import { retryAfterSeconds } from '../http/answer/error-status.ts';
import { prefersPage } from '../http/answer/negotiate.ts';
import { type Problem, problemOf } from '../http/answer/problem.ts';
import { type MemoryBodyPorts, readBody, smallBodyBytes } from '../http/request/request-body.ts';
import { keepAuthorized, requestContext } from '../http/request/request-context.ts';
import type { Handler } from '../http/route.ts';
import { permitPipeline } from '../pipelines/pipeline-access.ts';
import type { PipelineAccess, PipelineSummary } from '../pipelines/pipelines-route.ts';
import { loginPath } from './paths.ts';
import type { ConsoleAccess, ConsoleParts } from './ports.ts';
import type { Visitor } from './sessions.ts';

/** One request of a logged-in visitor. */
export interface Visit<Params = Record<string, never>> {
  req: Request<Params>;
  res: Response;
  visitor: Visitor;
  /** The configuration that the whole request is checked against. */
  access: ConsoleAccess;
  parts: ConsoleParts;
  /** Why what the visitor asked for was not done; the page that it was asked on then says so. */
  refusal?: Problem;
}

/** Serves a page to logged-in visitors. Others are redirected to the login, and return afterwards. */
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

/** What a form without files sends. */
export type Form = URLSearchParams;

const formType = 'application/x-www-form-urlencoded';

/** Throws `unsupported_media_type`, `invalid_request` for one of more than 16 KiB, and as `readBody`. */
export async function readForm(
  req: IncomingMessage,
  res: ServerResponse,
  ports: MemoryBodyPorts,
): Promise<Form> {
  const type = (req.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
  if (type !== formType)
    throw new WaybillError('unsupported_media_type', 'this is not what a form of the console sends', {
      hint: `send ${formType}`,
    });
  const bytes = await readBody(req, res, ports, {
    maxBytes: smallBodyBytes,
    tooLong: () => new WaybillError('invalid_request', `the form has more than ${smallBodyBytes} bytes`),
  });
  return new URLSearchParams(bytes.toString('utf8'));
}

/**
 * Throws `form_expired` if another site sent the request. Browsers name the site in `Sec-Fetch-Site`, but not
 * over plain HTTP to another machine: there `Origin` must name the host of the request. A client that sends
 * neither is no browser, and has only the cookies that it asked for.
 */
export function requireOwnSite({ headers, host }: Pick<Request, 'headers' | 'host'>): void {
  const from = headers['sec-fetch-site'];
  const isOwn =
    from === undefined
      ? headers.origin === undefined || hostOf(headers.origin) === host
      : from === 'same-origin' || from === 'none';
  if (!isOwn) throw notOurs('the form came from another site');
}

/** null for the origin `null` of a sandboxed page, and for an invalid URL. */
function hostOf(origin: string): string | null {
  return URL.canParse(origin) ? new URL(origin).host : null;
}

/** Throws `form_expired` if the form does not have the token of the session. */
export function requireCsrf({ session }: Pick<Visitor, 'session'>, sent: string | null | undefined): void {
  const [expected, found] = [Buffer.from(session.csrf), Buffer.from(sent ?? '')];
  if (expected.length === found.length && timingSafeEqual(expected, found)) return;
  throw notOurs('the form does not belong to this session');
}

function notOurs(message: string): WaybillError {
  return new WaybillError('form_expired', message, {
    hint: 'open the page again and send its form from there',
  });
}

/**
 * What somebody may want with a pipeline: the scope that it takes, and whether the admin token has it on
 * every pipeline, as in the API. Reading is more than the API gives it: whoever may cancel any run sees it.
 */
const deeds = {
  read: { scope: 'read', admin: true },
  upload: { scope: 'upload', admin: false },
  start: { scope: 'run', admin: false },
  plan: { scope: 'run', admin: false },
  retry: { scope: 'run', admin: true },
  rerun: { scope: 'run', admin: true },
  cancel: { scope: 'cancel', admin: true },
  releases: { scope: 'releases', admin: true },
  verify: { scope: 'run', admin: true },
} as const satisfies Record<string, { scope: Scope; admin: boolean }>;
export type Deed = keyof typeof deeds;

/**
 * The pipeline, if the visitor may do this with it. Throws `pipeline_not_found`, `forbidden` and
 * `insufficient_scope` as the API does.
 */
export function permit(
  res: Response,
  { token }: Visitor,
  deed: Deed,
  id: string,
  { pipelines, adminToken }: PipelineAccess,
): PipelineSummary {
  const { scope, admin } = deeds[deed];
  return permitPipeline(res, token, {
    ...{ adminToken: admin ? adminToken : null, id, scope },
    find: (wanted) => pipelines.find(({ pipeline_id }) => pipeline_id === wanted),
  });
}

/** Whether `permit` would let the visitor. Pure. */
export function may({ token, isAdmin }: Visitor, deed: Deed, id: string): boolean {
  const { scope, admin } = deeds[deed];
  return (isAdmin && admin) || (token.pipelines.has(id) && token.scopes.has(scope));
}

/** The pipelines that the visitor may read about, in the order of the configuration. Pure. */
export function seenBy(visitor: Visitor, { pipelines }: PipelineAccess): PipelineSummary[] {
  return pipelines.filter(({ pipeline_id }) => may(visitor, 'read', pipeline_id));
}
