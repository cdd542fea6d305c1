import type { IncomingMessage, ServerResponse } from 'node:http';
import type { WeatherAnswer } from './weather-service.ts';

/** Sends an answer, or 304 where the client has it already; HEAD gets the same headers and no body. */
export function sendWeather(req: IncomingMessage, res: ServerResponse, answer: WeatherAnswer): void {
  const { etag, lastModified, maxAge, mediaType, body } = answer;
  res.setHeader('ETag', etag);
  res.setHeader('Vary', 'Accept');
  res.setHeader('Cache-Control', `public, max-age=${maxAge}`);
  if (lastModified !== null) res.setHeader('Last-Modified', lastModified.toUTCString());
  if (isKnown(req, answer)) {
    res.statusCode = 304;
    res.end();
    return;
  }
  res.setHeader('Content-Type', mediaType);
  res.setHeader('Content-Length', body.length);
  res.end(req.method === 'HEAD' ? undefined : body);
}

/** RFC 9110, 13.2.2: If-None-Match, where it is there, is all that counts. */
function isKnown(req: IncomingMessage, { etag, lastModified }: WeatherAnswer): boolean {
  const tags = req.headers['if-none-match'];
  if (tags !== undefined) return tags.trim() === '*' || tagsOf(tags).includes(etag);
  const since = Date.parse(req.headers['if-modified-since'] ?? '');
  if (Number.isNaN(since) || lastModified === null) return false;
  return Math.floor(lastModified.getTime() / 1000) * 1000 <= since;
}

/** Opaque tags, a weak one as if it were strong: what If-None-Match compares. */
function tagsOf(list: string): string[] {
  return list.match(/"[^"]*"/g) ?? [];
}
