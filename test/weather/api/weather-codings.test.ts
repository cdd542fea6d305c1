import { type IncomingHttpHeaders, request as httpRequest } from 'node:http';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import t from 'tap';
import { newAnswerEncoder, taggedAnswer } from '../../../src/api/http/answer/send-with-etag.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { clockAt } from '../suite.ts';
import { startWeather } from './weather-harness.ts';
import { readerThat } from './weather-reader-stub.ts';

const clock = clockAt('2026-01-20T18:10:00Z');
const long = { text: 'a line that comes again, as lines do in products\n'.repeat(100) };
const short = { text: 'a line' };

interface Raw {
  status: number;
  headers: IncomingHttpHeaders;
  /** The bytes as they were sent. */
  body: Buffer;
}

/** Unlike `fetch`, adds no header and decodes nothing. */
function read(url: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Raw> {
  return new Promise((resolve, reject) => {
    httpRequest(url, { method, headers }, (res) => {
      const chunks: Buffer[] = [];
      res.on('data', (chunk: Buffer) => chunks.push(chunk));
      res.once('end', () =>
        resolve({ status: res.statusCode ?? 0, headers: res.headers, body: Buffer.concat(chunks) }),
      );
    })
      .once('error', reject)
      .end();
  });
}

function decoded({ headers, body }: Raw): string {
  const coding = headers['content-encoding'];
  if (coding === 'br') return brotliDecompressSync(body).toString();
  return (coding === 'gzip' ? gunzipSync(body) : body).toString();
}

const stable = ({ headers }: Raw): IncomingHttpHeaders => ({
  ...headers,
  date: '',
  'x-request-id': '',
});

t.test('a client gets its preferred encoding of the same text', async (t) => {
  for (const cacheMs of [0, 60_000]) {
    let reads = 0;
    const reader = readerThat(async () => {
      reads += 1;
      return { data: long, lastModified: null };
    });
    const url = `${await startWeather(t, { reader, clock, cacheMs })}/observations`;
    const plain = await read(url);
    t.equal(plain.headers['content-encoding'], undefined);
    const codings: [string, string | undefined][] = [
      ['gzip, deflate, br, zstd', 'br'],
      ['gzip, deflate', 'gzip'],
      ['GZIP', 'gzip'],
      ['br;q=0.5, gzip;q=0.9', 'gzip'],
      ['gzip;q=0, br;q=0', undefined],
      ['identity, gzip;q=0.5', undefined],
      ['*', 'br'],
      ['*;q=0', undefined],
      ['', undefined],
      ['zstd', undefined],
      ['identity;q=0, gzip', 'gzip'],
    ];
    const again = [...codings, ...codings];
    for (const [accepted, coding] of again) {
      const answer = await read(url, { 'accept-encoding': accepted });
      t.equal(answer.headers['content-encoding'], coding, accepted);
      t.equal(decoded(answer), plain.body.toString(), accepted);
      t.equal(answer.headers['content-length'], String(answer.body.length));
      t.equal(answer.headers.vary, 'Accept, Accept-Encoding');
      t.equal(answer.headers['content-type'], plain.headers['content-type']);
      if (coding !== undefined) t.ok(answer.body.length < plain.body.length / 4);
    }
    t.equal(reads, cacheMs === 0 ? 1 + again.length : 1, 'all encodings share the cache');
  }
});

t.test('gives HEAD and 304 the headers of the coding, and each coding its own ETag', async (t) => {
  const reader = readerThat(async () => ({ data: long, lastModified: new Date('2026-01-20T18:00:00Z') }));
  for (const cacheMs of [0, 60_000]) {
    const url = `${await startWeather(t, { reader, clock, cacheMs })}/observations`;
    const codings = ['br', 'gzip', 'identity'];
    const answers = new Map<string, Raw>();
    for (const coding of codings) answers.set(coding, await read(url, { 'accept-encoding': coding }));
    const tags = [...answers.values()].map(({ headers }) => headers.etag ?? '');
    t.equal(new Set(tags).size, 3, 'one tag for each');
    for (const [coding, get] of answers) {
      const accept = { 'accept-encoding': coding };
      t.same(stable(await read(url, accept, 'HEAD')), stable(get), `HEAD ${coding}`);
      for (const [of, { headers }] of answers) {
        const {
          status,
          body,
          headers: sentHeaders,
        } = await read(url, {
          ...accept,
          'if-none-match': headers.etag ?? '',
        });
        t.equal(status, of === coding ? 304 : 200, `${coding} with the tag of ${of}`);
        t.equal(sentHeaders.etag, get.headers.etag);
        t.equal(sentHeaders.vary, 'Accept, Accept-Encoding');
        if (status !== 304) continue;
        t.same(
          [body.length, sentHeaders['content-encoding'], sentHeaders['content-length']],
          [0, undefined, undefined],
        );
        t.equal(sentHeaders['cache-control'], get.headers['cache-control']);
      }
      const since = { ...accept, 'if-modified-since': get.headers['last-modified'] ?? '' };
      t.equal((await read(url, since)).status, 304);
    }
  }
});

t.test('does not compress short responses unless the client accepts nothing else', async (t) => {
  const reader = readerThat(async () => ({ data: short, lastModified: null }));
  const url = `${await startWeather(t, { reader, clock })}/observations`;
  const coding = async (accepted: string): Promise<string | undefined> =>
    (await read(url, { 'accept-encoding': accepted })).headers['content-encoding'];
  t.equal(await coding('gzip, br'), undefined);
  t.equal(await coding('identity;q=0, gzip'), 'gzip');
  t.equal(await coding('gzip, *;q=0'), 'gzip');
  const { headers } = await read(url);
  t.equal(headers.vary, 'Accept, Accept-Encoding', 'it may be larger');
  const edges: [number, boolean][] = [
    [1023, false],
    [1024, true],
  ];
  for (const [bytes, isCompressed] of edges) {
    const data = { text: 'x'.repeat(bytes - '{"data":{"text":""}}'.length) };
    const edge = await startWeather(t, {
      reader: readerThat(async () => ({ data, lastModified: null })),
      clock,
    });
    const answer = await read(`${edge}/observations`, { 'accept-encoding': 'gzip' });
    t.equal(decoded(answer).length, bytes);
    t.equal(answer.headers['content-encoding'] === 'gzip', isCompressed, `${bytes} bytes`);
  }
});

t.test('compresses a cached response once', async (t) => {
  const encode = newAnswerEncoder();
  const answer = taggedAnswer('text/plain', long.text);
  const [first, second, other] = await Promise.all([
    encode(answer, 'br'),
    encode(answer, 'br'),
    encode(answer, 'gzip'),
  ]);
  t.equal(first.body, second.body);
  t.equal(await encode(answer, 'br'), first);
  t.not(other.etag, first.etag);
  t.equal(await encode(answer, null), answer);
});

t.test('serves the last good answer in every encoding', async (t) => {
  let away = false;
  let now = 0;
  const reader = readerThat(() =>
    away
      ? Promise.reject(new WaybillError('database_unavailable', 'away by the will of the test'))
      : Promise.resolve({ data: long, lastModified: null, asOf: clock.now() }),
  );
  const ticking = { ...clock, monotonic: () => now };
  const settings = { reader, clock: ticking, cacheMs: 1000, staleAfterMs: 60_000 };
  const url = `${await startWeather(t, settings)}/observations`;
  const good = await read(url, { 'accept-encoding': 'gzip' });
  away = true;
  now = 2000;
  for (const coding of ['br', 'gzip', 'identity']) {
    const answer = await read(url, { 'accept-encoding': coding });
    t.equal(answer.headers.warning, '111 waybill "Revalidation Failed"');
    t.equal(answer.headers['content-encoding'] ?? 'identity', coding);
    t.equal(decoded(answer), decoded(good));
  }
});
