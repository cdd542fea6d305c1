import { existsSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { prepareStaging } from '../../../src/workers/coordinator/single-host.ts';
import {
  createStagingArea,
  newUploadDirectory,
  removeUploadDirectory,
} from '../../../src/workers/staging/staged-directories.ts';

t.test('an upload directory is private and new, and any path in it removes all of it', async (t) => {
  const staging = t.testdir();
  const directory = await newUploadDirectory(staging);
  t.equal(statSync(directory).mode & 0o777, 0o700);
  t.not(await newUploadDirectory(staging), directory);
  mkdirSync(path.join(directory, 'bundle/maps'), { recursive: true });
  await removeUploadDirectory(staging, path.join(directory, 'bundle'));
  t.notOk(existsSync(directory));
});

t.test('upload directories are created and removed in their turn of the event loop', async (t) => {
  const staging = t.testdir();
  let goOn = (): void => undefined;
  const area = createStagingArea(staging, () => new Promise((resolve) => (goOn = resolve)));
  const creating = area.create();
  t.same(readdirSync(staging), []);
  goOn();
  const directory = await creating;
  t.ok(existsSync(directory));
  const discarding = area.discard(path.join(directory, 'files'));
  await new Promise((resolve) => setImmediate(resolve));
  t.ok(existsSync(directory));
  goOn();
  await discarding;
  t.notOk(existsSync(directory));
});

t.test('any upload directory is removed whole; a missing one is not a failure', async (t) => {
  const staging = t.testdir();
  const bundles: Record<string, string[]> = {
    few: ['files/a.txt', 'staged.json'],
    many: Array.from({ length: 100 }, (_, index) => `files/${index}.txt`),
    deep: Array.from({ length: 40 }, (_, index) => `files/${'d/'.repeat(index)}a.txt`),
  };
  for (const [name, files] of Object.entries(bundles)) {
    const directory = await newUploadDirectory(staging);
    for (const file of files) {
      mkdirSync(path.dirname(path.join(directory, file)), { recursive: true });
      writeFileSync(path.join(directory, file), 'x');
    }
    symlinkSync(staging, path.join(directory, 'link'));
    const other = await newUploadDirectory(staging);
    await removeUploadDirectory(staging, directory);
    t.notOk(existsSync(directory), name);
    t.ok(existsSync(other), 'and nothing behind a link');
    await removeUploadDirectory(staging, directory);
  }
});

t.test('removes nothing but upload directories', async (t) => {
  const staging = t.testdir({ keep: {}, 'upload-notes': { 'a.txt': 'a' } });
  for (const other of ['.', '..', 'keep', 'upload-notes', '../upload-0123456789abcdef']) {
    await t.rejects(
      removeUploadDirectory(staging, path.join(staging, other)),
      { code: 'internal_error' },
      other,
    );
  }
  t.same(readdirSync(staging).sort(), ['keep', 'upload-notes']);
});

t.test(
  'a start creates the staging directory and sweeps only files that an earlier process staged',
  async (t) => {
    const root = t.testdir({ outside: { 'a.txt': 'a' } });
    const staging = path.join(root, 'deep/staging');
    t.same(await prepareStaging(staging), { swept: [] });
    const left = await newUploadDirectory(staging);
    writeFileSync(path.join(left, 'archive.tar'), 'half');
    writeFileSync(path.join(staging, 'upload-0123456789abcdef'), 'an unrelated file');
    symlinkSync(path.join(root, 'outside'), path.join(staging, 'upload-fedcba9876543210'));
    mkdirSync(path.join(staging, 'theirs'));
    t.same(await prepareStaging(staging), { swept: [path.basename(left)] });
    t.same(readdirSync(staging).sort(), ['theirs', 'upload-0123456789abcdef', 'upload-fedcba9876543210']);
    t.ok(existsSync(path.join(root, 'outside/a.txt')));
  },
);

t.test('reports an unusable staging directory before it starts', async (t) => {
  const root = t.testdir({ file: 'not a directory' });
  await t.rejects(prepareStaging(path.join(root, 'file')), {
    code: 'config_invalid',
    message: /server\.staging\.directory/,
  });
});
