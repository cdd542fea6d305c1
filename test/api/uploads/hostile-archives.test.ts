import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import t from 'tap';
import { reasonOf } from '../../../scripts/hostile-archives.ts';
import { statusOf } from '../../../src/api/http/answer/error-status.ts';
import { stageUpload } from '../../../src/core/bundle/stage-upload.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import { hostileArchives, hostileLimits } from '../../fixtures/hostile-archives.ts';
import { bundleTar } from '../../fixtures/tar.ts';
import { type Api, startApi, tokens, upload, uploadForm } from '../harness.ts';
import { begin, send } from '../resumable/tus.ts';

const [, ...sections] = readFileSync('docs/design/hostile-archives.md', 'utf8').split(/^## /m);
const rows = new Map(
  sections.flatMap((section) => {
    const [, status, code] = /^(\d+) `(\w+)`/.exec(section) ?? [];
    const [, , ...cells] = [...section.matchAll(/^\| (.*?) \| (.*?) \|$/gm)];
    return cells.flatMap(([, reason = '', names = '']) =>
      plain(names)
        .split('; ')
        .map((name) => [name, { status: Number(status), code, reason: plain(reason) }] as const),
    );
  }),
);

/** Removes the Markdown escapes. */
function plain(text: string): string {
  return text.replaceAll(/\\(.)/g, '$1');
}

function post({ origin }: Api, archive: Buffer, type: string): Promise<Response> {
  return fetch(`${origin}/v1/pipelines/maps/upload`, {
    method: 'POST',
    headers: { authorization: `Bearer ${tokens.maps}`, 'content-type': type },
    // A stream has no Content-Length, so the daemon has to check the bytes.
    body: new Blob([archive]).stream(),
    duplex: 'half',
  });
}

t.test('answers each hostile archive as documented, and leaves nothing in staging', async (t) => {
  const api = await startApi(t, { stage: stageUpload, maxUploadSize: hostileLimits.maxUploadSize });
  t.same([...rows.keys()].sort(), Object.keys(hostileArchives).map(plain).sort());
  for (const [name, [code, archive]] of Object.entries(hostileArchives))
    await t.test(name, async (t) => {
      const isGzip = archive[0] === 0x1f;
      // The daemon ignores the declared type and detects the format from the bytes.
      for (const type of [
        isGzip ? 'application/gzip' : 'application/x-tar',
        isGzip ? 'application/x-tar' : 'application/x-gzip',
      ]) {
        const response = await post(api, archive, type);
        const answer = (await response.json()) as Record<string, unknown>;
        t.equal(response.status, statusOf[code]);
        t.equal(response.headers.get('content-type'), 'application/problem+json');
        t.match(answer, { code, status: statusOf[code], instance: /^urn:uuid:/ });
        const row = rows.get(name);
        t.same({ status: row?.status, code: row?.code }, { status: response.status, code });
        t.equal(reasonOf(String(answer['detail'])).replaceAll(/\s*\n\s*/g, ' '), row?.reason);
        t.same(await api.staged(), [], 'staging is empty');
      }
    });
  t.equal((await api.ports.queue.depth()).queued, 0, 'no run is queued');
  t.equal((await fetch(`${api.origin}/healthz`)).status, 200);
  t.equal(
    (await post(api, bundleTar({ a: 'x' }), 'application/x-tar')).status,
    202,
    'a valid archive is still accepted',
  );
  t.comment(`report: ${rows.size} hostile archives refused; docs/design/hostile-archives.md lists them`);
});

t.test('gives the same answers to form uploads', async (t) => {
  const api = await startApi(t, { stage: stageUpload, maxUploadSize: hostileLimits.maxUploadSize });
  for (const [name, [code, archive]] of Object.entries(hostileArchives)) {
    const response = await uploadForm(api.origin, { body: archive });
    t.match(await response.json(), { code }, name);
  }
  t.same(await api.staged(), []);
});

t.test('gives the same answers to resumable uploads', async (t) => {
  const api = await startApi(t, { stage: stageUpload, maxUploadSize: hostileLimits.maxUploadSize });
  for (const [name, [code, archive]] of Object.entries(hostileArchives)) {
    // An empty upload cannot be started.
    if (archive.length === 0) continue;
    const bytes = new Uint8Array(archive);
    // Oversized archives are rejected by size, before their content is examined.
    const url = await begin(api.origin, bytes.length > hostileLimits.maxUploadSize ? null : bytes.length);
    const half = bytes.length >> 1;
    await (await send(url, 0, bytes.subarray(0, half))).text();
    t.match(await (await send(url, half, bytes.subarray(half))).json(), { code }, name);
  }
  t.same(await api.staged(), []);
});

t.test('gives the same answers to archives that omit stored files', async (t) => {
  const { maxUploadSize } = hostileLimits;
  const api = await startApi(t, { keep: {}, maxUploadSize });
  for (const [name, [code, archive]] of Object.entries(hostileArchives)) {
    if (archive.length === 0) continue;
    // Without readable content, each is rejected earlier for another reason.
    const headers = { 'waybill-partial': digestOf(firstManifest(archive)) };
    const plainly = await upload(api.origin, { body: archive, headers });
    t.match(await plainly.json(), { code }, name);
    const bytes = new Uint8Array(archive);
    const url = await begin(api.origin, bytes.length > maxUploadSize ? null : bytes.length, { headers });
    t.match(await (await send(url, 0, bytes)).json(), { code }, `${name}, in several requests`);
  }
  t.same(await api.staged(), []);
  t.same(
    api.ports.uploads.content.missing('maps', [digestOf('x')]),
    [digestOf('x')],
    'and none of it is stored',
  );
});

/** Returns the bytes of the first `manifest.json` of a tar, with a naive parser. */
function firstManifest(archive: Buffer): Buffer {
  const bytes = archive[0] === 0x1f ? unzipped(archive) : archive;
  for (let at = 0; at + 512 <= bytes.length;) {
    const name = bytes.toString('latin1', at, at + 100).replace(/\0.*$/s, '');
    const size = Number.parseInt(bytes.toString('latin1', at + 124, at + 136), 8);
    if (!Number.isSafeInteger(size) || size < 0) break;
    if (/^(?:\.\/)*manifest\.json$/i.test(name)) return bytes.subarray(at + 512, at + 512 + size);
    at += 512 + Math.ceil(size / 512) * 512;
  }
  return Buffer.alloc(0);
}

function unzipped(archive: Buffer): Buffer {
  try {
    return gunzipSync(archive);
  } catch {
    return Buffer.alloc(0);
  }
}
