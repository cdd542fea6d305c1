import type { IncomingMessage, ServerResponse } from 'node:http';
import { describeFinding } from '../../core/lib/errors.ts';
import type { ProblemPage } from '../http/answer/problem.ts';
import {
  codingFor,
  newAnswerEncoder,
  sendWithEtag,
  type TaggedAnswer,
  taggedAnswer,
} from '../http/answer/send-with-etag.ts';
import { type Page, renderPage } from './render-page.ts';
import type { Site } from './site.ts';

/** What a page may load and do: what its own host has, and no script or style that is in the markup. */
const policy = [
  "default-src 'none'",
  "style-src 'self'",
  "script-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
].join('; ');

/** Features of browsers that no page uses. */
const permissions = ['camera', 'display-capture', 'geolocation', 'microphone', 'payment', 'serial', 'usb']
  .map((feature) => `${feature}=()`)
  .join(', ');

/** The headers of every page beside those that its caching needs. */
const pageHeaders: Readonly<Record<string, string>> = {
  'Content-Security-Policy': policy,
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Permissions-Policy': permissions,
  // Where a run or a bundle is called something private, no other host is told of it.
  'Referrer-Policy': 'same-origin',
  'X-Content-Type-Options': 'nosniff',
};

/**
 * Renders and answers with a page that belongs to one session or one moment: nobody may keep it, and it is
 * not compressed, since how long secrets are beside what others choose would be told by its size.
 */
export function sendPage(res: ServerResponse, site: Site, page: Page, { status = 200 } = {}): void {
  const body = Buffer.from(renderPage(site, page));
  res.statusCode = status;
  for (const [name, value] of Object.entries(pageHeaders)) res.setHeader(name, value);
  res.setHeader('Cache-Control', 'no-store');
  res.setHeader('Content-Type', 'text/html; charset=utf-8');
  res.setHeader('Content-Length', body.length);
  res.end(body);
}

/**
 * A page that clients may keep and ask again whether it has changed. It is the same for every client that
 * sends the same value of the request header `vary`, if one is given.
 */
export function publicPage(
  site: Site,
  page: Page,
  { vary, headers = {} }: { vary?: string; headers?: Readonly<Record<string, string>> } = {},
): TaggedAnswer {
  return taggedAnswer('text/html; charset=utf-8', renderPage(site, page), {
    headers: { ...pageHeaders, 'Cache-Control': 'no-cache', ...headers },
    vary: ['Accept', 'Accept-Encoding', ...(vary === undefined ? [] : [vary])].join(', '),
  });
}

const encode = newAnswerEncoder();

/** Sends an answer that is the same for everybody, compressed if the client takes that. */
export async function sendPublic(
  req: IncomingMessage,
  res: ServerResponse,
  answer: TaggedAnswer,
): Promise<void> {
  const coding = codingFor(req.headers['accept-encoding'], answer.bytes);
  sendWithEtag(req, res, await encode(answer, coding));
}

/** A refusal as a page: the same code, status, hint and request id as the JSON document has. */
export function problemPage(site: Site): ProblemPage {
  return ({ title, status, code, detail, hint, instance, retryable, findings = [] }) => {
    // The document has both in one sentence, for whoever shows nothing else.
    const message = hint === undefined ? detail : detail.slice(0, -`; ${hint}`.length);
    const html = renderPage(site, {
      title: `${status} ${title}`,
      template: 'pages/problem',
      view: {
        ...{ title, status, code, message, hint: hint ?? null, retryable },
        requestId: instance.replace(/^urn:uuid:/, ''),
        findings: findings.map(describeFinding),
      },
    });
    return { html, headers: pageHeaders };
  };
}
