import fc from 'fast-check';
import t from 'tap';
import {
  contentDigest,
  type Manifest,
  manifestDigest,
  normaliseManifest,
  parseManifest,
  parseMediaType,
  uploadBundlePath,
} from '../../../src/core/bundle/manifest.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';

const digest = `sha256:${'9f'.repeat(32)}`;
const created = '2026-11-20T01:02:03Z';

function parse(document: unknown): ReturnType<typeof parseManifest> {
  return parseManifest(
    Buffer.from(typeof document === 'string' ? document : JSON.stringify(document)),
    'manifest.json',
  );
}

function valid(document: unknown): Manifest {
  const { manifest, findings } = parse(document);
  if (manifest === null || findings.length > 0) throw new Error(JSON.stringify(findings));
  return manifest;
}

t.test('a manifest is parsed with its defaults', async (t) => {
  const full = {
    path: 'maps/scenes.json',
    size: 1234,
    digest,
    kind: 'scene_map',
    content_type: 'application/json',
  };
  const manifest = valid({
    schema_version: 1,
    name: 'session-42',
    created,
    files: [full, 'notes/readme.txt'],
    metadata: {},
    later: 1,
  });
  t.match(manifest, { name: 'session-42', created: '2026-11-20T01:02:03.000Z' });
  t.same(manifest.files, [
    { path: 'maps/scenes.json', size: 1234, digest, kind: 'scene_map', contentType: 'application/json' },
    { path: 'notes/readme.txt', size: null, digest: null, kind: 'file', contentType: null },
  ]);
  t.equal(
    valid({ created, files: [{ path: 'a', size: null, kind: null }], name: null, metadata: null }).name,
    null,
    'null counts as absent',
  );
});

t.test('a name has at most 64 segments, like the path of a file', (t) => {
  const named = (count: number): object => ({ created, name: 'a/'.repeat(count).slice(0, -1), files: ['x'] });
  t.same(parse(JSON.stringify(named(64))).findings, []);
  const message = /has more than 64 segments/;
  t.match(parse(JSON.stringify(named(65))).findings, [{ pointer: '/name', code: 'invalid_name', message }]);
  t.end();
});

t.test('reports all errors at once, with their locations', async (t) => {
  const text = `{
  "schema_version": 2,
  "name": "../up",
  "metadata": [],
  "files": [
    "ok.txt",
    {"path": "a/../b", "size": -1, "digest": "sha256:AB", "kind": "Bad", "content_type": "text"},
    {"size": 1.5},
    7,
    "OK.txt",
    "ok.txt/below",
    "MANIFEST.json",
    ".publisher.json"
  ]
}`;
  const { manifest, findings } = parse(text);
  t.equal(manifest, null);
  t.same(
    findings.map(({ line, column, pointer, code }) => [line, column, pointer, code]),
    [
      [1, 1, '/created', 'missing_key'],
      [2, 21, '/schema_version', 'unsupported_version'],
      [3, 11, '/name', 'invalid_name'],
      [4, 15, '/metadata', 'wrong_type'],
      [7, 14, '/files/1/path', 'invalid_path'],
      [7, 32, '/files/1/size', 'invalid_size'],
      [7, 46, '/files/1/digest', 'invalid_digest'],
      [7, 67, '/files/1/kind', 'invalid_kind'],
      [7, 90, '/files/1/content_type', 'invalid_content_type'],
      [8, 5, '/files/2/path', 'missing_key'],
      [8, 14, '/files/2/size', 'invalid_size'],
      [9, 5, '/files/3', 'wrong_type'],
      [10, 5, '/files/4', 'path_collision'],
      [11, 5, '/files/5', 'path_collision'],
      [12, 5, '/files/6', 'invalid_path'],
      [13, 5, '/files/7', 'invalid_path'],
    ],
  );
});

t.test('reports invalid JSON bytes with their location', async (t) => {
  const cases: [name: string, bytes: Buffer, code: string, line: number, column: number][] = [
    ['empty', Buffer.from(''), 'invalid_json', 1, 1],
    ['cut short', Buffer.from('{"created":\n "x'), 'invalid_json', 2, 4],
    ['trailing comma', Buffer.from('{"files": ["a",\n]}'), 'invalid_json', 1, 15],
    ['comment', Buffer.from('{\n // no\n}'), 'invalid_json', 2, 2],
    ['two documents', Buffer.from('{}\n{}'), 'invalid_json', 2, 1],
    ['bad escape', Buffer.from('{"a": "\\x"}'), 'invalid_json', 1, 8],
    ['raw line break in a string', Buffer.from('{"a": "\n"}'), 'invalid_json', 1, 8],
    [
      'invalid UTF-8',
      Buffer.concat([Buffer.from('{\n"é": "'), Buffer.from([0xff, 0xfe]), Buffer.from('"}')]),
      'invalid_utf8',
      2,
      7,
    ],
    ['not an object', Buffer.from('[]'), 'wrong_type', 1, 1],
  ];
  for (const [name, bytes, code, line, column] of cases) {
    const { manifest, findings } = parseManifest(bytes, 'm.json');
    t.equal(manifest, null, name);
    t.match(findings, [{ file: 'm.json', code, line, column, severity: 'error' }], name);
  }
});

t.test(
  'reports a byte order mark, duplicate keys and unrepresentable values together with other errors',
  async (t) => {
    const codes = (text: string): string[] => parse(text).findings.map(({ code }) => code);
    const body = `"created":"${created}","files":["a"]`;
    t.same(codes(`\ufeff{${body}}`), ['byte_order_mark']);
    t.same(codes(`{${body},"files":["b"]}`), ['duplicate_key']);
    t.same(
      codes(`{${body},"metadata":{"x":1,"\\u0078":2}}`),
      ['duplicate_key'],
      'it is found despite an escape',
    );
    t.same(
      codes(`{${body},"metadata":{"a\\"b":1,"c\\\\":"x:y"}}`),
      [],
      'quotes and colons inside strings do not confuse the count',
    );
    t.same(codes(`{${body},"metadata":{"__proto__":{"a":1},"constructor":1}}`), []);
    t.same(codes(`{${body},"metadata":{"x":"\\ud800"}}`), ['lone_surrogate']);
    t.same(codes(`{${body},"metadata":{"x":1e999}}`), ['number_out_of_range']);
    t.same(
      codes(`{${body},"metadata":{"x":${'['.repeat(100_000)}${']'.repeat(100_000)}}}`),
      ['too_deep'],
      'the stack does not overflow',
    );
  },
);

t.test('names each syntax error with its position, including those after the first', async (t) => {
  const { findings } = parse('{\n  "files": ["a",],\n  // none\n  "created": "x" "name": 1,\n}');
  t.same(
    findings.map(({ line, column, message }) => `${line}:${column} ${message}`),
    [
      '2:16 is not JSON: there is a comma before a closing bracket or brace; remove it',
      '3:3 is not JSON: JSON has no comments; remove this one',
      '4:18 is not JSON: a comma is expected between two entries',
      '4:27 is not JSON: there is a comma before a closing bracket or brace; remove it',
    ],
  );
});

t.test('a duplicate key is reported at its second position', async (t) => {
  t.match(parse(`{"created":"${created}","files":["a"],\n "files":["b"]}`).findings, [
    {
      code: 'duplicate_key',
      pointer: '/files',
      line: 2,
      column: 2,
      message: /^the key "files" appears twice/,
    },
  ]);
});

t.test('limits the number of findings, and counts the rest', async (t) => {
  const { findings } = parse({ created, files: Array.from({ length: 5000 }, () => 5) });
  t.equal(findings.length, 101);
  t.match(findings.at(-1), { code: 'more_findings', message: /^4900 more/ });
});

t.test('a manifest above the size limit is rejected without being read', async (t) => {
  t.match(parseManifest(new Uint8Array(64 * 2 ** 20 + 1), 'm').findings, [{ code: 'manifest_too_large' }]);
});

t.test('a hostile manifest uses few resources', async (t) => {
  const text = (files: string): string => `{"created":"${created}","files":[${files}]}`;
  const codes = (files: string): string[] => parse(text(files)).findings.map(({ code }) => code);
  t.same(codes('{},'.repeat(5_000_000)), ['manifest_too_complex']);
  t.same(codes(`${'0,'.repeat(300_000)}0`), ['too_many_listed_files']);
  t.match(parse(text(`${'0,'.repeat(200_000)}0`)).findings.at(-1), { message: /^199901 more/ });
});

t.test(
  'limits the values of a manifest by its files, so that parsing does not block the event loop',
  async (t) => {
    const withKeys = (count: number): Buffer => {
      const metadata = Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, 1]));
      return Buffer.from(JSON.stringify({ created: '2026-11-20T00:00:00Z', files: ['a'], metadata }));
    };
    const codesOf = (count: number, maxFiles?: number): string[] =>
      parseManifest(withKeys(count), 'manifest.json', maxFiles).findings.map(({ code }) => code);
    t.same(codesOf(90_000, 10), []);
    t.same(codesOf(110_000, 10), ['manifest_too_complex']);
    t.same(codesOf(110_000, 1_000), []);
    t.same(codesOf(110_000), []);
  },
);

t.test('validates media types', async (t) => {
  for (const text of [
    'text/html',
    'text/html; charset=utf-8',
    'application/vnd.a+json;a="b \\" c"',
    'image/svg+xml',
  ])
    t.ok(parseMediaType(text).ok, text);
  for (const text of [
    '',
    'text',
    'text/',
    'text/html;',
    'text/html\r\nX: y',
    'te xt/html',
    `a/${'b'.repeat(300)}`,
    'text/html; a="\n"',
  ])
    t.notOk(parseMediaType(text).ok, text);
});

t.test('equivalent manifests have one digest, and others have another', async (t) => {
  const base = valid({ created, files: ['b', { path: 'a', size: 1 }] });
  const same = valid({
    files: [{ size: 1, path: 'a', kind: 'file' }, { path: 'b' }],
    created: '2026-11-20T02:02:03+01:00',
    schema_version: 1,
    metadata: {},
  });
  t.equal(manifestDigest(base), manifestDigest(same));
  t.same(Object.keys(normaliseManifest(base)).sort(), [
    'created',
    'files',
    'metadata',
    'name',
    'schema_version',
  ]);
  for (const other of [
    { files: ['b', { path: 'a', size: 2 }] },
    { files: ['b', 'a'] },
    { name: 'x' },
    { created: '2026-11-20T01:02:03.0001Z' },
    { metadata: { a: 1 } },
    { unknown: 1 },
  ])
    t.not(
      manifestDigest(valid({ created, files: ['b', { path: 'a', size: 1 }], ...other })),
      manifestDigest(base),
      JSON.stringify(other),
    );
});

t.test(
  'a content digest includes measured digests of files for which the manifest declares none',
  async (t) => {
    const [one, other] = [digestOf('one'), digestOf('other')];
    const bare = valid({ created, files: ['a', { path: 'b', size: 1 }] });
    t.not(
      contentDigest(bare, () => one),
      contentDigest(bare, () => other),
    );
    const declared = valid({
      created,
      files: [
        { path: 'a', digest: one },
        { path: 'b', size: 1, digest: one },
      ],
    });
    const unasked = (): never => {
      throw new Error('every digest is declared');
    };
    t.equal(contentDigest(declared, unasked), manifestDigest(declared), 'declared digests count as before');
    t.equal(
      contentDigest(bare, () => one),
      contentDigest(declared, unasked),
      'a measured digest has the same effect as a declared one',
    );
  },
);

t.test('the path of an upload is its name, or its time and digest', async (t) => {
  const named = valid({ created, name: 'a/b', files: ['x'] });
  t.equal(uploadBundlePath(named, manifestDigest(named)), 'a/b');
  const unnamed = valid({ created: '2026-11-20T02:02:03+01:00', files: ['x'] });
  t.match(uploadBundlePath(unnamed, manifestDigest(unnamed)), /^20261120T010203Z-[0-9a-f]{8}$/);
});

t.test('the order of files and of keys does not matter (property)', async () => {
  const files = fc.uniqueArray(fc.record({ path: fc.stringMatching(/^[a-z]{1,6}$/), size: fc.nat() }), {
    selector: ({ path }) => path,
    minLength: 1,
  });
  fc.assert(
    fc.property(
      files,
      fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue({ maxDepth: 3 })),
      (list, metadata) => {
        const one = parse({ created, files: list, metadata }).manifest;
        const reversed = Object.fromEntries(Object.entries(metadata).reverse());
        const other = parse({ metadata: reversed, files: [...list].reverse(), created }).manifest;
        return one !== null && other !== null && manifestDigest(one) === manifestDigest(other);
      },
    ),
  );
});

t.test('any bytes give a manifest or an error finding, but never an exception (property)', async () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.uint8Array(),
        fc.json().map((text) => Buffer.from(text)),
      ),
      (bytes) => {
        const { manifest, findings } = parseManifest(bytes, 'm');
        return (manifest === null) === findings.some(({ severity }) => severity === 'error');
      },
    ),
  );
});
