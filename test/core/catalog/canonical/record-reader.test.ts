import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import type { OutputRecord } from '../../../../src/core/catalog/catalog.ts';
import { RecordReader } from '../../../../src/core/catalog/canonical/record-reader.ts';
import { recordToJson } from '../../../../src/core/catalog/record-json.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import type { RelativePath } from '../../../../src/core/lib/paths.ts';
import { sourceBackends } from '../../../../src/core/storage/backends.ts';

const first = record({});
const everything = ['', 'x', '0', '"', '}', '\\', '\\u0061', '\u00ff'];
const lineOf = (one: OutputRecord): Buffer => Buffer.from(recordToJson(one));

/** A reader that has read a record before. */
function warm(): RecordReader {
  const reader = new RecordReader(sourceBackends);
  if (readLine(reader, lineOf(first)) === null) throw new Error('the first record is not read');
  return reader;
}

function readLine(reader: RecordReader, line: Buffer): OutputRecord | null {
  return reader.read(line, 0, line.length);
}

/**
 * Whether the line is read from what an earlier one said: a generated output has metadata of its own when it
 * is parsed.
 */
function isAlike(one: OutputRecord, reader = warm()): boolean {
  const known = readLine(reader, lineOf(record({ path: 'known' })))?.generated;
  const read = readLine(reader, lineOf(one));
  if (!isDeepStrictEqual(read, one)) throw new Error(`${recordToJson(one)} is not read as it was written`);
  return read?.generated === known;
}

t.test('matches a record of a known shape without parsing it', async (t) => {
  for (const one of [
    { path: 'other/page.html', digest: digestOf('other') },
    ...[0, 9, 10, 1_234_567_890, 999_999_999_999_999].map((size) => ({ size })),
    ...['https://x.example/a', 'https://x.example/!#[]~', 'a:'].map((url) => ({ url })),
  ])
    t.ok(isAlike(record(one)), JSON.stringify(one));
});

t.test('parses records with JSON escapes or long numbers', async (t) => {
  for (const one of [
    { path: 'käse' },
    { path: 'a"b' },
    { path: '.hidden/\u00e9' },
    { size: 1_000_000_000_000_000 },
    { size: Number.MAX_SAFE_INTEGER },
    { url: 'https://x.example/"' },
    { url: 'https://x.example/\\' },
    { url: 'https://x.example/é' },
    { kind: 'other' },
    { owner: { pipelineId: 'maps', destinationId: 'other' } },
    { updatedAt: '2026-11-20T00:00:01.000Z' },
  ])
    t.notOk(isAlike(record(one)), JSON.stringify(one));
});

/** Changes anywhere in the line, and anywhere in its last part. */
const mistakes = [
  { from: '{', inserts: ['', 'x', '0'] },
  { from: '"url"', inserts: ['"', '}', '\\', '\\u0061', '\u00ff'] },
] as const;

for (const url of [null, 'https://x.example/a', 'a:'])
  t.test(`reads a line only in its canonical form: the URL ${url}`, async (t) => {
    const reader = warm();
    const text = recordToJson(record({ path: 'b', size: 7, url }));
    let refused = 0;
    for (const { from, inserts } of url === null ? mistakes : [{ ...mistakes[1], inserts: everything }])
      for (let at = text.indexOf(from); at <= text.length; at += 1)
        for (const insert of inserts)
          for (const cut of [0, 1]) {
            const line = Buffer.from(text.slice(0, at) + insert + text.slice(at + cut), 'latin1');
            const found = readLine(reader, line);
            if (found === null) refused += 1;
            else if (!lineOf(found).equals(line)) t.fail(line.toString('latin1'));
          }
    t.ok(refused > 150, `${refused} refused`);
  });

t.test('a record ends with its line, regardless of the text around it', async (t) => {
  const one = record({ path: 'b', url: 'https://x.example/a' });
  const line = lineOf(one);
  const bytes = Buffer.concat([
    Buffer.from('    "x",\n    '),
    line,
    Buffer.from(`,\n    ${line.toString()}`),
  ]);
  const from = bytes.indexOf(line);
  const reader = warm();
  t.same(reader.read(bytes, from, from + line.length), one);
  for (let length = 0; length < line.length; length += 1)
    if (reader.read(bytes, from, from + length) !== null) t.fail(`read from ${length} bytes`);
  t.equal(reader.read(bytes, from, from + line.length + 1), null);
  const endless = Buffer.from(`{"path":"${'a'.repeat(100)}`);
  t.equal(readLine(reader, endless), null, 'a path without an end');
});

t.test('remembers the last eight shapes of records', async (t) => {
  const sort = (version: number, path = 'a'): OutputRecord => {
    const generator = { name: 'pages', version, inputs: digestOf('') };
    return record({
      path,
      kind: `kind-${version}`,
      generated: { ...first.generated, generator },
    });
  };
  const reader = new RecordReader(sourceBackends);
  const read = (version: number, path?: string) => readLine(reader, lineOf(sort(version, path)))?.generated;
  const known = [1, 2, 3, 4, 5, 6, 7, 8, 9].map((version) => read(version));
  for (let again = 0; again < 9; again += 1) read(9, 'é');
  for (let version = 2; version <= 9; version += 1)
    t.equal(read(version), known[version - 1], `the sort ${version}`);
  t.not(read(1), known[0], 'and no more');
});

function record(one: Partial<Omit<OutputRecord, 'path'>> & { path?: string }): OutputRecord {
  return {
    owner: { pipelineId: 'maps', destinationId: 'web' },
    source: { backend: 'local', id: '/source', path: '.' },
    kind: 'page',
    digest: digestOf('a'),
    size: 1,
    updatedAt: '2026-11-20T00:00:00.000Z',
    generated: {
      contentType: 'text/html',
      cacheControl: null,
      generator: { name: 'pages', version: 1, inputs: digestOf('') },
    },
    url: null,
    ...one,
    path: (one.path ?? 'a') as RelativePath,
  };
}

t.test('rejects a truncated line', (t) => {
  const whole = lineOf(record({ path: 'other' }));
  for (let length = 0; length < whole.length; length += 1)
    t.equal(readLine(warm(), Buffer.from(whole.subarray(0, length))), null, `${length} bytes`);
  const path = 'a'.repeat(2 * whole.length);
  t.equal(readLine(warm(), Buffer.from(`{"path":"${path}`)), null, 'a path without an end');
  t.end();
});
