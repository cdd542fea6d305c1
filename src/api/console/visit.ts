import { timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Request, Response } from 'express';
import type { Actor } from '../../core/audit/record.ts';
import type { Scope } from '../../core/config/schema/schema.ts';
import { asWaybillError, WaybillError } from '../../core/lib/errors.ts';
import { retryAfterOf } from '../http/answer/error-status.ts';
import { prefersPage } from '../http/answer/negotiate.ts';
import { type Problem, problemOf } from '../http/answer/problem.ts';
import { allows, type Token } from '../http/auth.ts';
import { type MemoryBodyPorts, readBody, smallBodyBytes } from '../http/request/request-body.ts';
import { type Account, keepAuthorized, requestContext } from '../http/request/request-context.ts';
import { mediaTypeOf } from '../http/request/request-head.ts';
import type { Handler } from '../http/route.ts';
import { permitPipeline, requireAdminToken, requirePipeline } from '../pipelines/pipeline-access.ts';
import type { PipelineAccess, PipelineSummary } from '../pipelines/pipelines-route.ts';
import { loginPath, paths } from './paths.ts';
import type { ConsoleAccess, ConsoleParts } from './ports.ts';
import { permissionNames, tokenName } from './record-text.ts';
import type { Visitor } from './sessions.ts';

/** A request by a logged-in visitor. */
export interface Visit<Params = Record<string, never>> {
  req: Request<Params>;
  res: Response;
  visitor: Visitor;
  /** The configuration when the request arrived. A reload in between does not affect the request. */
  access: ConsoleAccess;
  parts: ConsoleParts;
  /** Why the submitted form was rejected, to be shown on the page with the form. */
  refusal?: Problem;
}

/** Serves a page to logged-in visitors. Everyone else is redirected to the login page first. */
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
 * Handles a submitted form. The form must come from a page of the same session; the cookie does not prove
 * that, because browsers attach it to every request. If the action fails, `again` renders a page that shows
 * the error, usually the one with the form. If that page cannot be rendered either, or the client does not
 * want HTML, the error is thrown.
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
  // Server errors are logged and reported as on any other route.
  if (refusal.status === 500) throw error;
  const retryAfter = retryAfterOf(error);
  if (retryAfter !== undefined) visit.res.setHeader('Retry-After', retryAfter);
  context.fields['code'] = refusal.code;
  await Promise.resolve(again({ ...visit, refusal })).catch(() => {
    throw error;
  });
}

type ConsoleRequest = IncomingMessage & Pick<Request, 'secure'>;

/** Returns the logged-in visitor. Throws `unauthorized` if there is none. */
export async function requireVisitor(req: ConsoleRequest, parts: ConsoleParts): Promise<Visitor> {
  const visitor = await visitorOf(req, parts);
  if (visitor === null) throw loggedOut();
  return keepAuthorized(req, () => requireCurrent(visitor, parts));
}

/**
 * Looks up the visitor's token again, since it may have changed. Throws `unauthorized` if the session has
 * ended.
 */
export function requireCurrent(visitor: Visitor, { sessions }: Pick<ConsoleParts, 'sessions'>): Visitor {
  const current = sessions.current(visitor);
  if (current === null) throw loggedOut();
  return current;
}

function loggedOut(): WaybillError {
  return new WaybillError('unauthorized', 'the session has ended', { hint: 'log in, and do it again' });
}

async function visitorOf(req: ConsoleRequest, { sessions, http }: ConsoleParts): Promise<Visitor | null> {
  const visitor = await sessions.find(req);
  if (visitor === null) return null;
  noteVisitor(req, visitor.token);
  requestContext(req).account = accountOf(visitor, http.basePath);
  return visitor;
}

/** Describes the visitor for the header of a page. */
export function accountOf(visitor: Visitor, basePath: string): Account {
  return {
    name: nameOf(visitor),
    isToken: visitor.token.person === undefined,
    href: `${basePath}${paths.account()}`,
    daemon: visitor.isAdmin ? `${basePath}${paths.admin()}` : null,
    signOut: `${basePath}${paths.logout()}`,
    csrf: visitor.session.csrf,
  };
}

/** Returns a person's name and highest role, or the token's id. */
function nameOf({ isAdmin, token: { id, person } }: Visitor): string {
  if (person === undefined) return isAdmin ? 'admin' : id;
  const roles = new Set(person.roles.values());
  const role = isAdmin ? 'admin' : roles.has('operator') ? 'operator' : 'viewer';
  return `${person.name} (${role})`;
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

/** The fields of a form that has no file inputs. */
export type Form = URLSearchParams;

const formType = 'application/x-www-form-urlencoded';

/**
 * Reads a submitted form. Throws `unsupported_media_type`, `invalid_request` if the body is larger than 16
 * KiB, and the same errors as `readBody`.
 */
export async function readForm(
  req: IncomingMessage,
  res: ServerResponse,
  ports: MemoryBodyPorts,
): Promise<Form> {
  if (mediaTypeOf(req) !== formType)
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
 * Throws `form_expired` if the request came from another site. Browsers send `Sec-Fetch-Site`, except over
 * plain HTTP to another machine, where we compare `Origin` with the request's host. A client that sends
 * neither header is not a browser, so no other site could be using its cookies.
 */
export function requireOwnSite({ headers, host }: Pick<Request, 'headers' | 'host'>): void {
  const from = headers['sec-fetch-site'];
  const isOwn =
    from === undefined
      ? headers.origin === undefined || hostOf(headers.origin) === host
      : from === 'same-origin' || from === 'none';
  if (!isOwn) throw notOurs('the form came from another site');
}

/** Returns null if the URL is invalid or `null`, which is the origin of sandboxed pages. */
function hostOf(origin: string): string | null {
  return URL.canParse(origin) ? new URL(origin).host : null;
}

/** Throws `form_expired` if the form does not contain the session's CSRF token. */
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
 * The actions on a pipeline and the scope that each of them requires. If `admin` is true, the admin token may
 * perform the action on every pipeline. The rules are the same as in the API, except that the admin token may
 * also read here, because it may cancel any run.
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
 * and `insufficient_scope` in the same cases as the API.
 */
export function permit(
  res: Response,
  { token }: Visitor,
  operation: PipelineOperation,
  id: string,
  { pipelines, adminToken }: PipelineAccess,
): PipelineSummary {
  const { scope, admin } = pipelineOperations[operation];
  const pipeline = requirePipeline(pipelines.find(({ pipeline_id }) => pipeline_id === id));
  requestContext(res.req).fields['pipeline_id'] = id;
  permitPipeline(res, token, { id, scope, adminToken: admin ? adminToken : null });
  return pipeline;
}

/** Reports whether `permit` would allow the action. */
export function isAllowed({ token, isAdmin }: Visitor, operation: PipelineOperation, id: string): boolean {
  const { scope, admin } = pipelineOperations[operation];
  return (isAdmin && admin) || allows(token, scope, id);
}

/** Returns where a pipeline's destinations are, for visitors who may control it. Empty for all others. */
export function placesFor(
  visitor: Visitor,
  id: string,
  { places }: Pick<ConsoleAccess, 'places'>,
): ReadonlyMap<string, string> {
  return (isAllowed(visitor, 'pause', id) ? places.get(id) : undefined) ?? new Map();
}

/** Returns what starts the first run of a pipeline, with a link to the page for it. */
export function firstRunOf(
  { visitor, access }: Pick<Visit<unknown>, 'visitor' | 'access'>,
  id: string,
): { text: string; label: string; path: string; isAction: boolean } {
  const open = { label: 'Show the first steps', path: paths.pipeline(id), isAction: true };
  if (!access.uploadPipelines.has(id)) return { text: 'The first run reads the source.', ...open };
  if (!isAllowed(visitor, 'upload', id)) {
    const { id: tokenId, person } = visitor.token;
    const owner = person === undefined ? `the token ${tokenName(tokenId)}` : `the account ${person.name}`;
    return {
      text: `The first upload starts a run. It needs the permission “${permissionNames.publish}”, which ${owner} lacks.`,
      ...open,
    };
  }
  const upload = { label: 'Upload a bundle', path: paths.upload(id), isAction: true };
  return { text: 'The first upload starts a run.', ...upload };
}

/** Throws `forbidden` unless the visitor is an admin. */
export function requireAdmin({ token, isAdmin }: Visitor, access: Pick<ConsoleAccess, 'adminToken'>): void {
  if (isAdmin) return;
  if (token.person === undefined) requireAdminToken(token, access);
  throw new WaybillError('forbidden', 'this needs the role admin', {
    hint: 'ask the administrator of this server for it',
  });
}

/** Returns the pipelines that the visitor may read, in configuration order. */
export function seenBy(visitor: Visitor, { pipelines }: PipelineAccess): PipelineSummary[] {
  return pipelines.filter(({ pipeline_id }) => isAllowed(visitor, 'read', pipeline_id));
}
