import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import t from 'tap';
import { CanonicalReader } from '../../../src/core/catalog/canonical-reader.ts';
import type { Catalog, OutputRecord, Pending, PublishedBundle } from '../../../src/core/catalog/catalog.ts';
import { parseInMemory } from '../../../src/core/catalog/parse.ts';
import { catalogBody, serialiseCatalog } from '../../../src/core/catalog/serialise.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import { compareCodeUnits, parseRelativePath, type RelativePath } from '../../../src/core/lib/paths.ts';
import { sourceBackends } from '../../../src/core/storage/backends.ts';
import type { SourceIdentity } from '../../../src/core/storage/identity.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import { instant as exactly } from '../../support/instant.ts';
import { parseState, readCanonical } from '../../support/parse-state.ts';

const digest = fc.string().map(digestOf);
const instant = fc
  .date({ min: new Date('2000-01-01'), max: new Date('2100-01-01'), noInvalidDate: true })
  .map((date) => date.toISOString());
const name = fc.string({ minLength: 1, maxLength: 20 });
const owner = fc.record({ pipelineId: name, destinationId: name });
const path = fc
  .array(fc.constantFrom('a', 'b', 'späce d', '名前', '#?%', 'x.y', '{}', '"'), {
    minLength: 1,
    maxLength: 4,
  })
  .map((segments) => segments.join('/') as RelativePath);
const source: fc.Arbitrary<SourceIdentity> = fc.record({
  backend: fc.constantFrom('local' as const, 'sftp' as const, 's3' as const, 'http_upload' as const),
  id: name,
  path: name,
});
const record: fc.Arbitrary<OutputRecord> = fc.record({
  path,
  owner,
  source,
  kind: name,
  digest,
  size: fc.maxSafeNat(),
  updatedAt: instant,
  generated: fc.record({
    contentType: fc.option(name),
    cacheControl: fc.option(name),
    generator: fc.option(fc.record({ name, version: fc.nat(), inputs: digest })),
  }),
  url: fc.option(fc.webUrl()),
});
const records = fc.uniqueArray(record, { selector: (item) => item.path, maxLength: 8 }).map(withoutNesting);
const pending: fc.Arbitrary<Pending> = fc.record({
  attemptId: name,
  owner,
  action: fc.constantFrom(
    'publish_new' as const,
    'upsert_additive' as const,
    'replace_catalog' as const,
    'force_replace' as const,
    'prune' as const,
  ),
  startedAt: instant,
  holder: fc.option(
    fc.record({
      host: name,
      pid: fc.nat(),
      bootId: fc.option(name),
      process: fc.option(name),
      thread: fc.option(name),
      instanceId: name,
    }),
  ),
  renewals: fc.nat(),
  outputs: records,
  removes: fc.array(path.map(listedKey)),
});
const created = fc
  .tuple(instant, fc.stringMatching(/^[0-9]{1,20}$/))
  .map(([seconds, fraction]) => exactly(`${seconds.slice(0, 19)}.${fraction}Z`));
const bundles: fc.Arbitrary<PublishedBundle[]> = fc.uniqueArray(fc.record({ owner, source, created }), {
  selector: ({ owner: { pipelineId, destinationId } }) => JSON.stringify([pipelineId, destinationId]),
  maxLength: 4,
});
const catalog: fc.Arbitrary<Catalog> = fc.record({
  generation: fc.nat(),
  updatedAt: instant,
  bundles,
  outputs: records,
  pending: fc.option(pending),
});

t.test('parse(serialise(catalog)) is the catalog, sorted by path', async (t) => {
  fc.assert(
    fc.property(catalog, (value) => {
      const state = parseState(serialiseCatalog(value), sourceBackends);
      t.same(state, {
        kind: 'valid',
        catalog: {
          ...value,
          bundles: value.bundles.toSorted(byOwner),
          outputs: sorted(value.outputs),
          pending: value.pending && { ...value.pending, outputs: value.pending.outputs },
        },
      });
    }),
    { numRuns: 300 },
  );
});

t.test('the order of outputs does not change the text, and each record is one line', async (t) => {
  fc.assert(
    fc.property(records, instant, (outputs, updatedAt) => {
      const text = serialiseCatalog({
        generation: 1,
        updatedAt,
        bundles: [],
        outputs,
        pending: null,
      }).toString();
      t.equal(
        text,
        serialiseCatalog({
          generation: 1,
          updatedAt,
          bundles: [],
          outputs: [...outputs].reverse(),
          pending: null,
        }).toString(),
      );
      t.equal(text.split('\n').filter((line) => line.includes('"digest":')).length, outputs.length);
    }),
  );
});

const base = {
  schema_version: 4,
  generation: 1,
  updated_at: '2026-11-20T00:00:00Z',
  outputs: [
    {
      path: 'a',
      owner: { pipeline_id: 'p', destination_id: 'd' },
      source: { backend: 'local', id: '/s', path: 'b' },
      kind: 'file',
      digest: digestOf('a'),
      size: 1,
      updated_at: '2026-11-20T00:00:00Z',
      generated: {},
      url: null,
    },
  ],
  pending: null,
};
const [first] = base.outputs;
const bundle = { owner: first?.owner, source: first?.source, created: '2026-11-20T00:00:00Z' };

t.test('a malformed state is invalid, with the place in the reason', async (t) => {
  t.equal(parse(base).kind, 'valid');
  const cases: [string, unknown, RegExp][] = [
    ['not JSON', '{"schema_version": 4', /is not JSON/],
    ['not UTF-8', Buffer.from([0x7b, 0xff, 0x7d]), /is not JSON/],
    ['empty', '', /is not JSON/],
    ['an array', [], /^is not an object/],
    ['no version', { ...base, schema_version: undefined }, /schema_version/],
    ['version as text', { ...base, schema_version: '4' }, /schema_version/],
    ['a version between two', { ...base, schema_version: 1.5 }, /schema_version/],
    ['version zero', { ...base, schema_version: 0 }, /schema_version/],
    ['four under the old name', { ...base, schema_version: undefined, version: 4 }, /schema_version/],
    ['no outputs', { ...base, outputs: undefined }, /outputs is not an array/],
    ['no pending', { ...base, pending: undefined }, /pending is not an object/],
    ['negative generation', { ...base, generation: -1 }, /generation/],
    ['fractional generation', { ...base, generation: 1.5 }, /generation/],
    ['generation that is not exact', { ...base, generation: 2 ** 53 }, /generation/],
    ['time without a zone', { ...base, updated_at: '2026-11-20T00:00:00' }, /updated_at/],
    ['duplicate paths', { ...base, outputs: [first, first] }, /outputs\[1\]\.path is listed twice/],
    [
      'paths that differ in case only',
      { ...base, outputs: [first, { ...first, path: 'A' }] },
      /only in letter case/,
    ],
    ['an escaping path', { ...base, outputs: [{ ...first, path: '../a' }] }, /outputs\[0\]\.path/],
    ['an absolute path', { ...base, outputs: [{ ...first, path: '/etc/passwd' }] }, /absolute/],
    ['a reserved path', { ...base, outputs: [{ ...first, path: '.publisher.lock' }] }, /reserved/],
    [
      'an owner without ids',
      { ...base, outputs: [{ ...first, owner: {} }] },
      /outputs\[0\]\.owner\.pipeline_id/,
    ],
    [
      'a foreign backend',
      { ...base, outputs: [{ ...first, source: { backend: 'ftp', id: 'x', path: 'y' } }] },
      /backend/,
    ],
    ['a short digest', { ...base, outputs: [{ ...first, digest: 'sha256:00' }] }, /digest/],
    ['a fractional size', { ...base, outputs: [{ ...first, size: 1.5 }] }, /size/],
    ['an invalid url', { ...base, outputs: [{ ...first, url: 'nowhere' }] }, /url/],
    ['an escaping removal', { ...base, pending: intent({ removes: ['../x'] }) }, /pending\.removes\[0\]/],
    ['bundles that are no list', { ...base, bundles: {} }, /bundles is not an array/],
    ['a bundle without an owner', { ...base, bundles: [{ ...bundle, owner: {} }] }, /bundles\[0\]\.owner/],
    [
      'a bundle without a source',
      { ...base, bundles: [{ ...bundle, source: null }] },
      /bundles\[0\]\.source/,
    ],
    [
      'two bundles of one owner',
      { ...base, bundles: [bundle, bundle] },
      /bundles\[1\]\.owner is a duplicate/,
    ],
    [
      'created without a zone',
      { ...base, bundles: [{ ...bundle, created: '2026-11-20T00:00:00' }] },
      /bundles\[0\]\.created is not an RFC 3339/,
    ],
    ['an unknown action', { ...base, pending: intent({ action: 'guess' }) }, /pending\.action/],
    [
      'a key twice',
      Buffer.from(JSON.stringify(base, null, 2).replace('"pending"', '"pending": null,\n  "pending"')),
      /line \d+: the key "pending" appears twice/,
    ],
    [
      'millions of values',
      Buffer.from(`{"outputs":[${'[],'.repeat(6_300_000)}0]}`),
      /more than 12500000 values/,
    ],
  ];
  for (const [what, document, reason] of cases) {
    const state = parse(document);
    t.equal(state.kind, 'invalid', what);
    if (state.kind === 'invalid') t.match(state.reason, reason, what);
  }
});

/** Every field of a catalog, by its position. */
const places = [
  ...['generation', 'updated_at', 'outputs', 'bundles', 'pending', 'outputs[0]', 'bundles[0]'],
  ...['outputs[0]', 'pending.outputs[0]'].flatMap((at) =>
    [
      ...['path', 'owner', 'owner.pipeline_id', 'owner.destination_id', 'kind', 'digest', 'size', 'url'],
      ...['source', 'source.backend', 'source.id', 'source.path', 'updated_at', 'generated'],
      ...['content_type', 'cache_control', 'generator', 'generator.name', 'generator.version']
        .concat('generator.inputs')
        .map((name) => `generated.${name}`),
    ].map((name) => `${at}.${name}`),
  ),
  ...['owner', 'owner.pipeline_id', 'owner.destination_id', 'source', 'source.id', 'created'].map(
    (name) => `bundles[0].${name}`,
  ),
  ...['attempt_id', 'owner', 'owner.pipeline_id', 'owner.destination_id', 'action', 'started_at']
    .concat(['holder', 'renewals', 'outputs', 'outputs[0]', 'removes', 'removes[0]'])
    .concat(['host', 'pid', 'boot_id', 'process', 'thread', 'instance_id'].map((name) => `holder.${name}`))
    .map((name) => `pending.${name}`),
];

t.test('every error is reported with its place', async (t) => {
  const generator = { name: 'g', version: 1, inputs: digestOf('') };
  const outputs = [{ ...first, generated: { content_type: 'a/b', cache_control: 'x', generator } }];
  const holder = { host: 'h', pid: 1, boot_id: 'b', process: 'p', thread: '1 2', instance_id: 'i' };
  const whole = { ...base, outputs, bundles: [bundle], pending: intent({ outputs, holder, removes: ['x'] }) };
  t.match(parse(whole), { kind: 'valid', catalog: { pending: { holder: { thread: '1 2' } } } });
  for (const place of places) {
    const document = JSON.parse(JSON.stringify(whole)) as Record<string, unknown>;
    const names = place.split(/[.[\]]+/).filter((name) => name !== '');
    const last = names.pop() ?? '';
    const parent = names.reduce((at, name) => at[name] as Record<string, unknown>, document);
    parent[last] = true;
    const state = parse(document);
    t.equal(state.kind, 'invalid', place);
    if (state.kind === 'invalid') t.ok(state.reason.startsWith(`${place} `), `${place}: ${state.reason}`);
  }
  t.match(parse('{'), { reason: /^is not JSON/ });
});

t.test('accepts a catalog without bundles, and keeps all digits of created', async (t) => {
  t.match(parse(base), { catalog: { bundles: { length: 0 } } });
  const state = parse({
    ...base,
    bundles: [{ ...bundle, created: '2026-11-20T01:00:00.12345678910+01:00' }],
  });
  t.match(state, { catalog: { bundles: [{ created: '2026-11-20T00:00:00.1234567891Z' }] } });
  if (state.kind === 'valid')
    t.match(
      serialiseCatalog(state.catalog).toString(),
      /"bundles": \[\n {4}\{"owner":\{"pipeline_id":"p","destination_id":"d"\},.*"created":"2026-11-20T00:00:00\.1234567891Z"\}\n {2}\],/,
    );
});

t.test('legacy, future and unknown keys', async (t) => {
  t.same(parse({ version: 1, published_at: '2026-01-01T00:00:00Z' }), {
    kind: 'legacy',
    version: 1,
    records: [],
  });
  t.same(parse({ version: 2, files: ['a', 'b/c'] }), {
    kind: 'legacy',
    version: 2,
    records: [
      { path: 'a', v3: null },
      { path: 'b/c', v3: null },
    ],
  });
  const v3 = {
    schema_version: 3,
    pipeline_id: 'p',
    destination_id: 'd',
    outputs: [{ path: 'a', digest: digestOf('a'), size: 1, updated_at: '2026-01-01T00:00:00Z' }],
  };
  t.match(parse(v3), {
    kind: 'legacy',
    version: 3,
    records: [{ path: 'a', v3: { owner: { pipelineId: 'p', destinationId: 'd' }, size: 1 } }],
  });
  t.same(parse({ schema_version: 5 }), { kind: 'future', version: 5 });
  t.same(parse({ version: 99 }), { kind: 'future', version: 99 });
  t.equal(parse({ ...base, note: 'from a friend' }).kind, 'valid');
});

t.test('a superseded version marks the path as managed, and lists files only if well-formed', async (t) => {
  const output = { path: 'a', digest: digestOf('a'), size: 1, updated_at: '2026-01-01T00:00:00Z' };
  const v3 = { schema_version: 3, pipeline_id: 'p', destination_id: 'd', outputs: [output] };
  for (const [version, document] of [
    [3, { schema_version: 3 }],
    [3, { version: 3 }],
    [3, { ...v3, pipeline_id: 7 }],
    [3, { ...v3, outputs: [output, { ...output, path: '../a' }] }],
    [3, { ...v3, outputs: [output, { ...output, digest: 'sha256:00' }] }],
    [3, { ...v3, outputs: 'many' }],
    [2, { schema_version: 2, files: ['a', '/abs'] }],
    [2, { version: 2, files: {} }],
    [2, { version: 2 }],
    [1, { schema_version: 1, outputs: [5] }],
  ] as const)
    t.same(parse(document), { kind: 'legacy', version, records: [] }, JSON.stringify(document));
});

t.test('arbitrary bytes never throw', async (t) => {
  fc.assert(fc.property(fc.uint8Array(), (bytes) => t.ok(parseState(bytes, sourceBackends).kind)));
  fc.assert(fc.property(fc.json(), (text) => t.ok(parseState(Buffer.from(text), sourceBackends).kind)));
});

const updatedAt = '2026-11-20T00:00:00.000Z';

const edits = fc.array(
  fc.record({
    at: fc.nat(100_000),
    cut: fc.nat(3),
    text: fc.constantFrom(
      '',
      '',
      ',',
      '\n',
      ' ',
      '{',
      '}',
      ']',
      '"',
      '0',
      '\ufeff',
      '  ],\n',
      '\n  "outputs": [\n',
    ),
  }),
  { maxLength: 2 },
);

t.test('the streaming and the whole-document parser agree', async (t) => {
  let [valid, invalid] = [0, 0];
  fc.assert(
    fc.property(catalog, edits, (value, made) => {
      let text = serialiseCatalog(value).toString();
      for (const { at, cut, text: put } of made) {
        const place = at % text.length;
        text = text.slice(0, place) + put + text.slice(place + cut);
      }
      const [apart, together] = [parse(text), parseInMemory(Buffer.from(text), sourceBackends)];
      t.equal(apart.kind, together.kind, text);
      t.same(apart, together);
      if (apart.kind === 'valid') valid += 1;
      else invalid += 1;
    }),
    { numRuns: 400 },
  );
  t.ok(valid > 50 && invalid > 50, `${valid} valid, ${invalid} not`);
});

/** Typical records: one or two owners and sources, plain paths and a few kinds of file. */
const alike: fc.Arbitrary<OutputRecord[]> = fc
  .uniqueArray(
    fc.record({
      path: fc.stringMatching(/^[a-c]{1,3}\/[a-z .é"]{1,6}$/).map((text) => text.trim() as RelativePath),
      owner: fc.constantFrom(
        { pipelineId: 'maps', destinationId: 'web' },
        { pipelineId: 'käse', destinationId: '"' },
      ),
      source: fc.constantFrom(
        { backend: 'local' as const, id: '/source', path: '.' },
        { backend: 's3' as const, id: 's3://b/é', path: 'x' },
      ),
      kind: fc.constantFrom('file', 'page'),
      digest,
      size: fc.oneof(fc.nat(20), fc.maxSafeNat()),
      updatedAt: fc.constantFrom('2026-11-20T00:00:00.000Z', '2026-11-20T00:00:01.000Z'),
      generated: fc.constantFrom(
        { contentType: 'text/html; charset=utf-8', cacheControl: null, generator: null },
        { contentType: 'image/png', cacheControl: 'no-cache', generator: null },
      ),
      url: fc.option(fc.constantFrom('https://x.example/a', 'https://x.example/%22')),
    }),
    { selector: (item) => item.path, maxLength: 40 },
  )
  .map(withoutNesting);
const likely: fc.Arbitrary<Catalog> = fc.tuple(catalog, alike, alike).map(([some, outputs, announced]) => ({
  ...some,
  outputs,
  pending: some.pending && { ...some.pending, outputs: announced },
}));

t.test('a canonical catalog is read from any chunks with the same result', async (t) => {
  let [own, other] = [0, 0];
  fc.assert(
    fc.property(likely, edits, fc.integer({ min: 1, max: 3_000 }), (value, made, step) => {
      let text = serialiseCatalog(value).toString();
      for (const { at, cut, text: put } of made) {
        const place = at % text.length;
        text = text.slice(0, place) + put + text.slice(place + cut);
      }
      const bytes = Buffer.from(text);
      const whole = parseInMemory(bytes, sourceBackends);
      const isOwn = whole.kind === 'valid' && serialiseCatalog(whole.catalog).equals(bytes);
      const reader = new CanonicalReader(sourceBackends);
      let isRead = true;
      for (let from = 0; isRead && from < bytes.length; from += step)
        isRead = reader.push(bytes.subarray(from, from + step));
      const found = isRead ? reader.catalog() : null;
      t.equal(found !== null, isOwn, text);
      if (found !== null) t.ok(isDeepStrictEqual(found, whole.kind === 'valid' && whole.catalog), text);
      t.ok(isDeepStrictEqual(readCanonical(bytes, sourceBackends), found), text);
      if (isOwn) own += 1;
      else other += 1;
    }),
    { numRuns: 200 },
  );
  t.ok(own > 25 && other > 50, `${own} canonical, ${other} not`);
});

t.test('a catalog body has the announced size and the serialized bytes', async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.oneof(catalog, likely), async (value) => {
      const body = catalogBody(value);
      for (let time = 1; time <= 2; time += 1) {
        const chunks: Uint8Array[] = [];
        for await (const chunk of body.open()) chunks.push(chunk);
        t.ok(Buffer.concat(chunks).equals(serialiseCatalog(value)), `opened ${time} times`);
      }
      t.equal(body.size, serialiseCatalog(value).byteLength);
    }),
    { numRuns: 60 },
  );
});

t.test('a catalog that is almost canonical is not accepted as canonical', async (t) => {
  const value = { generation: 1, updatedAt, bundles: [], outputs: [one('a'), one('b')], pending: null };
  const text = serialiseCatalog(value).toString();
  t.ok(readCanonical(Buffer.from(text), sourceBackends));
  const second = text.indexOf('{"path":"b"');
  for (const [what, changed] of [
    ['in another order', text.replace('"path":"a"', '"path":"c"')],
    ['a path twice', text.replace('"path":"a"', '"path":"b"')],
    ['a file below a file', text.replace('"path":"b"', '"path":"a/b"')],
    ['in letter case only', text.replace('"path":"a"', '"path":"B"')],
    ['a padded number', text.replace('"size":1', '"size":01')],
    ['a number with a point', text.slice(0, second) + text.slice(second).replace('"size":1', '"size":1.0')],
    ['no number', text.slice(0, second) + text.slice(second).replace('"size":1', '"size":')],
    ['an escape that is not needed', text.slice(0, second) + text.slice(second).replace('"b"', '"\\u0062"')],
    ['a digest in capitals', text.slice(0, second) + text.slice(second).replace('"sha256:', '"SHA256:')],
    ['another key', text.slice(0, second) + text.slice(second).replace('"url":null', '"url":null,"x":1')],
    [
      'a key twice',
      text.slice(0, second) + text.slice(second).replace('"url":null', '"url":null,"url":null'),
    ],
    ['cut short', text.slice(0, -1)],
    ['cut short in the list', text.slice(0, second)],
    ['more at the end', `${text}\n`],
    ['another version', text.replace('"schema_version": 4', '"schema_version": 3')],
    ['a list twice', text.replace('  "pending"', '  "outputs": [\n    {}\n  ],\n  "pending"')],
    ['deep', text.replace('"generation": 1', `"generation": ${'['.repeat(100_000)}`)],
    ['one long line', 'x'.repeat(3 << 20)],
  ] as const)
    t.equal(readCanonical(Buffer.from(changed), sourceBackends), null, what);
  t.ok(readCanonical(Buffer.from(text.replace('"b"', '"\ufffd"')), sourceBackends), 'invalid surrogates');
  const long = serialiseCatalog({
    ...value,
    outputs: [{ ...one('a'), url: `https://x.example/${'a'.repeat(3 << 20)}` }],
  });
  t.ok(readCanonical(long, sourceBackends), 'a record of three megabytes');
  const bad = Buffer.from(text);
  bad[second + '{"path":"'.length] = 0xff;
  t.equal(readCanonical(bad, sourceBackends), null, 'invalid UTF-8');
  t.equal(parseState(bad, sourceBackends).kind, 'invalid');
});

t.test('equal values of records are shared', async (t) => {
  const outputs = [one('a'), one('b'), one('c')];
  const state = parse(serialiseCatalog({ generation: 1, updatedAt, bundles: [], outputs, pending: null }));
  if (state.kind !== 'valid') throw new Error(state.kind);
  const [first, ...others] = state.catalog.outputs;
  for (const other of others)
    t.ok(
      other.owner === first?.owner && other.source === first.source && other.generated === first.generated,
      other.path,
    );
});

function one(file: string): OutputRecord {
  return {
    path: file as RelativePath,
    owner: { pipelineId: 'maps', destinationId: 'web' },
    source: { backend: 'local', id: '/source', path: '.' },
    kind: 'file',
    digest: digestOf(file),
    size: 1,
    updatedAt,
    generated: { contentType: 'text/plain', cacheControl: null, generator: null },
    url: null,
  };
}

function intent(overrides: object): object {
  const { owner: ownerJson } = base.outputs[0]!;
  return {
    attempt_id: 'x',
    owner: ownerJson,
    action: 'prune',
    started_at: '2026-11-20T00:00:00Z',
    holder: null,
    renewals: 0,
    outputs: [],
    removes: [],
    ...overrides,
  };
}

function parse(document: unknown): ReturnType<typeof parseState> {
  if (Buffer.isBuffer(document)) return parseState(document, sourceBackends);
  const text = typeof document === 'string' ? document : JSON.stringify(document);
  return parseState(Buffer.from(text), sourceBackends);
}

function sorted(outputs: readonly OutputRecord[]): OutputRecord[] {
  return [...outputs].sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** A catalog never has a file below a file. */
function withoutNesting(outputs: OutputRecord[]): OutputRecord[] {
  const taken = new Set<string>();
  return sorted(outputs).filter(({ path: candidate }) => {
    const ancestors = candidate.split('/').map((_, index, all) => all.slice(0, index).join('/'));
    if (!parseRelativePath(candidate).ok || ancestors.some((ancestor) => taken.has(ancestor))) return false;
    taken.add(candidate);
    return true;
  });
}

function byOwner({ owner: a }: PublishedBundle, { owner: b }: PublishedBundle): number {
  return compareCodeUnits(a.pipelineId, b.pipelineId) || compareCodeUnits(a.destinationId, b.destinationId);
}
