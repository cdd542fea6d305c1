import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { promisify } from 'node:util';
import zlib from 'node:zlib';
import { requestContext } from '../request/request-context.ts';
import { crossOriginHeaders } from './cross-origin.ts';
import { acceptedCodings } from './negotiate.ts';

/** A complete response with an ETag, which clients can revalidate. */
export interface TaggedAnswer {
  mediaType: string;
  /** For strings, Node.js sends a short body together with the head in a single write. */
  body: string | Buffer;
  bytes: number;
  /** A strong ETag computed from the body. */
  etag: string;
  lastModified: Date | null;
  /**
   * The `Vary` header: the request headers that affect this response, separated by commas. null if there are
   * none.
   */
  vary: string | null;
  /** The `Content-Encoding` header; null if the body is not compressed. */
  coding: string | null;
  /** `Cache-Control` and any other headers. Also sent with a 304. */
  headers: Readonly<Record<string, string>>;
}

const maxTextChars = 16 * 1024;

/** Creates a response from a body. It must not be cached unless the headers say otherwise. */
export function taggedAnswer(
  mediaType: string,
  content: string | Buffer,
  {
    headers = { 'Cache-Control': 'no-store' },
    lastModified = null,
    vary = null,
  }: Partial<Pick<TaggedAnswer, 'headers' | 'lastModified' | 'vary'>> = {},
): TaggedAnswer {
  const isLong = typeof content === 'string' && content.length > maxTextChars;
  const body = isLong ? Buffer.from(content) : content;
  const bytes = Buffer.byteLength(body);
  return { mediaType, body, bytes, etag: strongTag(body), lastModified, vary, coding: null, headers };
}

function strongTag(body: string | Buffer): string {
  return `"${createHash('sha256').update(body).digest('base64url').slice(0, 27)}"`;
}

/**
 * Sends a response, or a 304 if the client already has it. A HEAD request gets the same headers without a
 * body. All headers are written at once and replace any set earlier, except those for CORS. Setting them one
 * by one would take half the time of a cached response.
 */
export function sendWithEtag(req: IncomingMessage, res: ServerResponse, answer: TaggedAnswer): void {
  const before = res.getHeaderNames();
  const vary = before.includes('vary') ? String(res.getHeader('vary')) : null;
  const cors = before.length === 0 ? [] : crossOriginHeaders(res);
  for (const name of before) res.removeHeader(name);
  const context = requestContext(req);
  const { validators, all, encoding } = rawHeaders(answer, vary);
  const isCurrent = isUpToDate(req, answer);
  const own = isCurrent ? validators : all;
  res.writeHead(isCurrent ? 304 : 200, ['X-Request-Id', context.id, ...cors, ...own]);
  context.sent = isCurrent || req.method === 'HEAD' ? 0 : answer.bytes;
  if (context.sent === 0) res.end();
  else res.end(answer.body, encoding);
}

interface RawHeaders {
  /** The `Vary` value that CORS adds. It is the same for every response of this process. */
  vary: string | null;
  /** The headers of a 304, as a flat list of names and values for `writeHead`. */
  validators: string[];
  /** The headers of a 200. */
  all: string[];
  /**
   * The encoding for string bodies. ASCII text is written as `latin1`, which produces the same bytes as
   * `utf8` in a third of the time.
   */
  encoding: 'latin1' | 'utf8';
}

const known = new WeakMap<TaggedAnswer, RawHeaders>();

function rawHeaders(answer: TaggedAnswer, vary: string | null): RawHeaders {
  const made = known.get(answer);
  if (made?.vary === vary) return made;
  const making = makeHeaders(answer, vary);
  known.set(answer, making);
  return making;
}

/** Headers for every response, including those that do not go through Express. */
const everyAnswer = ['X-Content-Type-Options', 'nosniff', 'Cross-Origin-Resource-Policy', 'same-origin'];

function makeHeaders(answer: TaggedAnswer, vary: string | null): RawHeaders {
  const { etag, lastModified, mediaType, bytes, coding, headers } = answer;
  const validators = [...everyAnswer, 'ETag', etag, ...Object.entries(headers).flat()];
  const names = [answer.vary, vary].filter((each) => each !== null);
  if (names.length > 0) validators.push('Vary', names.join(', '));
  if (lastModified !== null) validators.push('Last-Modified', lastModified.toUTCString());
  const encoding = coding === null ? [] : ['Content-Encoding', coding];
  return {
    vary,
    encoding: answer.body.length === bytes ? 'latin1' : 'utf8',
    validators,
    all: [...validators, 'Content-Type', mediaType, ...encoding, 'Content-Length', String(bytes)],
  };
}

/** RFC 9110, 13.2.2: If-None-Match takes precedence over If-Modified-Since. */
function isUpToDate(req: IncomingMessage, { etag, lastModified }: TaggedAnswer): boolean {
  const tags = req.headers['if-none-match'];
  if (tags !== undefined) return tags.trim() === '*' || opaqueTags(tags).includes(etag);
  const since = req.headers['if-modified-since'];
  if (since === undefined || lastModified === null) return false;
  // Compare for equality. "Newer than" would be wrong, because deleted or late rows can move the date back.
  return Math.floor(lastModified.getTime() / 1000) * 1000 === Date.parse(since);
}

/** Strips the `W/` prefix, because If-None-Match compares weak and strong tags alike. */
function opaqueTags(list: string): string[] {
  return list.match(/"[^"]*"/g) ?? [];
}

type ContentCoding = 'br' | 'gzip';

/** In bytes. For smaller bodies, the extra header costs as much as compression saves. */
const minBytes = 1024;

/**
 * Chooses the coding for a body of this size in bytes, or null to send it uncompressed. If the client ranks
 * brotli and gzip equally, brotli wins, because it makes JSON smaller in the same time. Small bodies are only
 * compressed for clients that refuse uncompressed ones.
 */
export function codingFor(acceptEncoding: string | undefined, bytes: number): ContentCoding | null {
  if (acceptEncoding === undefined) return null;
  const accepted = acceptedCodings(acceptEncoding, ['br', 'gzip', 'identity']);
  const [best] = accepted;
  // A client that accepts no coding at all gets an uncompressed body, as RFC 9110, 12.5.3, allows.
  if (best === undefined || best === 'identity') return null;
  return bytes >= minBytes || !accepted.includes('identity') ? best : null;
}

const gzip = promisify(zlib.gzip);
const brotli = promisify(zlib.brotliCompress);
const { BROTLI_PARAM_MODE, BROTLI_MODE_TEXT, BROTLI_PARAM_QUALITY } = zlib.constants;
// A good quality for compressing on the fly: about as fast as gzip, but with smaller output.
const brotliOptions = { params: { [BROTLI_PARAM_MODE]: BROTLI_MODE_TEXT, [BROTLI_PARAM_QUALITY]: 4 } };

const compress: Record<ContentCoding, (body: string | Buffer) => Promise<Buffer>> = {
  br: (body) => brotli(body, brotliOptions),
  gzip: (body) => gzip(body),
};

/** Compresses a response and gives the result its own ETag. */
type EncodeAnswer<A extends TaggedAnswer> = (answer: A, coding: ContentCoding | null) => Promise<A>;

/**
 * Compresses each response only once per coding. The results can be garbage collected together with the
 * response.
 */
export function newAnswerEncoder<A extends TaggedAnswer>(): EncodeAnswer<A> {
  const known = new WeakMap<A, Partial<Record<ContentCoding, Promise<A>>>>();
  return (answer, coding) => {
    if (coding === null) return Promise.resolve(answer);
    const ofAnswer = known.get(answer) ?? {};
    known.set(answer, ofAnswer);
    return (ofAnswer[coding] ??= encode(answer, coding));
  };
}

async function encode<A extends TaggedAnswer>(answer: A, coding: ContentCoding): Promise<A> {
  const body = await compress[coding](answer.body);
  return { ...answer, body, bytes: body.length, etag: strongTag(body), coding };
}
