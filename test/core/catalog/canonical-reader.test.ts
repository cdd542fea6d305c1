import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import { CanonicalReader } from '../../../src/core/catalog/canonical-reader.ts';
import {
  type Catalog,
  maxPieceBytes,
  type OutputRecord,
  type Pending,
} from '../../../src/core/catalog/catalog.ts';
import { serialiseCatalog } from '../../../src/core/catalog/serialise.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import type { RelativePath } from '../../../src/core/lib/paths.ts';
import { sourceBackends } from '../../../src/core/storage/backends.ts';
import { parseState, readCanonical } from '../../support/parse-state.ts';

const updatedAt = '2026-11-20T00:00:00.000Z';
const owner = { pipelineId: 'maps', destinationId: 'web' };
const mebibyte = 2 ** 20;

t.test('a catalog is read from chunks of any size, with and without an intent', async (t) => {
  for (const [what, catalog] of [
    ['nothing published', catalogOf([])],
    ['outputs', catalogOf(['A', 'b', 'c/d'])],
    ['an intent of the first outputs', catalogOf([], intent(['z', 'a/b']))],
    ['an intent of removals', catalogOf(['A', 'b'], intent([]))],
    ['an intent of both', catalogOf(['A', 'b'], intent(['b', 'c']))],
  ] as const) {
    const bytes = serialiseCatalog(catalog);
    for (const step of [1, 7, 64, bytes.length])
      t.ok(isDeepStrictEqual(readInSteps(bytes, step), catalog), `${what}, ${step} bytes at a time`);
  }
});

t.test('rejects a text that differs from the canonical form in one place', async (t) => {
  const text = serialiseCatalog(catalogOf(['a', 'b'], intent(['c', 'd']))).toString();
  const list = text.slice(text.indexOf('  "outputs"'), text.indexOf('  "pending"'));
  for (const [what, changed] of [
    ['another indent', text.replace('\n    {', '\n   \t{')],
    ['another indent of the intent', text.replace('\n      {', '\n     \t{')],
    ['less indent', text.replace('\n    {', '\n   {')],
    ['a comma missing', text.replace('},\n    {', '}\n    {')],
    ['a comma after the last', text.replace('}\n  ],', '},\n  ],')],
    ['an empty list on two lines', text.replace(/\[\n {4}\{.*\n.*\n {2}\]/, '[\n  ]')],
    ['an empty line in the list', text.replace('  ],', '\n  ],')],
    ['a line of spaces in the list', text.replace('  ],', '    \n  ],')],
    ['a line of more spaces in the list', text.replace('  ],', '      \n  ],')],
    ['the list twice', text.replace(list, list + list)],
    ['announced: a path twice', text.replace('"path":"d"', '"path":"c"')],
    ['announced: a file below a file', text.replace('"path":"d"', '"path":"c/d"')],
    ['no line break at the end', text.slice(0, -1)],
    ['more after the end', `${text} `],
    ['another version', text.replace('"schema_version": 4', '"schema_version": 5')],
  ] as const) {
    t.not(changed, text, what);
    t.equal(readCanonical(Buffer.from(changed), sourceBackends), null, what);
  }
});

t.test('rejects a document at the first line that cannot be canonical', async (t) => {
  const text = serialiseCatalog(catalogOf(['a', 'b'])).toString();
  const place = text.indexOf('{"path":"b"');
  for (const wrong of [place, place + 20]) {
    const [before, after] = [text.slice(0, wrong), `x${text.slice(wrong)}`];
    t.notOk(new CanonicalReader(sourceBackends).push(Buffer.from(before + after)), 'in one chunk');
    const reader = new CanonicalReader(sourceBackends);
    t.ok(reader.push(Buffer.from(before)), 'no error yet');
    t.notOk(reader.push(Buffer.from(after)), 'at the end of the line');
  }
});

t.test('a document that is not an object is invalid and does not throw', async (t) => {
  for (const text of ['null\n', '5\n', '"text"\n', '[]\n', 'true\n', '\n'])
    t.equal(parseState(Buffer.from(text), sourceBackends).kind, 'invalid', JSON.stringify(text));
});

for (const [what, chunk, more] of [
  ['one line', 'x'.repeat(mebibyte), 'x'],
  ['all besides the records', `${'x'.repeat(1023)}\n`.repeat(1024), '\n'],
] as const)
  t.test(`${what} may have at most 64 MiB`, async (t) => {
    const reader = new CanonicalReader(sourceBackends);
    const bytes = Buffer.from(chunk);
    let isRead = true;
    for (let size = 0; size < maxPieceBytes; size += mebibyte) isRead &&= reader.push(bytes);
    t.ok(isRead);
    t.notOk(reader.push(Buffer.from(more)));
  });

function readInSteps(bytes: Uint8Array, step: number): Catalog | null {
  const reader = new CanonicalReader(sourceBackends);
  for (let from = 0; from < bytes.length; from += step)
    if (!reader.push(bytes.subarray(from, from + step))) return null;
  return reader.catalog();
}

function catalogOf(paths: readonly string[], pending: Pending | null = null): Catalog {
  return { generation: 1, updatedAt, bundles: [], outputs: paths.map(output), pending };
}

function intent(paths: readonly string[]): Pending {
  return {
    attemptId: 'x',
    owner,
    action: 'publish_new',
    startedAt: updatedAt,
    holder: null,
    renewals: 0,
    outputs: paths.map(output),
    removes: [],
  };
}

function output(path: string): OutputRecord {
  return {
    path: path as RelativePath,
    owner,
    source: { backend: 'local', id: '/source', path: '.' },
    kind: 'file',
    digest: digestOf(path),
    size: 1,
    updatedAt,
    generated: { contentType: 'text/plain', cacheControl: null, generator: null },
    url: null,
  };
}
