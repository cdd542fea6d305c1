import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import t from 'tap';
import { extractArchive, type Extraction } from '../../../src/core/bundle/extract-archive.ts';
import { parseManifest } from '../../../src/core/bundle/manifest.ts';
import {
  openStagedBundle,
  type StagedBundle,
  stageUpload,
  stagingFailure,
} from '../../../src/core/bundle/stage-upload.ts';
import { validateBundle } from '../../../src/core/bundle/validate-bundle.ts';
import { asWaybillError, type WaybillError } from '../../../src/core/lib/errors.ts';
import {
  file,
  hostileArchives,
  hostileLimits as limits,
  manifest,
  sha,
} from '../../fixtures/hostile-archives.ts';
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
} from '../../fixtures/tar.ts';

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
    });
    return { directory, staged, error: undefined };
  } catch (error) {
    return { directory, staged: undefined, error: asWaybillError(error) };
  }
}

t.test('stages a tar and a tar.gz from chunks of any size, and opens them as the same bundle', async (t) => {
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
        warnings: { length: 0 },
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

t.test('accepts archives of common programs', async (t) => {
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

for (const [what, [code, archive]] of Object.entries(hostileArchives)) {
  t.test(`rejected: ${what}`, async (t) => {
    for (const chunk of [97, 65_536]) {
      const { error, directory } = await stage(archive, { chunk });
      t.equal(error?.code, code, error?.message ?? 'was not refused');
      t.ok(error?.hint, 'has a fix');
      t.notOk(error?.message.includes(root), 'names no path of the host');
      t.notOk(existsSync(directory), 'the staging directory is gone');
    }
  });
}

t.test('stops a decompression bomb early, whatever the size limit', async (t) => {
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

t.test('an archive truncated at any byte is malformed, plain or compressed', async (t) => {
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

t.test('damage anywhere never causes a crash, a leftover directory or other bytes (property)', async () => {
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
});

t.test(
  'never extracts different bytes or touches other files when blocks are moved, doubled, lost or forged (property)',
  async (t) => {
    const files = { 'a/b': 'hello', c: 'x'.repeat(600), 'd/e/f': 'y'.repeat(1500) };
    const listed = Object.entries(files).map(([path, body]) => ({
      path,
      size: body.length,
      digest: sha(body),
    }));
    const archive = tar(
      manifest(...listed),
      ...Object.entries(files).map(([path, body]) => file(path, body)),
    );
    const blocks = archive.length / 512;
    const canary = path.join(root, 'canary');
    writeFileSync(canary, 'still here');
    const before = new Set(readdirSync(root));
    const block = fc.nat(blocks - 1);
    const mutation = fc.oneof(
      fc.record({ kind: fc.constant('swap' as const), one: block, other: block }),
      fc.record({ kind: fc.constant('double' as const), one: block, other: block }),
      fc.record({ kind: fc.constant('lose' as const), one: block, other: fc.constant(0) }),
      fc.record({ kind: fc.constant('noise' as const), one: block, other: fc.nat(0xffff) }),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(mutation, { minLength: 1, maxLength: 6 }),
        fc.boolean(),
        async (all, isCompressed) => {
          const pieces = Array.from({ length: blocks }, (_, at) =>
            archive.subarray(at * 512, (at + 1) * 512),
          );
          for (const { kind, one, other } of all) {
            const [here, there] = [one % Math.max(pieces.length, 1), other % Math.max(pieces.length, 1)];
            if (kind === 'swap')
              [pieces[here], pieces[there]] = [pieces[there] as Buffer, pieces[here] as Buffer];
            else if (kind === 'double') pieces.splice(there, 0, pieces[here] as Buffer);
            else if (kind === 'lose') pieces.splice(here, 1);
            else
              pieces.splice(
                here,
                1,
                createHash('shake256', { outputLength: 512 }).update(`${other}`).digest(),
              );
          }
          const bytes = Buffer.concat(pieces);
          const { error, directory, staged } = await stage(isCompressed ? gzipSync(bytes) : bytes, {
            chunk: 333,
          });
          if (error !== undefined) return error.code !== 'internal_error' && !existsSync(directory);
          // Every size and digest matched the manifest, so these are the original files.
          const isWhole = staged?.files === listed.length;
          rmSync(directory, { recursive: true });
          return isWhole;
        },
      ),
      { numRuns: 400 },
    );
    t.equal(readFileSync(canary, 'utf8'), 'still here');
    t.same(
      readdirSync(root).filter((name) => !before.has(name)),
      [],
      'nothing else appeared',
    );
  },
);

t.test('unlisted files are named in a warning and are not part of the bundle', async (t) => {
  const { directory } = await stage(tar(manifest('a'), file('a'), file('extra')));
  const bundle = await openStagedBundle(directory, 'maps', 'x');
  t.match(bundle.warnings, [{ code: 'unlisted_files', message: /1 file is not in the manifest.*"extra"/ }]);
  t.same(
    bundle.files.map(({ path }) => path),
    ['a'],
  );
});

t.test('an abort ends the staging immediately, even while the input is silent', async (t) => {
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
  t.ok(closed, 'the input was closed');
});

t.test('passes on errors of the input unchanged', async (t) => {
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

t.test('reports a full disk', async (t) => {
  for (const code of ['ENOSPC', 'EDQUOT'])
    t.match(stagingFailure(Object.assign(new Error(code), { code })), { code: 'insufficient_storage' });
  const other = new Error('other');
  t.equal(stagingFailure(other), other);
});

t.test('reports a staged bundle that was swept', async (t) => {
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

t.test('archive and manifest have the same limit for depth', async (t) => {
  for (const [segments, isTaken] of [
    [63, true],
    [64, true],
    [65, false],
  ] as const) {
    const name = [...Array<string>(segments - 1).fill('d'), 'f'].join('/');
    const document = { schema_version: 1, created: '2026-11-20T01:02:03Z', files: [name] };
    const { findings } = parseManifest(Buffer.from(JSON.stringify(document)), 'manifest.json');
    t.same(
      findings.map(({ code, message }) => [code, message.includes('has more than 64 segments')]),
      isTaken ? [] : [['invalid_path', true]],
      `${segments} segments in a manifest`,
    );
    const { error } = await stage(tar(manifest('a'), file('a'), gnuLongName(name), file('x')));
    t.equal(error?.code, isTaken ? undefined : 'unsafe_archive_entry', `${segments} segments in an archive`);
  }
});

/** Extracts into a directory that `prepare` may fill first. */
async function extract(
  archive: Buffer,
  options: { limits?: typeof limits; prepare?: (directory: string) => void } = {},
): Promise<Extraction & { directory: string }> {
  count += 1;
  const directory = path.join(root, `extracted-${count}`);
  mkdirSync(directory);
  options.prepare?.(directory);
  const input = inChunks(archive, 100);
  return { directory, ...(await extractArchive({ input, directory, limits: options.limits ?? limits })) };
}

t.test('an archive and its content may each have exactly the maximum size', async (t) => {
  const archive = tar({ path: 'manifest.json', body: 'x' }, { path: 'a', body: 'y'.repeat(1000) });
  const tooLarge = (message: RegExp) => ({ code: 'upload_too_large', message });
  for (const [what, bytes, most, message] of [
    ['archive', archive, archive.length, /^the archive is larger/],
    ['content', gzipSync(archive), 1001, /^what the archive holds is larger/],
  ] as const) {
    t.equal((await extract(bytes, { limits: { maxUploadSize: most, maxFiles: 1 } })).bytes, 1001, what);
    await t.rejects(
      extract(bytes, { limits: { maxUploadSize: most - 1, maxFiles: 1 } }),
      tooLarge(message),
      what,
    );
  }
});

t.test('reserves the path of a stored file like the path of an archive entry', async (t) => {
  const archive = tar({ path: 'manifest.json', body: 'x' }, { path: 'a/x.txt', body: 'y' });
  const { directory, ...extraction } = await extract(archive, {
    limits: { maxUploadSize: 10_000, maxFiles: 2 },
  });
  for (const taken of ['a/x.txt', 'A/X.TXT', 'a/x.txt/below', 'a'])
    await t.rejects(async () => extraction.take(taken as never), { code: 'unsafe_archive_entry' }, taken);
  await extraction.take('b/c/d.txt' as never);
  t.ok(statSync(path.join(directory, 'b/c')).isDirectory());
  t.notOk(existsSync(path.join(directory, 'b/c/d.txt')));
  await t.rejects(
    async () => extraction.take('b/c/d.txt' as never),
    { code: 'unsafe_archive_entry' },
    'its path is in use now',
  );
  await t.rejects(async () => extraction.take('e.txt' as never), { code: 'too_many_files' });
});

t.test('reports entries by their paths, without the root', async (t) => {
  const { files } = await extract(
    tar(
      { path: '.', type: '5' },
      { path: './', type: '5' },
      manifest('a'),
      { path: 'd/e/', type: '5' },
      { path: './././a', body: 'x' },
    ),
  );
  t.same([...files.keys()], ['manifest.json', 'a']);
  const unsafe = (message: RegExp) => ({ code: 'unsafe_archive_entry', message });
  for (const [archive, message] of [
    [tar(manifest('a'), file('a'), file('a')), /"a" is there twice/],
    [tar(manifest('a'), file('a'), file('A')), /"A" differs from "a" only in letter case/],
    [tar(file('d'), { path: 'd/e/', type: '5' }), /"d\/e" needs a directory where the file "d" is/],
  ] as const)
    await t.rejects(extract(archive), unsafe(message));
  for (const entries of [[pax({ path: 'a/' }), file('a')], [{ path: 'a/', body: 'x' }]])
    await t.rejects(extract(tar(manifest('a'), ...entries)), {
      code: 'malformed_archive',
      message: /the file "a\/" has content, but its name ends with "\/"/,
    });
});

t.test('directories count towards the limit of entries', async (t) => {
  const directories = (number: number) =>
    Array.from({ length: number }, (_, index) => rawEntry({ path: `d${index}/`, type: '5' }));
  const few = { maxUploadSize: 2 ** 20, maxFiles: 2 };
  await extract(tar(manifest('a'), ...directories(4 * 2 + 64)), { limits: few });
  await t.rejects(extract(tar(manifest('a'), ...directories(4 * 2 + 65)), { limits: few }), {
    code: 'too_many_files',
    message: /more than 72 directories/,
  });
});

t.test(
  'an archive without a manifest, or with two, is an invalid bundle, and the error says so',
  async (t) => {
    const plain = { path: 'manifest.json', body: '{}' };
    for (const [archive, code, message] of [
      [tar(file('a')), 'manifest_missing', /^the archive has no manifest.json at its root$/],
      [
        tar(file('a'), { ...plain, path: 'x/manifest.json' }),
        'manifest_missing',
        /^the archive has no manifest.json at its root, only "x\/manifest.json"; make it inside/,
      ],
      [tar(plain, plain), 'manifest_twice', /^the archive has it twice$/],
      [
        tar(plain, { ...plain, path: 'Manifest.json' }),
        'manifest_twice',
        /^the archive has "manifest.json" and "Manifest.json"$/,
      ],
    ] as const)
      await t.rejects(extract(archive), {
        code: 'invalid_bundle',
        findings: [{ severity: 'error', code, message, file: 'manifest.json' }],
      });
  },
);

t.test('reports the first hundred of 130,000 missing listed files', async (t) => {
  const names = Array.from({ length: 130_000 }, (_, index) => `f${index}`);
  const { error } = await stage(tar({ path: 'manifest.json', body: manifestOf(names) }), {
    limits: { maxUploadSize: 2 ** 24, maxFiles: 250_000 },
  });
  t.match(error, { code: 'invalid_bundle', findings: { length: 101 } });
  t.match(error?.findings.at(-1), { code: 'more_findings', message: /^129900 more things are wrong/ });
});

t.test("accepts an existing directory only if it is equal under the file system's case rules", async (t) => {
  const big = 'x'.repeat(100_000);
  for (const body of ['x', big]) {
    const archive = tar(manifest('d/a'), { path: 'd/a', body });
    const { directory } = await extract(archive, { prepare: (at) => mkdirSync(path.join(at, 'd')) });
    t.equal(readFileSync(path.join(directory, 'd/a'), 'utf8'), body);
    const prepare = (at: string): void => {
      mkdirSync(path.join(at, 'd'));
      writeFileSync(path.join(at, 'd/a'), 'theirs');
    };
    await t.rejects(extract(archive, { prepare }), { code: 'EEXIST' });
    await t.rejects(extract(archive, { prepare: (at) => rmSync(at, { recursive: true }) }), {
      code: 'ENOENT',
    });
  }
  const nested = tar(file('d/a'));
  await t.rejects(extract(nested, { prepare: (at) => rmSync(at, { recursive: true }) }), {
    code: 'ENOENT',
    syscall: 'mkdir',
  });
});

t.test('no file stays open, whether the archive is complete or truncated', async (t) => {
  const isOpen = (name: string): boolean =>
    readdirSync('/proc/self/fd').some((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`).endsWith(name);
      } catch {
        return false; // The descriptor that listed the others.
      }
    });
  const archive = tar(manifest('a'), { path: 'still-open', body: 'x'.repeat(200_000) });
  const { directory } = await extract(archive);
  t.ok(existsSync(path.join(directory, 'still-open')));
  t.notOk(isOpen('still-open'));
  await t.rejects(extract(archive.subarray(0, 150_000)), { code: 'malformed_archive' });
  t.notOk(isOpen('still-open'));
});
