import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { promisify } from 'node:util';
import zlib from 'node:zlib';
import { requestContext } from '../request/request-context.ts';
import { crossOriginHeaders } from './cross-origin.ts';
import { acceptedCodings } from './negotiate.ts';

/** A complete response that clients can revalidate. */
export interface TaggedAnswer {
  mediaType: string;
  /** Node.js sends a short string and the head in one write, which is cheaper than two. */
  body: string | Buffer;
  /** The body's size. */
  bytes: number;
  /** A strong tag computed from the body's bytes. */
  etag: string;
  lastModified: Date | null;
  /** The request headers that select this response, separated by commas; null if there are none. */
  vary: string | null;
  /** The `Content-Encoding`; null if the body is not compressed. */
  coding: string | null;
  /** `Cache-Control` and other headers. Also sent with 304. */
  headers: Readonly<Record<string, string>>;
}

const maxTextChars = 16 * 1024;

/** Creates a response from a body. By default, caches may not store it. */
export function taggedAnswer(
  mediaType: string,
  text: string,
  {
    headers = { 'Cache-Control': 'no-store' },
    lastModified = null,
    vary = null,
  }: Partial<Pick<TaggedAnswer, 'headers' | 'lastModified' | 'vary'>> = {},
): TaggedAnswer {
  const body = text.length > maxTextChars ? Buffer.from(text) : text;
  const bytes = Buffer.byteLength(body);
  return { mediaType, body, bytes, etag: strongTag(body), lastModified, vary, coding: null, headers };
}

/** Returns the strong ETag of these bytes. */
function strongTag(body: string | Buffer): string {
  return `"${createHash('sha256').update(body).digest('base64url').slice(0, 27)}"`;
}

/**
 * Sends a response, or 304 if the client already has it. HEAD gets the same headers without a body. All
 * headers are written in one call and replace earlier ones, except those for CORS. Setting them individually
 * would account for half the time of a cached response.
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
  /** The `Vary` value that CORS adds, which is the same for all of a process's responses. */
  vary: string | null;
  /** The headers of a 304 response, as alternating names and values for `writeHead`. */
  validators: string[];
  /** The headers of a 200 response. */
  all: string[];
  /** The encoding of a text body. `latin1` takes a third of the time when both produce the same bytes. */
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

/** The headers of every response, including those that bypass the Express handlers. */
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
  // Tests for equality instead of "newer", because rows that are deleted or arrive late move the date back.
  return Math.floor(lastModified.getTime() / 1000) * 1000 === Date.parse(since);
}

/** Weak tags count as strong ones, because If-None-Match uses weak comparison. */
function opaqueTags(list: string): string[] {
  return list.match(/"[^"]*"/g) ?? [];
}

type ContentCoding = 'br' | 'gzip';

/** In bytes. Below this size, the Content-Encoding header costs as much as compression saves. */
const minBytes = 1024;

/**
 * Returns the coding for a body of this many bytes; null means no compression. If the client ranks both
 * codings equally, brotli is used, because it compresses JSON better in the same time. If a client refuses
 * uncompressed bodies, even small ones are compressed.
 */
export function codingFor(acceptEncoding: string | undefined, bytes: number): ContentCoding | null {
  if (acceptEncoding === undefined) return null;
  const accepted = acceptedCodings(acceptEncoding, ['br', 'gzip', 'identity']);
  const [best] = accepted;
  // A client that accepts no coding gets an uncompressed body, as RFC 9110, 12.5.3, allows.
  if (best === undefined || best === 'identity') return null;
  return bytes >= minBytes || !accepted.includes('identity') ? best : null;
}

const gzip = promisify(zlib.gzip);
const brotli = promisify(zlib.brotliCompress);
const { BROTLI_PARAM_MODE, BROTLI_MODE_TEXT, BROTLI_PARAM_QUALITY } = zlib.constants;
// A quality for compression on the fly: about as fast as gzip, with smaller output.
const brotliOptions = { params: { [BROTLI_PARAM_MODE]: BROTLI_MODE_TEXT, [BROTLI_PARAM_QUALITY]: 4 } };

const compress: Record<ContentCoding, (body: string | Buffer) => Promise<Buffer>> = {
  br: (body) => brotli(body, brotliOptions),
  gzip: (body) => gzip(body),
};

/** Returns the same response in a coding, with an ETag for the encoded bytes. */
type EncodeAnswer<A extends TaggedAnswer> = (answer: A, coding: ContentCoding | null) => Promise<A>;

/** Encodes each response once per coding. Results are kept as long as the caller keeps the response. */
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
