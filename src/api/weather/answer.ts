import type { IncomingMessage, ServerResponse } from 'node:http';
import { requestContext } from '../http/request-context.ts';
import type { WeatherAnswer } from './service.ts';

/** Names and values in turn, as `writeHead` takes them. */
const headersOf = new WeakMap<WeatherAnswer, { known: string[]; full: string[] }>();

/**
 * Sends an answer, or 304 where the client has it already; HEAD gets the same headers and no body. All
 * headers go out at once: setting them one by one would be half of what a hot read costs.
 */
export function sendWeather(req: IncomingMessage, res: ServerResponse, answer: WeatherAnswer): void {
  for (const name of res.getHeaderNames()) res.removeHeader(name);
  const context = requestContext(req);
  const { known, full } = headersFor(answer);
  const isHeld = isKnown(req, answer);
  res.writeHead(isHeld ? 304 : 200, ['X-Request-Id', context.id, ...(isHeld ? known : full)]);
  context.sent = isHeld || req.method === 'HEAD' ? 0 : answer.bytes;
  res.end(context.sent === 0 ? undefined : answer.body);
}

function headersFor(answer: WeatherAnswer): { known: string[]; full: string[] } {
  let headers = headersOf.get(answer);
  if (headers === undefined) {
    const { etag, lastModified, maxAge, mediaType, bytes } = answer;
    const known = ['X-Content-Type-Options', 'nosniff', 'ETag', etag, 'Vary', 'Accept'];
    known.push('Cache-Control', `public, max-age=${maxAge}`);
    if (lastModified !== null) known.push('Last-Modified', lastModified.toUTCString());
    headers = { known, full: [...known, 'Content-Type', mediaType, 'Content-Length', String(bytes)] };
    headersOf.set(answer, headers);
  }
  return headers;
}

/** RFC 9110, 13.2.2: If-None-Match, where it is there, is all that counts. */
function isKnown(req: IncomingMessage, { etag, lastModified }: WeatherAnswer): boolean {
  const tags = req.headers['if-none-match'];
  if (tags !== undefined) return tags.trim() === '*' || tagsOf(tags).includes(etag);
  const asked = req.headers['if-modified-since'];
  if (asked === undefined || lastModified === null) return false;
  return Math.floor(lastModified.getTime() / 1000) * 1000 <= Date.parse(asked);
}

/** Opaque tags, a weak one as if it were strong: what If-None-Match compares. */
function tagsOf(list: string): string[] {
  return list.match(/"[^"]*"/g) ?? [];
}
