import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { type Digest, digestOf, hexOf } from '../../../src/core/lib/digest.ts';
import { manifestOf, tar } from '../../fixtures/tar.ts';
import { type Api, startApi, tokens, upload, uploadForm, type UploadOptions } from '../harness.ts';
import { begin, send } from '../resumable/tus.ts';

/** Archives without the files that the daemon has stored: missing files, completed bundles, and refusals. */

const files = { 'a.txt': 'A', 'sub/b.txt': 'B', 'sub/c.txt': 'C' };

/** A manifest of these files, each with digest and size. */
function manifest(content: Record<string, string>, more: Record<string, unknown> = {}): string {
  const listed = Object.entries(content).map(([name, body]) => ({
    path: name,
    size: Buffer.byteLength(body),
    digest: digestOf(body),
  }));
  return manifestOf(listed, { name: 'site', ...more });
}

/** An archive with the manifest, and only the files in `names`. Without `names`, all files. */
function archive(text: string, content: Record<string, string>, names = Object.keys(content)): Buffer {
  return tar(
    { path: 'manifest.json', body: text },
    ...names.map((name) => ({ path: name, body: content[name] ?? '' })),
  );
}

const whole = (content: Record<string, string>): Buffer => archive(manifest(content), content);
const named = (text: string): Record<string, string> => ({ 'waybill-partial': digestOf(text) });
const noFile = { code: 'file_missing', message: 'is neither in the archive nor kept here' };

async function missing(
  { origin }: Api,
  text: string,
  { pipeline = 'maps', token = tokens.maps }: { pipeline?: string; token?: string } = {},
): Promise<unknown> {
  const response = await fetch(`${origin}/v1/pipelines/${pipeline}/missing`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: text,
  });
  return response.json();
}

type Way = (api: Api, body: Buffer, options?: Pick<UploadOptions, 'headers'>) => Promise<Response>;

const ways: Record<string, Way> = {
  plain: ({ origin }, body, options) => upload(origin, { body, ...options }),
  form: ({ origin }, body, options) => uploadForm(origin, { body, ...options }),
  resumable: async ({ origin }, body, { headers = {} } = {}) =>
    send(await begin(origin, body.length, { headers }), 0, new Uint8Array(body)),
};

for (const [name, way] of Object.entries(ways))
  t.test(`completes an archive that omits stored files (${name})`, async (t) => {
    const api = await startApi(t, { keep: {}, maxUploadSize: 10_000 });
    const first = manifest(files);
    t.same(await missing(api, first), {
      manifest: digestOf(first),
      missing: [digestOf('A'), digestOf('B'), digestOf('C')],
    });
    t.ok((await way(api, whole(files))).ok);
    t.match(await missing(api, first), { missing: { length: 0 } });

    const next = { 'a.txt': 'A', 'sub/b.txt': 'changed', 'moved/c.txt': 'C', 'again/c.txt': 'C' };
    const second = manifest(next, { name: 'next' });
    t.match(await missing(api, second), { missing: [digestOf('changed')] });
    const before = new Set(readdirSync(api.stagingDirectory));
    const partial = archive(second, next, ['sub/b.txt']);
    t.ok((await way(api, partial, { headers: named(second) })).ok);
    const [made = ''] = readdirSync(api.stagingDirectory).filter((one) => !before.has(one));
    const root = path.join(api.stagingDirectory, made, 'files');
    for (const [file, body] of Object.entries(next))
      t.equal(readFileSync(path.join(root, file), 'utf8'), body, file);
    t.equal(readFileSync(path.join(root, 'manifest.json'), 'utf8'), second);
    const { files: facts } = JSON.parse(
      readFileSync(path.join(api.stagingDirectory, made, 'staged.json'), 'utf8'),
    ) as { files: unknown[] };
    t.same(
      facts,
      Object.values(next).map((body) => ({ size: body.length, digest: digestOf(body) })),
      'as if all files had been sent',
    );
    t.match(await missing(api, second), { missing: { length: 0 } }, 'its own files are stored, too');
  });

for (const [name, way] of Object.entries(ways))
  t.test(`names missing and changed files, and keeps the uploaded ones (${name})`, async (t) => {
    const api = await startApi(t, { keep: {}, maxUploadSize: 10_000 });
    t.ok((await way(api, whole(files))).ok);
    const next = { ...files, new1: '1', new2: '2' };
    const text = manifest(next);
    writeFileSync(kept(api, digestOf('B')), 'b');
    const before = readdirSync(api.stagingDirectory);
    const refused = await way(api, archive(text, next, ['new1']), { headers: named(text) });
    t.equal(refused.status, 409);
    const body = (await refused.json()) as { findings: unknown[] };
    t.match(body, {
      code: 'files_missing',
      retryable: false,
      findings: [
        { file: 'sub/b.txt', pointer: '/files/1', ...noFile },
        { file: 'new2', pointer: '/files/4', ...noFile },
      ],
    });
    t.equal(body.findings.length, 2);
    t.same(readdirSync(api.stagingDirectory), before, 'no files are left');
    t.match(await missing(api, text), { missing: [digestOf('B'), digestOf('2')] });
    const fixedArchive = archive(text, next, ['sub/b.txt', 'new2']);
    t.ok((await way(api, fixedArchive, { headers: named(text) })).ok);
  });

/** The path of a stored file of the pipeline `maps`. */
function kept({ contentDirectory }: Api, digest: Digest): string {
  return path.join(contentDirectory, 'maps', hexOf(digest).slice(0, 2), hexOf(digest));
}

t.test("neither reveals nor uses another pipeline's files", async (t) => {
  const api = await startApi(t, { keep: {}, maxUploadSize: 10_000 });
  t.ok((await upload(api.origin, { body: whole(files) })).ok);
  const text = manifest(files);
  const docs = { pipeline: 'docs', token: tokens.docs };
  const all = Object.values(files).map((body) => digestOf(body));
  t.match(await missing(api, text, docs), { missing: all });
  const stolen = await upload(api.origin, {
    ...docs,
    body: archive(text, files, []),
    headers: named(text),
  });
  t.match(await stolen.json(), { code: 'files_missing', findings: all.map(() => noFile) });
  t.match(await missing(api, text), { missing: { length: 0 } }, 'its own pipeline has them');
});

t.test('applies all archive and bundle rules to completed bundles', async (t) => {
  const api = await startApi(t, { keep: {}, maxUploadSize: 12_000 });
  const big = 'x'.repeat(4_500);
  t.ok((await upload(api.origin, { body: whole({ ...files, big }) })).ok);
  const send = async (text: string, body: Buffer, headers = named(text)): Promise<unknown> =>
    (await upload(api.origin, { body, headers })).json();
  const only = (text: string): Buffer => archive(text, {}, []);

  const thrice = manifest({ one: big, two: big, three: big });
  t.match(await send(thrice, only(thrice)), { code: 'upload_too_large' }, 'bytes of all files');
  const many = manifest(Object.fromEntries(Array.from({ length: 11 }, (_, index) => [`f${index}`, 'A'])));
  t.match(await send(many, only(many)), { code: 'too_many_files' });

  const below = manifest({ 'a.txt': 'A', 'dir/b': 'B' });
  const inTheWay = tar({ path: 'manifest.json', body: below }, { path: 'dir', body: 'no directory' });
  t.match(await send(below, inTheWay), { code: 'unsafe_archive_entry' }, 'the other files of the archive');
  const folded = manifest({ 'a.txt': 'A' });
  const otherCase = tar({ path: 'manifest.json', body: folded }, { path: 'A.TXT', body: 'other' });
  t.match(await send(folded, otherCase), { code: 'unsafe_archive_entry' });

  const wrongSize = manifestOf([{ path: 'a.txt', size: 2, digest: digestOf('A') }]);
  t.match(await send(wrongSize, only(wrongSize)), { code: 'invalid_bundle', findings: [{ file: 'a.txt' }] });
  const noDigest = manifestOf([{ path: 'a.txt' }]);
  t.match(await send(noDigest, only(noDigest)), {
    code: 'invalid_bundle',
    findings: [{ code: 'file_missing', message: 'is listed in the manifest and is not in the archive' }],
  });
  const map = manifestOf([{ path: 'm.json', kind: 'scene_map', digest: digestOf('A') }]);
  t.match(await send(map, only(map)), { code: 'invalid_bundle' }, 'scene maps are checked');

  const text = manifest(files);
  t.match(await send(text, only(text), named('another')), { code: 'invalid_request' });
  t.match(await send(text, only(text), { 'waybill-partial': 'sha256:1' }), { code: 'invalid_request' });
  t.match(await send(text, only(text), {}), { code: 'invalid_bundle' }, 'without the header, it is complete');
});

t.test('a dry run uses stored files and stores none', async (t) => {
  const api = await startApi(t, { keep: {}, maxUploadSize: 10_000 });
  const text = manifest(files);
  const query = '?dry_run=true';
  t.equal((await upload(api.origin, { body: whole(files), query })).status, 200);
  t.match(await missing(api, text), { missing: [digestOf('A'), digestOf('B'), digestOf('C')] });
  t.ok((await upload(api.origin, { body: whole(files) })).ok);
  const partial = { body: archive(text, files, []), headers: named(text), query };
  t.equal((await upload(api.origin, partial)).status, 200);
});

t.test('reports no missing files if none are stored', async (t) => {
  const api = await startApi(t, { keep: { maxBytes: 0 }, maxUploadSize: 10_000 });
  t.ok((await upload(api.origin, { body: whole(files) })).ok);
  const text = manifest(files);
  t.match(await missing(api, text), { code: 'not_found' });
  const refused = await upload(api.origin, { body: archive(text, files, []), headers: named(text) });
  t.match(await refused.json(), { code: 'files_missing' });
});

t.test(
  'max_files limits the values of a manifest, in an upload and in the list of missing files',
  async (t) => {
    const api = await startApi(t, { keep: {}, maxUploadSize: 8 << 20 });
    const metadata = Object.fromEntries(Array.from({ length: 110_000 }, (_, index) => [`k${index}`, 1]));
    const text = manifest(files, { metadata });
    const refused = { code: 'invalid_bundle', findings: [{ code: 'manifest_too_complex' }] };
    t.match(await missing(api, text), refused);
    t.match(await (await upload(api.origin, { body: archive(text, files) })).json(), refused);
  },
);
