import { createHash } from 'node:crypto';
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import t from 'tap';
import {
  openStagedBundle,
  stageUpload,
  stagingFailure,
  type StagedBundle,
} from '../../../src/core/bundle/staging.ts';
import { validateBundle } from '../../../src/core/bundle/validate.ts';
import { asWaybillError, type ErrorCode, type WaybillError } from '../../../src/core/errors.ts';
import { sceneMapText } from '../../fixtures/scene-map.ts';
import {
  bundleTar,
  endMarker,
  gnuLongName,
  inChunks,
  manifestOf,
  pax,
  rawEntry,
  tar,
  type RawEntry,
} from '../../fixtures/tar.ts';

const limits = { maxUploadSize: 2 ** 20, maxFiles: 10 };
const root = t.testdir({});
let count = 0;

interface Staging {
  directory: string;
  staged: StagedBundle | undefined;
  error: WaybillError | undefined;
}

async function stage(
  archive: Buffer | AsyncIterable<Uint8Array>,
  options: { chunk?: number; limits?: typeof limits; signal?: AbortSignal } = {},
): Promise<Staging> {
  count += 1;
  const directory = path.join(root, `upload-${count}`);
  const input = Buffer.isBuffer(archive) ? inChunks(archive, options.chunk) : archive;
  const signal = options.signal ?? new AbortController().signal;
  try {
    const staged = await stageUpload({
      input,
      directory,
      limits: options.limits ?? limits,
      signal,
      pipelineId: 'maps',
    });
    return { directory, staged, error: undefined };
  } catch (error) {
    return { directory, staged: undefined, error: asWaybillError(error) };
  }
}

const manifest = (...files: unknown[]): RawEntry => ({ path: 'manifest.json', body: manifestOf(files) });
const file = (name: string, body = 'x'): RawEntry => ({ path: name, body });
const sha = (text: string): string => `sha256:${createHash('sha256').update(text).digest('hex')}`;
const long = (length: number): string => 'a/'.repeat(length / 2 - 1).slice(0, length - 1) + 'b';

t.test('a tar and a tar.gz are staged, in chunks of any size, and open as the same bundle', async (t) => {
  const files = {
    'maps/scènes.json': sceneMapText,
    'notes/readme.txt': 'hello',
    empty: '',
  };
  const archive = bundleTar(files, {
    name: 'session-42',
    files: [{ path: 'maps/scènes.json', kind: 'scene_map' }, 'notes/readme.txt', 'empty'],
  });
  for (const bytes of [
    archive,
    gzipSync(archive),
    Buffer.concat([gzipSync(archive.subarray(0, 700)), gzipSync(archive.subarray(700))]),
  ]) {
    for (const chunk of [1, 511, 512, 513, 65_536]) {
      const { staged, directory, error } = await stage(bytes, { chunk });
      t.equal(error, undefined);
      t.match(staged, { directory, bundlePath: 'session-42', files: 3, bytes: sceneMapText.length + 5 });
      const bundle = await openStagedBundle(directory, 'maps', 'session-42');
      t.match(bundle, {
        identity: { backend: 'http_upload', id: 'maps', path: 'session-42' },
        warnings: [],
      });
      t.same(
        bundle.files.map(({ path, size, digest }) => ({ path, size, digest })),
        Object.entries(files).map(([name, text]) => ({
          path: name,
          size: Buffer.byteLength(text),
          digest: sha(text),
        })),
      );
      t.same(await validateBundle(bundle), []);
    }
  }
});

t.test('modes and owners of the archive are ignored', async (t) => {
  const { directory } = await stage(
    tar(manifest('d/f'), { path: 'd/', type: '5', mode: 0o777 }, { ...file('d/f'), mode: 0o6777, uid: 0 }),
  );
  t.equal(statSync(path.join(directory, 'files/d')).mode & 0o7777, 0o700);
  t.equal(statSync(path.join(directory, 'files/d/f')).mode & 0o7777, 0o600);
});

t.test('archives as common programs write them', async (t) => {
  const name = `${'deep/'.repeat(30)}${'ä'.repeat(60)}.txt`;
  const archives: Record<string, Buffer> = {
    'dot slash, as tar -C directory . writes it': tar(
      { path: './', type: '5' },
      { ...manifest('a/b'), path: './manifest.json' },
      { path: './a/', type: '5' },
      file('./a/b'),
    ),
    'the manifest last': tar(file('a/b'), manifest('a/b')),
    'a directory twice': tar(
      manifest('a/b'),
      { path: 'a/', type: '5' },
      { path: 'a/', type: '5' },
      file('a/b'),
    ),
    'a directory without a slash': tar(manifest('a/b'), { path: 'a', type: '5' }, file('a/b')),
    'old tar: NUL type': tar(manifest('a/b'), { ...file('a/b'), type: '\0' }),
    'a pax path': tar(
      manifest(name),
      pax({ path: name, mtime: '1.5', 'SCHILY.xattr.user.x': Buffer.from([0xff, 0]) }),
      file('short'),
    ),
    'a pax size': tar(
      manifest('a'),
      pax({ size: '5' }),
      Buffer.concat([rawEntry({ path: 'a', size: 0 }), rawEntry({ path: 'x' }).fill(0).fill('hello', 0, 5)]),
    ),
    'a GNU long name': tar(manifest(name), gnuLongName(name), file('short')),
    'a ustar prefix': tar(manifest('some/prefix/b'), { ...file('b'), prefix: 'some/prefix' }),
    'a global header with a comment, as git archive writes it': tar(
      pax({ comment: 'abc' }, 'g'),
      manifest('a'),
      file('a'),
    ),
    'padding to ten KiB': Buffer.concat([tar(manifest('a'), file('a')), Buffer.alloc(10_240)]),
    'directories that differ in case': tar(manifest('A/x', 'a/y'), file('A/x'), file('a/y')),
  };
  for (const [what, archive] of Object.entries(archives))
    for (const chunk of [7, 65_536])
      t.match(await stage(archive, { chunk }), { error: undefined, staged: { files: /^[12]$/ } }, what);
});

function wrongChecksum(gzip: Buffer): Buffer {
  return Buffer.from(gzip).fill(0, gzip.length - 8, gzip.length - 4);
}

const hostile: Record<string, [code: ErrorCode, archive: Buffer]> = {
  'nothing at all': ['malformed_archive', Buffer.alloc(0)],
  'text instead of an archive': ['malformed_archive', Buffer.from('hello '.repeat(200))],
  'a ZIP file': ['malformed_archive', Buffer.from('PK\u0003\u0004'.padEnd(1000, 'x'))],
  'a gzip of no tar': ['malformed_archive', gzipSync('hello '.repeat(200))],
  'a gzip of nothing': ['malformed_archive', gzipSync('')],
  'a gzip of a gzip': ['malformed_archive', gzipSync(gzipSync(bundleTar({ a: 'x' })))],
  'garbage after the gzip data': [
    'malformed_archive',
    Buffer.concat([gzipSync(bundleTar({ a: 'x' })), Buffer.from('garbage')]),
  ],
  'zeros after the gzip data': [
    'malformed_archive',
    Buffer.concat([gzipSync(bundleTar({ a: 'x' })), Buffer.alloc(100_000)]),
  ],
  'a wrong gzip checksum': ['malformed_archive', wrongChecksum(gzipSync(bundleTar({ a: 'x' })))],
  'garbage after the end of the archive': [
    'malformed_archive',
    Buffer.concat([bundleTar({ a: 'x' }), Buffer.from('garbage')]),
  ],
  'a second archive after the first': [
    'malformed_archive',
    Buffer.concat([bundleTar({ a: 'x' }), bundleTar({ a: 'y' })]),
  ],
  'no end marker': ['malformed_archive', tar(manifest('a'), file('a')).subarray(0, -1024)],
  'half an end marker': ['malformed_archive', tar(manifest('a'), file('a')).subarray(0, -512)],
  'a zero block between entries': ['malformed_archive', tar(manifest('a'), Buffer.alloc(512), file('a'))],
  'a wrong header checksum': ['malformed_archive', tar(manifest('a'), { ...file('a'), badChecksum: true })],
  'a size that is no number': [
    'malformed_archive',
    tar(manifest('a'), { ...file('a'), rawSize: Buffer.from('zzzzzzzzzzz\0') }),
  ],
  'a negative size': [
    'malformed_archive',
    tar(manifest('a'), { ...file('a'), rawSize: Buffer.alloc(12, 0xff) }),
  ],
  'a size beyond all numbers': [
    'malformed_archive',
    tar(manifest('a'), {
      ...file('a'),
      rawSize: Buffer.concat([Buffer.from([0x80]), Buffer.alloc(11, 0xff)]),
    }),
  ],
  'a size that is not there': ['upload_too_large', tar(manifest('a'), { ...file('a'), size: 2 ** 30 })],
  'a pax record with a wrong length': [
    'malformed_archive',
    tar(manifest('a'), { path: 'p', type: 'x', body: '99 path=b\n' }, file('a')),
  ],
  'a pax record without an end': [
    'malformed_archive',
    tar(manifest('a'), { path: 'p', type: 'x', body: '9 path=b' }, file('a')),
  ],
  'a pax size that is no number': ['malformed_archive', tar(manifest('a'), pax({ size: '1e3' }), file('a'))],
  'a global path for all files': [
    'malformed_archive',
    tar(pax({ path: 'a' }, 'g'), manifest('a'), file('a')),
  ],
  'a pax header with nothing after it': [
    'malformed_archive',
    tar(manifest('a'), file('a'), pax({ path: 'b' })),
  ],
  'a huge pax header': ['malformed_archive', tar({ path: 'p', type: 'x', size: 2 ** 21 }, manifest('a'))],
  'endless pax headers': [
    'malformed_archive',
    tar(...Array.from({ length: 9 }, () => pax({ comment: 'x' })), manifest('a'), file('a')),
  ],
  'two names for one file': [
    'malformed_archive',
    tar(manifest('a'), gnuLongName('a'), pax({ path: 'b' }), file('c')),
  ],
  'a symbolic link': [
    'unsafe_archive_entry',
    tar(manifest('a'), { path: 'a', type: '2', linkpath: '/etc/passwd' }),
  ],
  'a symbolic link and a file through it': [
    'unsafe_archive_entry',
    tar(manifest('d/a'), { path: 'd', type: '2', linkpath: '/tmp' }, file('d/a')),
  ],
  'a hard link': [
    'unsafe_archive_entry',
    tar(manifest('a', 'b'), file('a'), { path: 'b', type: '1', linkpath: 'a' }),
  ],
  'a file that is also a link': ['unsafe_archive_entry', tar(manifest('a'), { ...file('a'), linkpath: 'b' })],
  'a character device': ['unsafe_archive_entry', tar(manifest('a'), { path: 'a', type: '3' })],
  'a block device': ['unsafe_archive_entry', tar(manifest('a'), { path: 'a', type: '4' })],
  'a named pipe': ['unsafe_archive_entry', tar(manifest('a'), { path: 'a', type: '6' })],
  'a contiguous file': ['unsafe_archive_entry', tar(manifest('a'), { ...file('a'), type: '7' })],
  'an old GNU sparse file': ['unsafe_archive_entry', tar(manifest('a'), { ...file('a'), type: 'S' })],
  'a pax sparse file': [
    'unsafe_archive_entry',
    tar(manifest('a'), pax({ 'GNU.sparse.major': '1', 'GNU.sparse.name': 'a' }), file('GNUSparseFile.1/a')),
  ],
  'an unknown type': ['unsafe_archive_entry', tar(manifest('a'), { ...file('a'), type: 'Q' })],
  'a path up and out': ['unsafe_archive_entry', tar(manifest('a'), file('a'), file('../evil'))],
  'a path up in the middle': ['unsafe_archive_entry', tar(manifest('a'), file('a'), file('x/../../evil'))],
  'a directory up': ['unsafe_archive_entry', tar(manifest('a'), { path: '../', type: '5' }, file('a'))],
  'an absolute path': ['unsafe_archive_entry', tar(manifest('a'), file('/tmp/evil'))],
  'an absolute path by pax': [
    'unsafe_archive_entry',
    tar(manifest('a'), pax({ path: '/tmp/evil' }), file('a')),
  ],
  'a path with a backslash': ['unsafe_archive_entry', tar(manifest('a'), file('..\\evil'))],
  'a path with a line break': ['unsafe_archive_entry', tar(manifest('a'), pax({ path: 'a\nb' }), file('a'))],
  'a pax path with a NUL': ['unsafe_archive_entry', tar(manifest('a'), pax({ path: 'a\0b' }), file('a'))],
  'a path that is not UTF-8': [
    'unsafe_archive_entry',
    tar(manifest('a'), { path: Buffer.from([0x61, 0xff]), body: 'x' }),
  ],
  'a path of another normal form': ['unsafe_archive_entry', tar(manifest('a'), file('a\u0308'))],
  'a path with an empty segment': ['unsafe_archive_entry', tar(manifest('a'), file('a//b'))],
  'a file whose path is a dot': ['unsafe_archive_entry', tar(manifest('a'), file('.'))],
  'a segment that is too long': [
    'unsafe_archive_entry',
    tar(manifest('a'), gnuLongName('x'.repeat(256)), file('a')),
  ],
  'a path that is too long': [
    'unsafe_archive_entry',
    tar(manifest('a'), gnuLongName(`${'x'.repeat(200)}/`.repeat(6) + 'y'), file('a')),
  ],
  'a path that is too deep': ['unsafe_archive_entry', tar(manifest('a'), gnuLongName(long(200)), file('a'))],
  'a name of the publisher': ['unsafe_archive_entry', tar(manifest('a'), file('a'), file('.Publisher.json'))],
  'a file twice': ['unsafe_archive_entry', tar(manifest('a'), file('a'), file('a', 'y'))],
  'files that differ in case': ['unsafe_archive_entry', tar(manifest('a'), file('a'), file('A'))],
  'a file where a directory is': ['unsafe_archive_entry', tar(manifest('a/b'), file('a/b'), file('A'))],
  'a directory where a file is': [
    'unsafe_archive_entry',
    tar(manifest('a'), file('a'), { path: 'a/', type: '5' }),
  ],
  'a file below a file': ['unsafe_archive_entry', tar(manifest('a'), file('a'), file('A/b'))],
  'no manifest': ['invalid_bundle', tar(file('a'))],
  'an archive without entries': ['invalid_bundle', endMarker],
  'a manifest in a directory': [
    'invalid_bundle',
    tar(file('bundle/a'), { ...manifest('a'), path: 'bundle/manifest.json' }),
  ],
  'two manifests': ['invalid_bundle', tar(manifest('a'), file('a'), manifest('a'))],
  'two manifests, one with a dot': [
    'invalid_bundle',
    tar(manifest('a'), file('a'), { ...manifest('a'), path: './manifest.json' }),
  ],
  'two manifests that differ in case': [
    'invalid_bundle',
    tar(manifest('a'), file('a'), { ...manifest('a'), path: 'MANIFEST.json' }),
  ],
  'an invalid manifest': ['invalid_bundle', tar({ path: 'manifest.json', body: '{' }, file('a'))],
  'a file missing': ['invalid_bundle', tar(manifest('a', 'b'), file('a'))],
  'a wrong size': ['invalid_bundle', tar(manifest({ path: 'a', size: 2 }), file('a'))],
  'a wrong digest': ['invalid_bundle', tar(manifest({ path: 'a', digest: sha('y') }), file('a'))],
  'a scene map that is none': [
    'invalid_bundle',
    tar(manifest({ path: 'a', kind: 'scene_map' }), file('a', '{"artifact_type":"other"}')),
  ],
  'too many files': [
    'too_many_files',
    tar(manifest('f0'), ...Array.from({ length: 11 }, (_, n) => file(`f${n}`))),
  ],
  'too many directories': [
    'too_many_files',
    tar(manifest('a'), ...Array.from({ length: 200 }, (_, n) => ({ path: `d${n}/`, type: '5' }))),
  ],
  'an archive that is too large': ['upload_too_large', tar(manifest('a'), file('a', 'x'.repeat(2 ** 20)))],
  'content that is too large': [
    'upload_too_large',
    gzipSync(tar(manifest('a'), file('a', 'x'.repeat(2 ** 20)))),
  ],
};

for (const [what, [code, archive]] of Object.entries(hostile)) {
  t.test(`refused: ${what}`, async (t) => {
    for (const chunk of [97, 65_536]) {
      const { error, directory } = await stage(archive, { chunk });
      t.equal(error?.code, code, error?.message ?? 'was not refused');
      t.ok(error?.hint, 'says what to do');
      t.notOk(error?.message.includes(root), 'names no path of the host');
      t.notOk(existsSync(directory), 'the staging directory is gone');
    }
  });
}

t.test('a bomb is stopped on its way, whatever the size limit', async (t) => {
  const padded = Buffer.concat([
    rawEntry(manifest('a')),
    rawEntry({ path: 'a', body: Buffer.alloc(20 * 2 ** 20) }),
    endMarker,
  ]);
  const { error, directory } = await stage(gzipSync(padded), {
    limits: { maxUploadSize: 2 ** 30, maxFiles: 10 },
  });
  t.equal(error?.code, 'archive_bomb');
  t.notOk(existsSync(directory));
});

t.test('an archive cut at any byte is malformed, plain or compressed', async (t) => {
  const archive = bundleTar({ 'a/b': 'hello', c: 'x'.repeat(600) });
  const compressed = gzipSync(archive);
  for (let end = 0; end < archive.length; end += 37)
    t.equal((await stage(archive.subarray(0, end))).error?.code, 'malformed_archive', `tar at ${end}`);
  for (let end = 0; end < compressed.length; end += 1)
    t.equal((await stage(compressed.subarray(0, end))).error?.code, 'malformed_archive', `gzip at ${end}`);
  t.same(
    readdirSync(root).filter(
      (name) => name.startsWith('upload-') && readdirSync(path.join(root, name)).length === 0,
    ),
    [],
  );
});

t.test(
  'damage anywhere never crashes, never leaves a directory behind, and never gives other bytes (property)',
  async () => {
    const archive = bundleTar({ 'a/b': 'hello', c: 'x'.repeat(600) });
    await fc.assert(
      fc.asyncProperty(
        fc.nat(archive.length - 1),
        fc.integer({ min: 1, max: 255 }),
        fc.boolean(),
        async (at, flip, isCompressed) => {
          const bytes = Buffer.from(isCompressed ? gzipSync(archive) : archive);
          bytes[at % bytes.length] = (bytes[at % bytes.length] ?? 0) ^ flip;
          const { error, directory, staged } = await stage(bytes, { chunk: 100 });
          if (error !== undefined) return error.code !== 'internal_error' && !existsSync(directory);
          return staged !== undefined;
        },
      ),
      { numRuns: 400 },
    );
  },
);

t.test('files that are not listed are named in a warning and are no part of the bundle', async (t) => {
  const { directory } = await stage(tar(manifest('a'), file('a'), file('extra')));
  const bundle = await openStagedBundle(directory, 'maps', 'x');
  t.match(bundle.warnings, [{ code: 'unlisted_files', message: /1 file is not in the manifest.*"extra"/ }]);
  t.same(
    bundle.files.map(({ path }) => path),
    ['a'],
  );
});

t.test('an abort ends the staging at once, even while the input is silent', async (t) => {
  const controller = new AbortController();
  let closed = false;
  async function* silent(): AsyncGenerator<Uint8Array> {
    try {
      yield bundleTar({ a: 'x' }).subarray(0, 600);
      controller.abort(new Error('enough'));
      await new Promise((resolve) => setImmediate(resolve));
      yield Buffer.alloc(0);
    } finally {
      closed = true;
    }
  }
  const { error, directory } = await stage(silent(), { signal: controller.signal });
  t.match(error, { code: 'aborted' });
  t.notOk(existsSync(directory));
  await new Promise((resolve) => setImmediate(resolve));
  await new Promise((resolve) => setImmediate(resolve));
  t.ok(closed, 'the input was told to close');
});

t.test('an error of the input passes as it is', async (t) => {
  async function* failing(bytes: Buffer): AsyncGenerator<Uint8Array> {
    yield bytes;
    throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
  }
  for (const bytes of [
    bundleTar({ a: 'x' }).subarray(0, 700),
    gzipSync(bundleTar({ a: 'x' })).subarray(0, 40),
  ])
    t.match((await stage(failing(bytes))).error, { message: 'read ECONNRESET' });
});

t.test('a full disk is told as such', async (t) => {
  for (const code of ['ENOSPC', 'EDQUOT'])
    t.match(stagingFailure(Object.assign(new Error(code), { code })), { code: 'insufficient_storage' });
  const other = new Error('other');
  t.equal(stagingFailure(other), other);
});

t.test('a staged bundle that was swept is told as such', async (t) => {
  await t.rejects(openStagedBundle(path.join(root, 'nowhere'), 'maps', 'x'), { code: 'bundle_not_found' });
});

t.test('a large file streams through with its digest', async (t) => {
  const body = Buffer.alloc(3 * 2 ** 20 + 5, 'waybill');
  const archive = tar(
    manifest({
      path: 'big',
      size: body.length,
      digest: `sha256:${createHash('sha256').update(body).digest('hex')}`,
    }),
    { path: 'big', body },
  );
  const { staged, directory } = await stage(archive, { limits: { maxUploadSize: 8 * 2 ** 20, maxFiles: 1 } });
  t.equal(staged?.bytes, body.length);
  t.ok(readFileSync(path.join(directory, 'files/big')).equals(body));
});
