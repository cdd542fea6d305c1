import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import type { WaybillError } from '../../../../src/core/lib/errors.ts';
import { bytesBody } from '../../../../src/core/storage/body.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import { localStorage } from '../../../../src/core/storage/local/local-storage.ts';
import { mountTmpfs } from '../../../services/tmpfs.ts';

interface Look {
  writes?: string[];
  removes?: string[];
  from?: string;
  bytes?: number | null;
}

async function look(root: string, change: Look): Promise<WaybillError | null> {
  const storage = await localStorage(root, { readOnly: true, dryRun: true });
  const { writes = [], removes = [], from = '', bytes = null } = change;
  return storage.obstacleTo({
    ...{ writes: writes.map(key), removes: removes.map(key) },
    ...{ from: from === '' ? '' : key(from), bytes },
  });
}

function newRoot(t: Test): string {
  const root = mkdtempSync(path.join(tmpdir(), 'waybill-obstacles-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  return root;
}

t.test('names links and special files where a directory is needed', async (t) => {
  const root = newRoot(t);
  mkdirSync(path.join(root, 'real/deep'), { recursive: true });
  symlinkSync('real', path.join(root, 'link'));
  symlinkSync('nowhere', path.join(root, 'real/deep/dangling'));
  execFileSync('mkfifo', [path.join(root, 'real/pipe')]);
  for (const [name, at, hint] of [
    ['link/x', 'link', /symbolic link/],
    ['real/deep/dangling/y/x', 'real/deep/dangling', /symbolic link/],
    ['real/pipe/x', 'real/pipe', /move it away/],
  ] as const)
    t.match(await look(root, { writes: ['real/deep/fine', name] }), {
      code: 'storage_permanent',
      message: `${root}: "${at}" is not a directory`,
      hint,
    });
  t.equal(await look(root, { removes: ['link/x', 'real/pipe/x'] }), null);
});

t.test('names another file system below the staging directory, but not one above it', async (t) => {
  const root = newRoot(t);
  for (const name of ['tmpfs', 'bound/below', 'elsewhere'])
    mkdirSync(path.join(root, 'a', name), { recursive: true });
  await mountTmpfs(t, path.join(root, 'a/tmpfs'), '256k');
  const bound = path.join(root, 'a/bound/below');
  execFileSync('mount', ['--bind', path.join(root, 'a/elsewhere'), bound]);
  t.teardown(() => execFileSync('umount', ['--lazy', bound]));
  t.equal(statSync(bound).dev, statSync(root).dev, 'a bind mount has the device of its parent');
  for (const at of ['a/tmpfs', 'a/bound/below'])
    for (const writes of [[`${at}/x`], ['a/x', `${at}/y/x`]]) {
      t.match(await look(root, { writes }), {
        code: 'storage_permanent',
        message: `${root}: "${at}" is on another file system`,
        hint: /unmount it, or make it a destination of its own/,
      });
      t.equal(await look(root, { writes: [`${at}/b/x`], from: at }), null, 'the bundle path is on it');
    }
});

t.test('a mount point cannot be replaced', async (t) => {
  const root = newRoot(t);
  for (const name of ['page', 'other']) writeFileSync(path.join(root, name), name);
  execFileSync('mount', ['--bind', path.join(root, 'other'), path.join(root, 'page')]);
  t.teardown(() => execFileSync('umount', ['--lazy', path.join(root, 'page')]));
  t.match(await look(root, { writes: ['page'] }), { message: /"page" is on another file system/ });
});

t.test('names a read-only directory, for writes and removals', async (t) => {
  const root = newRoot(t);
  mkdirSync(path.join(root, 'a/b'), { recursive: true });
  writeFileSync(path.join(root, 'a/b/old'), '');
  const locked = path.join(root, 'a/b');
  execFileSync('chattr', ['+i', locked]);
  try {
    for (const change of [{ writes: ['a/b/x'] }, { writes: ['a/x', 'a/b/new/x'] }, { removes: ['a/b/old'] }])
      t.match(await look(root, change), {
        code: 'storage_denied',
        message: /"a\/b": permission denied/,
        hint: /access/,
      });
    t.equal(await look(root, { writes: ['a/x'], removes: ['a/b/gone'] }), null);
  } finally {
    execFileSync('chattr', ['-i', locked]);
  }
});

t.test('names a file name or path that is too long', async (t) => {
  const root = newRoot(t);
  mkdirSync(path.join(root, 'a'));
  const long = 'x'.repeat(256);
  for (const name of [long, `a/${long}`, `a/new/${long}/x`])
    t.match(await look(root, { writes: ['a/y', name] }), {
      code: 'storage_permanent',
      message: /ENAMETOOLONG/,
      hint: /shorter/,
    });
  t.equal(await look(root, { writes: [`a/new/${'x'.repeat(255)}/x`] }), null);
  const deep = Array.from({ length: 20 }, () => 'y'.repeat(250)).join('/');
  t.match(await look(root, { writes: [deep] }), { message: /ENAMETOOLONG/ });
});

t.test('reports insufficient space, and only if it is really insufficient', async (t) => {
  const root = newRoot(t);
  await mountTmpfs(t, root, '256k');
  writeFileSync(path.join(root, 'file'), Buffer.alloc(100 << 10));
  t.match(await look(root, { writes: ['x'], bytes: 200 << 10 }), {
    code: 'storage_full',
    message: /204800 bytes are needed, but only 1\d{5} are free$/,
    hint: /nothing was changed/,
  });
  t.equal(await look(root, { writes: ['x'], bytes: null }), null);
  const fits = 140 << 10;
  t.equal(await look(root, { writes: ['x'], bytes: fits }), null);
  const storage = await localStorage(root);
  await storage.write(key('x'), bytesBody(Buffer.alloc(fits)), { mode: 'replace' });
  t.same(readdirSync(root).sort(), ['file', 'x'], 'it fits');
});

t.test('reports insufficient inodes', async (t) => {
  const root = newRoot(t);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m,nr_inodes=20', 'waybill-test', root]);
  t.teardown(() => execFileSync('umount', ['--lazy', root]));
  const writes = Array.from({ length: 30 }, (_, index) => `f${index}`);
  t.match(await look(root, { writes, bytes: 30 }), { code: 'storage_full', message: /30 files are needed/ });
  t.equal(await look(root, { writes: writes.slice(0, 10), bytes: 10 }), null);
});

t.test('reports no obstacle for a root that does not exist yet', async (t) => {
  const root = path.join(newRoot(t), 'not/yet');
  t.equal(await look(root, { writes: ['a/b'], removes: ['c'], from: 'bundle', bytes: 1 }), null);
});
