import t from 'tap';
import {
  type Catalog,
  maxCatalogBytes,
  maxPieceBytes,
  maxWholeCatalogBytes,
  type OutputRecord,
} from '../../../src/core/catalog/catalog.ts';
import {
  bytesOfRecord,
  catalogBody,
  catalogTooLarge,
  maxCatalogBytesFor,
  recordToJson,
  serialiseCatalog,
} from '../../../src/core/catalog/serialise.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import type { RelativePath } from '../../../src/core/lib/paths.ts';
import { sourceBackends } from '../../../src/core/storage/backends.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import { instant } from '../../support/instant.ts';
import { readCanonical } from '../../support/parse-state.ts';

const updatedAt = '2026-11-20T00:00:00.000Z';
const owner = { pipelineId: 'maps', destinationId: 'web' };
const source = { backend: 'local' as const, id: '/source', path: '.' };
const plain = { contentType: 'text/plain', cacheControl: null, generator: null };
const mebibyte = 2 ** 20;
const empty: Catalog = { generation: 1, updatedAt, bundles: [], outputs: [], pending: null };

t.test('reads up to 256 MiB that are not canonical, and twice that otherwise', (t) => {
  t.same([maxWholeCatalogBytes, maxCatalogBytes], [268_435_456, 536_870_912]);
  t.end();
});

t.test('counts the bytes of a record independently of the previous one', (t) => {
  const shared = output('a', {});
  const times = ['2026-11-20T00:00:00.000Z', '2026-11-20T00:00:00Z'];
  const kinds = ['file', 'a longer kind'];
  for (const updatedAt of times)
    for (const kind of kinds)
      for (const owner of [shared.owner, { ...shared.owner, pipelineId: 'another' }])
        for (const source of [shared.source, { ...shared.source, path: 'a/longer/path' }])
          for (const generated of [shared.generated, { ...shared.generated, contentType: 'text/html' }]) {
            const record = { ...shared, updatedAt, kind, owner, source, generated };
            t.equal(bytesOfRecord(shared), Buffer.byteLength(recordToJson(shared)));
            for (const one of [record, { ...record, kind: shared.kind }, { ...record, updatedAt: 'now' }])
              t.equal(bytesOfRecord(one), Buffer.byteLength(recordToJson(one)), recordToJson(one));
          }
  t.end();
});

t.test('the exact text of a catalog', async (t) => {
  const inputs = digestOf('inputs');
  const generated = { contentType: null, cacheControl: 'no-cache', generator: null };
  const generator = { name: 'pages', version: 2, inputs };
  const made = { contentType: 'text/html', cacheControl: null, generator };
  const holder = { host: 'h', pid: 7, bootId: 'b', process: null, thread: null, instanceId: 'i' };
  const catalog: Catalog = {
    generation: 3,
    updatedAt,
    bundles: [
      { owner: { ...owner, destinationId: 'x' }, source, created: instant('2026-11-20T00:00:00.1Z') },
      { owner, source, created: instant('2026-11-20T00:00:00Z') },
    ],
    outputs: [output('b', { url: 'https://x.example/b' }), output('a"', { generated })],
    pending: {
      attemptId: 'x',
      owner,
      action: 'publish_new',
      startedAt: updatedAt,
      holder,
      renewals: 5,
      outputs: [output('z', { generated: made, kind: 'page' })],
      removes: [listedKey('old'), listedKey('é')],
    },
  };
  const own = '"owner":{"pipeline_id":"maps","destination_id":"web"}';
  const from = '"source":{"backend":"local","id":"/source","path":"."}';
  const record = (path: string, kind: string, digest: string, generated: string, url: string): string =>
    `{"path":${path},${own},${from},"kind":"${kind}","digest":"${digest}","size":1,` +
    `"updated_at":"${updatedAt}","generated":${generated},"url":${url}}`;
  t.equal(
    serialiseCatalog(catalog).toString(),
    `{
  "schema_version": 4,
  "generation": 3,
  "updated_at": "${updatedAt}",
  "bundles": [
    {${own},${from},"created":"2026-11-20T00:00:00.000Z"},
    {${own.replace('web', 'x')},${from},"created":"2026-11-20T00:00:00.100Z"}
  ],
  "outputs": [
    ${record('"a\\""', 'file', digestOf('a"'), '{"cache_control":"no-cache"}', 'null')},
    ${record('"b"', 'file', digestOf('b'), '{"content_type":"text/plain"}', '"https://x.example/b"')}
  ],
  "pending": {
    "attempt_id": "x",
    "owner": {"pipeline_id":"maps","destination_id":"web"},
    "action": "publish_new",
    "started_at": "${updatedAt}",
    "holder": {"host":"h","pid":7,"boot_id":"b","process":null,"thread":null,"instance_id":"i"},
    "renewals": 5,
    "outputs": [
      ${record('"z"', 'page', digestOf('z'), `{"content_type":"text/html","generator":${JSON.stringify(generator)}}`, 'null')}
    ],
    "removes": [
      "old",
      "é"
    ]
  }
}
`,
  );
  t.equal(
    serialiseCatalog(empty).toString(),
    `{\n  "schema_version": 4,\n  "generation": 1,\n  "updated_at": "${updatedAt}",\n  "outputs": [],\n  "pending": null\n}\n`,
  );
  const ended = { ...catalog, pending: catalog.pending && { ...catalog.pending, holder: null } };
  t.match(serialiseCatalog(ended).toString(), /\n {4}"holder": null,\n/);
});

t.test('has the announced number of bytes for any chunk boundaries', async (t) => {
  for (let count = 240; count <= 256; count += 1) {
    const paths = Array.from({ length: count }, (_, index) => `f${1000 + index}`);
    const catalog = { ...empty, outputs: paths.map((path) => output(path)) };
    const body = catalogBody(catalog);
    const chunks: Uint8Array[] = [];
    for await (const chunk of body.open()) chunks.push(chunk);
    const bytes = Buffer.concat(chunks);
    t.equal(bytes.length, body.size, `${count} records`);
    t.equal(readCanonical(bytes, sourceBackends)?.outputs.length, count);
  }
});

t.test('limits a catalog to 512 MiB, and to 256 MiB if it must be in memory', async (t) => {
  t.equal(maxCatalogBytesFor(1), maxCatalogBytes);
  t.equal(maxCatalogBytesFor(maxPieceBytes), maxCatalogBytes);
  t.equal(maxCatalogBytesFor(maxPieceBytes + 1), maxWholeCatalogBytes);
  const error = catalogTooLarge('here', 300 * mebibyte + 1, 256 * mebibyte);
  t.match(error, {
    code: 'catalog_too_large',
    message: /^here: .* 301 MiB, more than the maximum of 256 MiB;/,
  });
});

t.test('does not write a catalog beyond the limit', async (t) => {
  const outputs = longOnes(512, 1);
  t.ok(catalogBody({ ...empty, outputs: outputs.slice(1) }).size > 511 * mebibyte);
  t.throws(() => catalogBody({ ...empty, outputs }), { code: 'catalog_too_large' });
});

t.test('one long record leads to the lower limit', async (t) => {
  const outputs = [...longOnes(4, 66), output('z')];
  t.throws(() => catalogBody({ ...empty, outputs }), { code: 'catalog_too_large' });
});

/** Records that are longer than this many mebibytes. */
function longOnes(count: number, mebibytes: number): OutputRecord[] {
  const kind = 'k'.repeat(mebibytes * mebibyte);
  return Array.from({ length: count }, (_, at) => output(`a${at}`, { kind }));
}

function output(path: string, more: Partial<OutputRecord> = {}): OutputRecord {
  return {
    path: path as RelativePath,
    owner,
    source,
    kind: 'file',
    digest: digestOf(path),
    size: 1,
    updatedAt,
    generated: plain,
    url: null,
    ...more,
  };
}
