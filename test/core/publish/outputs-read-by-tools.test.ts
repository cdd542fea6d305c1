import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import t from 'tap';
import { stageUpload } from '../../../src/core/bundle/stage-upload.ts';
import { digestOf, hexOf } from '../../../src/core/lib/digest.ts';
import { planOutputs } from '../../../src/core/publish/outputs.ts';
import { inChunks } from '../../fixtures/tar.ts';
import { bundleOf, bytesOf, everything, find, nothing, options } from '../../support/outputs.ts';

t.test('SHA256SUMS passes sha256sum -c for all other files', async (t) => {
  const bundle = await bundleOf({ 'a/ü b.txt': 'hello', ' lead': 'x', '*star': 'y' });
  const planned = await planOutputs(bundle, options(everything));
  const root = t.testdir({});
  for (const output of planned) {
    mkdirSync(path.dirname(path.join(root, output.path)), { recursive: true });
    writeFileSync(path.join(root, output.path), await bytesOf(output));
  }
  const said = execFileSync('sha256sum', ['--strict', '-c', 'SHA256SUMS'], { cwd: root, encoding: 'utf8' });
  t.equal(said.match(/: OK$/gm)?.length, planned.length - 1);
  t.match((await bytesOf(find(planned, 'SHA256SUMS'))).toString(), `${hexOf(digestOf('x'))}   lead\n`);
});

t.test(
  'tar reads the archive, waybill accepts it as an upload, and it never depends on order or chunks',
  async (t) => {
    const name = `${'long/'.repeat(40)}${'ä'.repeat(100)}.txt`;
    const files = { b: 'B', [name]: 'deep', 'a.bin': Buffer.alloc(300_001, 'x y z') };
    const bundle = await bundleOf(files, { files: Object.keys(files), name: 'n/m' });
    const archive = find(await planOutputs(bundle, options({ ...nothing, archive: true })), '42.tar.gz');
    const bytes = await bytesOf(archive);
    const root = t.testdir({});
    writeFileSync(path.join(root, 'a.tar.gz'), bytes);
    const listing = execFileSync(
      'tar',
      ['--numeric-owner', '--utc', '--quoting-style=literal', '-tvzf', 'a.tar.gz'],
      { cwd: root, encoding: 'utf8' },
    )
      .trim()
      .split('\n');
    t.same(
      listing.map((line) =>
        line.replace(/\s+/g, ' ').split(' ').slice(0, 5).join(' ').replace(/ \d+ /, ' N '),
      ),
      Array.from({ length: 4 }, () => '-rw-r--r-- 0/0 N 2026-11-20 01:02'),
    );
    t.same(
      listing.map((line) => line.slice(line.lastIndexOf(' ') + 1)),
      ['manifest.json', 'a.bin', 'b', name],
    );
    const staged = await stageUpload({
      input: inChunks(bytes),
      directory: path.join(root, 'staged'),
      limits: { maxUploadSize: 2 ** 24, maxFiles: 10 },
      signal: new AbortController().signal,
    });
    t.equal(staged.files, bundle.files.length);

    const rechunked = {
      ...bundle,
      files: [...bundle.files]
        .reverse()
        .map((file) => ({ ...file, body: { size: file.size, open: () => small(file.body.open()) } })),
    };
    const [again] = await planOutputs(rechunked, options({ ...nothing, archive: true }));
    t.equal(again?.digest, archive.digest);
    t.ok(gunzipSync(bytes).length % 512 === 0);
  },
);

async function* small(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) yield* inChunks(Buffer.from(chunk), 1009);
}
