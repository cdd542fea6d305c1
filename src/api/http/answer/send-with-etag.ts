import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { promisify } from 'node:util';
import zlib from 'node:zlib';
import { requestContext } from '../request/request-context.ts';
import { crossOriginHeaders } from './cross-origin.ts';
import { acceptedCodings } from './negotiate.ts';

/** A complete answer that clients can revalidate. */
export interface TaggedAnswer {
  mediaType: string;
  /** Node sends a short text in one piece with the head, which costs less than two pieces. */
  body: string | Buffer;
  /** Size of the body. */
  bytes: number;
  /** Strong, over the bytes of the body. */
  etag: string;
  lastModified: Date | null;
  /** The request headers that decide which answer this is, with commas between; null: none. */
  vary: string | null;
  /** Its `Content-Encoding`; null: the body is as it is. */
  coding: string | null;
  /** `Cache-Control` and other headers; sent with 304 too. */
  headers: Readonly<Record<string, string>>;
}

const longestText = 16 * 1024;

/** Makes an answer of a body. Unless `headers` says otherwise, no cache may store it. */
export function taggedAnswer(
  mediaType: string,
  text: string,
  {
    headers = { 'Cache-Control': 'no-store' },
    lastModified = null,
    vary = null,
  }: Partial<Pick<TaggedAnswer, 'headers' | 'lastModified' | 'vary'>> = {},
): TaggedAnswer {
  const body = text.length > longestText ? Buffer.from(text) : text;
  const bytes = Buffer.byteLength(body);
  return { mediaType, body, bytes, etag: strongTag(body), lastModified, vary, coding: null, headers };
}

/** The strong ETag of these bytes. */
function strongTag(body: string | Buffer): string {
  return `"${createHash('sha256').update(body).digest('base64url').slice(0, 27)}"`;
}

/**
 * Sends an answer, or 304 if the client already has it; HEAD gets the same headers without a body. All
 * headers go out in one call and replace those that were set before, but for those of CORS: setting them one
 * by one would be half of what a cached answer costs.
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
  /** What CORS adds to `Vary`; the same for all answers of a program. */
  vary: string | null;
  /** What 304 has; names and values in turn, as `writeHead` takes them. */
  validators: string[];
  /** What 200 has. */
  all: string[];
  /** Of the body, if that is text. Where both make the same bytes `latin1` does in a third of the time. */
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

/** The headers that every answer has, also one that no handler of express sees. */
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
  // Not "since then": rows that are deleted, or come late, move the date back.
  return Math.floor(lastModified.getTime() / 1000) * 1000 === Date.parse(since);
}

/** Weak tags count like strong ones: If-None-Match compares weakly. */
function opaqueTags(list: string): string[] {
  return list.match(/"[^"]*"/g) ?? [];
}

type ContentCoding = 'br' | 'gzip';

/** Bytes. Of less, a header that says how it is compressed takes back what was saved. */
const minBytes = 1024;

/**
 * The coding in which a body of so many bytes is sent to a client; null: as it is. Where the client takes
 * both alike it is brotli, which makes less of JSON in the same time. A client that takes no plain body gets
 * small ones compressed too. Pure.
 */
export function codingFor(acceptEncoding: string | undefined, bytes: number): ContentCoding | null {
  if (acceptEncoding === undefined) return null;
  const accepted = acceptedCodings(acceptEncoding, ['br', 'gzip', 'identity']);
  const [best] = accepted;
  // What takes nothing at all is sent the plain body, as RFC 9110, 12.5.3, allows.
  if (best === undefined || best === 'identity') return null;
  return bytes >= minBytes || !accepted.includes('identity') ? best : null;
}

const gzip = promisify(zlib.gzip);
const brotli = promisify(zlib.brotliCompress);
const { BROTLI_PARAM_MODE, BROTLI_MODE_TEXT, BROTLI_PARAM_QUALITY } = zlib.constants;
// Of a quality that is made while somebody waits: about as fast as gzip, and smaller.
const brotliOptions = { params: { [BROTLI_PARAM_MODE]: BROTLI_MODE_TEXT, [BROTLI_PARAM_QUALITY]: 4 } };

const compress: Record<ContentCoding, (body: string | Buffer) => Promise<Buffer>> = {
  br: (body) => brotli(body, brotliOptions),
  gzip: (body) => gzip(body),
};

/** The same answer in a coding, with the tag of the bytes that are sent. */
type EncodeAnswer<A extends TaggedAnswer> = (answer: A, coding: ContentCoding | null) => Promise<A>;

/** Encodes each answer once in each coding, for as long as somebody keeps the answer. */
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
