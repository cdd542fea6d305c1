import { timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Request, Response } from 'express';
import type { Actor } from '../../core/audit/record.ts';
import type { Scope } from '../../core/config/schema/schema.ts';
import { asWaybillError, WaybillError } from '../../core/lib/errors.ts';
import { retryAfterSeconds } from '../http/answer/error-status.ts';
import { prefersPage } from '../http/answer/negotiate.ts';
import { type Problem, problemOf } from '../http/answer/problem.ts';
import { allows, type Token } from '../http/auth.ts';
import { type MemoryBodyPorts, readBody, smallBodyBytes } from '../http/request/request-body.ts';
import { keepAuthorized, requestContext } from '../http/request/request-context.ts';
import type { Handler } from '../http/route.ts';
import { permitPipeline, requireAdminToken } from '../pipelines/pipeline-access.ts';
import type { PipelineAccess, PipelineSummary } from '../pipelines/pipelines-route.ts';
import { loginPath } from './paths.ts';
import type { ConsoleAccess, ConsoleParts } from './ports.ts';
import type { Visitor } from './sessions.ts';

/** A request by a logged-in visitor. */
export interface Visit<Params = Record<string, never>> {
  req: Request<Params>;
  res: Response;
  visitor: Visitor;
  /** The configuration that the whole request is checked against. */
  access: ConsoleAccess;
  parts: ConsoleParts;
  /** Why the visitor's action was refused. The page with the form shows this. */
  refusal?: Problem;
}

/**
 * Serves a page to logged-in visitors. Redirects everyone else to the login page, which returns here
 * afterwards.
 */
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
 * Serves a form's action. The form must come from a page of this session. The cookie alone is not enough,
 * because browsers add it to every request. A refusal is shown on the page that `again` renders, usually the
 * one with the form. If that page cannot be rendered, or the client does not want HTML, the refusal is
 * thrown.
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
      await sendRefusal(visit, asWaybillError(thrown), again);
    }
  };
  return handler as Handler;
}

async function sendRefusal<Params>(
  visit: Visit<Params>,
  error: WaybillError,
  again: (visit: Visit<Params>) => Promise<void> | void,
): Promise<void> {
  const context = requestContext(visit.req);
  const refusal = problemOf(error, context.id);
  // Server faults are logged and reported like on every route.
  if (refusal.status === 500) throw error;
  const retryAfter = error.retryAfterSeconds ?? retryAfterSeconds[error.code];
  if (retryAfter !== undefined) visit.res.setHeader('Retry-After', retryAfter);
  context.fields['code'] = refusal.code;
  await Promise.resolve(again({ ...visit, refusal })).catch(() => {
    throw error;
  });
}

type ConsoleRequest = IncomingMessage & Pick<Request, 'secure'>;

/** Throws `unauthorized` if the request has no session. */
export async function requireVisitor(req: ConsoleRequest, parts: ConsoleParts): Promise<Visitor> {
  const visitor = await visitorOf(req, parts);
  if (visitor === null) throw loggedOut();
  return keepAuthorized(req, () => requireCurrent(visitor, parts));
}

/** Returns the visitor with its current token. Throws `unauthorized` if the session has ended. */
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
  if (visitor !== null) noteVisitor(req, visitor.token);
  return visitor;
}

/** Adds the visitor to the request's log line and audit record. */
export function noteVisitor(req: IncomingMessage, { id, person }: Pick<Token, 'id' | 'person'>): void {
  const context = requestContext(req);
  context.fields['token_id'] = id;
  if (person !== undefined) context.actor = userActor(person);
}

export function userActor({ subject, issuer }: { subject: string; issuer: string }): Actor {
  return { type: 'user', id: subject, issuer };
}

/** The fields of a form without files. */
export type Form = URLSearchParams;

const formType = 'application/x-www-form-urlencoded';

/**
 * Throws `unsupported_media_type`, `invalid_request` if the body exceeds 16 KiB, and the same errors as
 * `readBody`.
 */
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
 * Throws `form_expired` if another site sent the request. Browsers send `Sec-Fetch-Site`, except over plain
 * HTTP to another machine. In that case, `Origin` must name the request's host. A client that sends neither
 * is not a browser, so another site cannot use its cookies.
 */
export function requireOwnSite({ headers, host }: Pick<Request, 'headers' | 'host'>): void {
  const from = headers['sec-fetch-site'];
  const isOwn =
    from === undefined
      ? headers.origin === undefined || hostOf(headers.origin) === host
      : from === 'same-origin' || from === 'none';
  if (!isOwn) throw notOurs('the form came from another site');
}

/** Returns null for a sandboxed page's origin, `null`, and for an invalid URL. */
function hostOf(origin: string): string | null {
  return URL.canParse(origin) ? new URL(origin).host : null;
}

/** Throws `form_expired` if the form lacks the session's token. */
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
 * The actions on a pipeline, with the scope that each one requires. `admin` means that the admin token may
 * perform it on every pipeline. The rules match the API with one exception: here, the admin token may also
 * read, because it may cancel any run.
 */
const pipelineOperations = {
  read: { scope: 'read', admin: true },
  upload: { scope: 'upload', admin: false },
  start: { scope: 'run', admin: false },
  plan: { scope: 'run', admin: false },
  retry: { scope: 'run', admin: true },
  rerun: { scope: 'run', admin: true },
  cancel: { scope: 'cancel', admin: true },
  pause: { scope: 'cancel', admin: true },
  releases: { scope: 'releases', admin: true },
  verify: { scope: 'run', admin: true },
} as const satisfies Record<string, { scope: Scope; admin: boolean }>;
export type PipelineOperation = keyof typeof pipelineOperations;

/**
 * Returns the pipeline if the visitor may perform the action on it. Throws `pipeline_not_found`, `forbidden`
 * and `insufficient_scope` under the same conditions as the API.
 */
export function permit(
  res: Response,
  { token }: Visitor,
  operation: PipelineOperation,
  id: string,
  { pipelines, adminToken }: PipelineAccess,
): PipelineSummary {
  const { scope, admin } = pipelineOperations[operation];
  return permitPipeline(res, token, {
    ...{ adminToken: admin ? adminToken : null, id, scope },
    find: (wanted) => pipelines.find(({ pipeline_id }) => pipeline_id === wanted),
  });
}

/** Reports whether `permit` would allow the action. */
export function isAllowed({ token, isAdmin }: Visitor, operation: PipelineOperation, id: string): boolean {
  const { scope, admin } = pipelineOperations[operation];
  return (isAdmin && admin) || allows(token, scope, id);
}

/** Throws `forbidden` unless the visitor has the admin token or the admin role. */
export function requireAdmin({ token, isAdmin }: Visitor, access: Pick<ConsoleAccess, 'adminToken'>): void {
  if (isAdmin) return;
  if (token.person === undefined) requireAdminToken(token, access);
  throw new WaybillError('forbidden', 'this needs the role admin', {
    hint: 'ask the operator of this server for it',
  });
}

/** Returns the pipelines that the visitor may read, in configuration order. */
export function seenBy(visitor: Visitor, { pipelines }: PipelineAccess): PipelineSummary[] {
  return pipelines.filter(({ pipeline_id }) => isAllowed(visitor, 'read', pipeline_id));
}
