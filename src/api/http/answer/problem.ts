import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Clock } from '../../../core/lib/clock.ts';
import { type ErrorCode, errorTable } from '../../../core/lib/error-codes.ts';
import {
  asWaybillError,
  describeFinding,
  type Finding,
  type WaybillError,
  withoutPaths,
} from '../../../core/lib/errors.ts';
import { errnoOf } from '../../../core/lib/system-errors.ts';
import { writeXml, type XmlNode, xmlText } from '../../../core/lib/xml.ts';
import { endAfterDrain, hasPendingBody } from '../request/client-connection.ts';
import {
  type Account,
  type ProblemForm,
  type RequestContext,
  requestContext,
} from '../request/request-context.ts';
import { isConcealed, retryAfterOf, statusOf } from './error-status.ts';
import { prefersPage } from './negotiate.ts';

/**
 * A problem document as defined in RFC 9457. `type` is always `about:blank`, so `title` is the status phrase,
 * and clients should look at `code`.
 */
export interface Problem {
  type: 'about:blank';
  title: string;
  status: number;
  /** The error message and the hint, separated by a semicolon, for clients that only show this member. */
  detail: string;
  /** How to fix the problem, if known. */
  hint?: string;
  /** The request id, which is also in the log. */
  instance: string;
  code: ErrorCode;
  retryable: boolean;
  /** All problems with the upload, for errors that can have several causes. */
  findings?: readonly Finding[];
}

const problemMediaTypes: Readonly<Record<ProblemForm, string>> = {
  json: 'application/problem+json',
  xml: 'application/problem+xml; charset=utf-8',
  text: 'text/plain; charset=utf-8',
  html: 'text/html; charset=utf-8',
};

/** Formats that only need the problem itself. An HTML page also needs the site's layout. */
type DocumentForm = Exclude<ProblemForm, 'html'>;

const writers: Readonly<Record<DocumentForm, (problem: Problem) => string>> = {
  json: (problem) => JSON.stringify(problem),
  xml: xmlOf,
  text: textOf,
};

function problemBody(problem: Problem, form: DocumentForm): Buffer {
  return Buffer.from(writers[form](problem));
}

/** Follows appendix B of RFC 9457: each list item becomes an `i` element, and null members are left out. */
function xmlOf(problem: Problem): string {
  return writeXml({ problem: { '@xmlns': 'urn:ietf:rfc:7807', ...membersOf(problem) } });
}

function membersOf(members: object): Record<string, XmlNode> {
  return Object.fromEntries(
    Object.entries(members)
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([name, value]: [string, unknown]) => [name, nodeOf(value)]),
  );
}

function nodeOf(value: unknown): XmlNode {
  if (Array.isArray(value)) return { i: value.map(nodeOf) };
  if (typeof value === 'object' && value !== null) return membersOf(value);
  return xmlText(String(value));
}

function textOf({ status, title, code, detail, findings = [], retryable, instance }: Problem): string {
  const lines = [
    `${status} ${title}: ${code}`,
    '',
    detail,
    ...(findings.length === 0 ? [] : ['', ...findings.map((one) => `- ${describeFinding(one)}`)]),
    ...(retryable ? ['', 'Sending the same again can help.'] : []),
    '',
    `Request ${instance}`,
  ];
  return `${lines.map(printable).join('\n')}\n`;
}

/** Messages may quote parameter names from the request, so control characters are replaced. */
function printable(line: string): string {
  return line.replaceAll(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, '?');
}

/**
 * Converts an error to a problem document. Hidden errors become `internal_error`, without their message and
 * hint. A hint only contains local paths if the error is for administrators.
 */
export function problemOf(error: WaybillError, requestId: string): Problem {
  const status = statusOf[error.code];
  const code: ErrorCode = isConcealed(error.code) ? 'internal_error' : error.code;
  const hint =
    isConcealed(error.code) || error.hint === undefined ? undefined : hintFor(error.code, error.hint);
  const detail = isConcealed(error.code) ? errorTable.internal_error.about : sentences(error.message, hint);
  return {
    type: 'about:blank',
    title: STATUS_CODES[status] ?? 'Error',
    status,
    detail,
    ...(hint === undefined ? {} : { hint }),
    instance: `urn:uuid:${requestId}`,
    code,
    retryable: errorTable[code].retryable,
    ...(!isConcealed(error.code) && error.findings.length > 0 ? { findings: error.findings } : {}),
  };
}

/** The request that a problem page is about. */
export interface FailedRequest {
  path: string;
  /** The query without its question mark. It can contain secrets. */
  query: string;
  method: string;
}

/**
 * Renders a problem with a request as an HTML page, for this visitor of the console, if any. Also returns the
 * headers that the page needs.
 */
export type ProblemPage = (
  problem: Problem,
  request: FailedRequest,
  account?: Account,
) => { html: string; headers: Readonly<Record<string, string>> };

export interface ProblemPorts {
  clock: Clock;
  /** If absent, browsers also get JSON. */
  problemPage?: ProblemPage;
}

/**
 * Responds with a problem document, in the format chosen by the route. By default, clients that prefer HTML
 * get a page, and all others get JSON. If the client is still sending its body, responds right away and then
 * reads and discards the rest for a limited time. Closing the connection with unread data would make the
 * client's system throw away the response.
 */
export async function sendProblem(
  req: IncomingMessage,
  res: ServerResponse,
  thrown: unknown,
  { clock, problemPage }: ProblemPorts,
): Promise<void> {
  const context = requestContext(req);
  // The HTTP parser has already rejected the request and sent its own error response, so this error comes too
  // late.
  if (res.headersSent && context.fields['code'] !== undefined && errnoOf(thrown) === 'ERR_HTTP_HEADERS_SENT')
    return;
  const error = asWaybillError(thrown);
  // Keep the first error code. A later one may only mean that the connection broke after the response.
  context.fields['code'] ??= error.code;
  if (hasReason.has(error.code)) context.fields['reason'] = reasonOf(error);
  if (statusOf[error.code] === 500 || error.code === 'staging_unavailable') context.failure = thrown;
  if (res.headersSent || res.destroyed) {
    res.destroy();
    return;
  }
  const problem = { ...problemOf(error, context.id), ...context.problemMembers };
  const retryAfter = retryAfterOf(error);
  if (retryAfter !== undefined) res.setHeader('Retry-After', retryAfter);
  const form = context.problemForm ?? (prefersPage(req.headers.accept) ? 'html' : 'json');
  if (context.problemForm !== undefined || problemPage !== undefined) res.appendHeader('Vary', 'Accept');
  const page =
    form === 'html'
      ? pageOf(() => problemPage?.(problem, failedRequest(req), context.account), context)
      : undefined;
  const body = putOn(res, problem, { form, page });
  res.statusCode = problem.status;
  if (hasPendingBody(req)) await endAfterDrain(req, res, body, clock);
  else res.end(body);
}

/**
 * Renders the page. If that fails, as after an upgrade that replaced the templates, the response is JSON, and
 * the failure is logged.
 */
function pageOf(
  render: () => ReturnType<ProblemPage> | undefined,
  context: RequestContext,
): ReturnType<ProblemPage> | undefined {
  try {
    return render();
  } catch (failure) {
    context.failure ??= failure;
    return undefined;
  }
}

function putOn(
  res: ServerResponse,
  problem: Problem,
  { form, page }: { form: ProblemForm; page: ReturnType<ProblemPage> | undefined },
): Buffer {
  const written = form === 'html' ? 'json' : form;
  const body = page === undefined ? problemBody(problem, written) : Buffer.from(page.html);
  res.setHeader('Content-Type', problemMediaTypes[page === undefined ? written : 'html']);
  res.setHeader('Content-Length', body.length);
  for (const [name, value] of Object.entries(page?.headers ?? {})) res.setHeader(name, value);
  return body;
}

function failedRequest({
  method = '',
  url = '',
  originalUrl = url,
}: IncomingMessage & { originalUrl?: string }): FailedRequest {
  const [path = ''] = originalUrl.split('?', 1);
  return { path, query: originalUrl.slice(path.length + 1), method };
}

/** Errors whose cause is logged for the administrator but not shown to the client. */
const hasReason: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['database_unavailable', 'unsupported_format']);

/**
 * Joins the messages of an error and its causes for the log. The result may contain details that clients must
 * not see.
 */
export function reasonOf(error: Error): string {
  return error.cause instanceof Error ? `${error.message}: ${reasonOf(error.cause)}` : error.message;
}

/** Errors that only the admin token can cause. Their hints have to mention local files. */
const operatorsCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['reload_refused']);

function hintFor(code: ErrorCode, hint: string): string {
  return operatorsCodes.has(code) ? hint : withoutPaths(hint);
}

function sentences(message: string, hint: string | undefined): string {
  return hint === undefined ? message : `${message}; ${hint}`;
}
