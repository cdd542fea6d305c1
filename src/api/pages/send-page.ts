import type { IncomingMessage, ServerResponse } from 'node:http';
import { codingFor, newAnswerEncoder } from '../http/answer/content-coding.ts';
import { sendWithEtag, taggedAnswer, type TaggedAnswer } from '../http/answer/send-with-etag.ts';
import { pageHeaders } from './page-policy.ts';
import { renderPage, type Page } from './render-page.ts';
import type { Site } from './site.ts';

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
