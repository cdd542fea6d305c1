import { readdirSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import t from 'tap';
import { parse } from 'yaml';
import { validationOptions } from '../../../../src/core/config/judge-config.ts';
import { configSchema } from '../../../../src/core/config/schema/schema.ts';
import { accept } from '../../../../src/core/lib/settings/accept.ts';
import { joiSchema } from '../../../../src/core/lib/settings/joi-schema.ts';
import { withDestination } from '../../config/parse.ts';

/** Whatever is accepted without the schema is what the schema accepts, with the same defaults. */

const texts = [
  ...readdirSync('examples/config').map((name) => readFileSync(`examples/config/${name}`, 'utf8')),
  ...[
    'backend: local, path: ./out, layout: releases, releases: {channels: {preview: {ttl: 2d}, other: {}}}',
    'backend: local, path: ./out, retention: {prune: {enabled: true}}',
    'backend: s3, bucket: b, access_key_id_env: A, secret_access_key_env: B, prefix: ""',
    'backend: sftp, host: h, user: u, path: /p',
  ].map(withDestination),
  'tracing: {sample_ratio: 0.5}',
  'server: {queue: {driver: bullmq, redis_url_env: R}, staging: {backend: s3, bucket: b}}',
  'server: {queue: {driver: embedded}, staging: {directory: ./x, keep: {size: 5}}}',
  'databases: [{name: a, driver: pglite, directory: ./d}, {name: b, driver: postgres, url_env: U}]',
  'notifiers: [{id: a, kind: log}, {id: b, kind: file, path: ./f}, {id: c, kind: redis, url_env: U}]',
];
const documents = texts.flatMap((text) => parts(parse(text) as Record<string, unknown>));

/** Each key by itself, and of lists each item: many small documents are judged sooner than few large ones. */
function parts(document: Record<string, unknown>): Record<string, unknown>[] {
  return Object.entries(document).flatMap(([key, value]) =>
    Array.isArray(value)
      ? (value as { destinations?: unknown[] }[]).flatMap((item) =>
          withOneDestination(item).map((each) => ({ [key]: [each] })),
        )
      : [{ [key]: value }],
  );
}

function withOneDestination(item: { destinations?: unknown[] }): unknown[] {
  return item.destinations?.map((each) => ({ ...item, destinations: [each] })) ?? [item];
}

const values: readonly unknown[] = [
  ...[null, undefined, true, false, 0, -0, 1, -1, 1.5, 8080, 2 ** 53, 1e300, Infinity, NaN, '', ' ', 'x'],
  ...[
    'a b',
    'X',
    '-',
    '\n',
    'a\u2028b',
    '8080',
    '20%',
    '200%',
    '5GiB',
    '5 GiB',
    '10m',
    '500ms',
    '0s',
    '99999d',
  ],
  ...[
    '/a/b',
    '../a',
    './',
    '~/x',
    '$HOME/x',
    'https://a.example.org/',
    'http://u:p@a/',
    'ftp://a/',
    '*',
    '::1',
  ],
  ...['10.0.0.0/8', '[::1]:80', '127.0.0.1:80', '*/5 * * * *', 'Europe/Berlin', '2027-01-31T00:00:00Z'],
  ...['local', 's3', 'sftp', 'http_upload', 'bullmq', 'log', 'toString', '__proto__', 'x'.repeat(5_000)],
  ...[[], [null], ['x'], [1], ['x', 'x'], {}, { x: 1 }, { backend: 'local' }, { toString: 1 }],
];

type Path = readonly (string | number)[];

function places(node: unknown, path: Path = []): Path[] {
  if (typeof node !== 'object' || node === null) return [path];
  return [path, ...Object.entries(node).flatMap(([key, value]) => places(value, [...path, key]))];
}

/** A copy with another value at a place; with `undefined`, as a key without a value and without the key. */
function changed(document: unknown, path: Path, value: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return value;
  if (typeof document !== 'object' || document === null) return document;
  const copy = (Array.isArray(document) ? [...(document as unknown[])] : { ...document }) as Record<
    string | number,
    unknown
  >;
  copy[key] = changed(copy[key], rest, value);
  return copy;
}

function without(document: unknown, path: Path): unknown {
  const parent = path.slice(0, -1);
  const found = parent.reduce<unknown>((node, key) => (node as Record<string, unknown>)[key], document);
  if (typeof found !== 'object' || found === null || Array.isArray(found)) return document;
  const last = String(path.at(-1));
  return changed(document, parent, Object.fromEntries(Object.entries(found).filter(([key]) => key !== last)));
}

const schema = joiSchema(configSchema);

/** What the two say of a document, if it is not the same. */
function disagreement(document: unknown): unknown {
  const { error, value } = schema.validate(document, { ...validationOptions, abortEarly: true }) as {
    error?: Error;
    value: unknown;
  };
  const accepted = accept(configSchema, document);
  if (error !== undefined) return accepted === null ? null : { accepted, refused: error.message };
  return JSON.stringify(accepted?.value) === JSON.stringify(value) ? null : { accepted, value };
}

t.test('each value at each place of each document is judged alike', async (t) => {
  let [accepted, refused] = [0, 0];
  const wrong: unknown[] = [];
  for (const document of documents)
    for (const path of places(document)) {
      const others = values.map((value) => changed(document, path, value));
      const unknown = changed(document, [...path, 'no_such_key'], 1);
      for (const other of [...others, unknown, ...(path.length > 0 ? [without(document, path)] : [])]) {
        const found = disagreement(other);
        if (found !== null) wrong.push({ path, found });
        if (accept(configSchema, other) === null) refused += 1;
        else accepted += 1;
      }
    }
  t.same(wrong.slice(0, 5), []);
  t.ok(accepted > 500 && refused > 5_000, `${accepted} accepted, ${refused} refused`);
});

t.test('so are documents with several changes', async (t) => {
  const change = fc.record({ at: fc.nat(), value: fc.constantFrom(...values) });
  fc.assert(
    fc.property(
      fc.constantFrom(...documents),
      fc.array(change, { minLength: 2, maxLength: 5 }),
      (start, changes) => {
        const document = changes.reduce<unknown>((each, { at, value }) => {
          const all = places(each);
          return changed(each, all[at % all.length] ?? [], value);
        }, start);
        return disagreement(document) === null;
      },
    ),
    { numRuns: 500 },
  );
  t.pass('500 of them');
});

t.test('a key of the name of the prototype is for the schema to judge', async (t) => {
  const document = JSON.parse('{"pipelines": [], "__proto__": {"log": {}}}') as unknown;
  t.equal(accept(configSchema, document), null);
});

t.test('returns a separate copy of a default each time', async (t) => {
  const first = accept(configSchema, {})?.value;
  first?.pipelines.push({} as never);
  t.same(accept(configSchema, {})?.value.pipelines, []);
});
