import { promisify } from 'node:util';
import zlib from 'node:zlib';
import { acceptedCodings } from './negotiate.ts';
import { strongTag, type TaggedAnswer } from './send-with-etag.ts';

export type ContentCoding = 'br' | 'gzip';

/** Bytes. Of less, a header that says how it is compressed takes back what was saved. */
const leastBytes = 1024;

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
  return bytes >= leastBytes || !accepted.includes('identity') ? best : null;
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
export type EncodeAnswer<A extends TaggedAnswer> = (answer: A, coding: ContentCoding | null) => Promise<A>;

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
