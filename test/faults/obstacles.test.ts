import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import type { ActionResult } from '../../src/core/publish/results/result.ts';
import { localStorage } from '../../src/core/storage/local/local-storage.ts';
import { sftpStorage } from '../../src/core/storage/sftp/sftp-storage.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import { noSecrets, sftpLocationOf, startSshd } from '../services/sshd.ts';
import { mountTmpfs } from '../services/tmpfs.ts';
import { catalogMismatches, type Files, leftovers, publishTo, snapshot } from './world.ts';

/**
 * Obstacles of a publication. For each obstacle: a dry run predicts the failure, unless it is undetectable;
 * the run fails; the destination stays byte for byte as before, with the state; and without the obstacle, the
 * next run succeeds without force.
 */

const published: Files = {
  'about.html': 'about 1',
  'assets/deep/x/a.js': 'js 1',
  'assets/style.css': 'css 1',
  'gone.txt': 'gone',
  'index.html': 'index 1',
  'old/deep/gone.js': 'gone, too',
};
const next: Files = {
  'about.html': 'about 1',
  'assets/deep/x/a.js': 'js 2',
  'assets/style.css': 'css 2',
  'index.html': 'index 2',
  'new/sub/deeper/b.js': 'b',
  'new/top.txt': 'top',
};

interface Obstacle {
  name: string;
  /** Creates the obstacle below the bundle path, an absolute path. */
  put(t: Test, bundle: string): void | Promise<void>;
  remove(bundle: string): void;
  /** The expected failure of the run. */
  code: 'unmanaged_content' | 'storage_denied' | 'storage_permanent' | 'storage_full';
  message: RegExp;
  /** Undetectable without a write. */
  isHidden?: boolean;
}

const within = (bundle: string, name: string): string => path.join(bundle, name);
const make = (bundle: string, name: string): string => {
  const place = within(bundle, name);
  mkdirSync(path.dirname(place), { recursive: true });
  return place;
};
const removeAt =
  (name: string) =>
  (bundle: string): void =>
    rmSync(within(bundle, name), { recursive: true, force: true });
/** The published files are moved away until the obstacle is removed. */
const aside = (bundle: string): string => `${bundle}-aside`;
const replacing =
  (name: string, put: (place: string) => void) =>
  (_: Test, bundle: string): void => {
    renameSync(within(bundle, name), aside(bundle));
    put(within(bundle, name));
  };
const restoring =
  (name: string) =>
  (bundle: string): void => {
    rmSync(within(bundle, name), { recursive: true, force: true });
    renameSync(aside(bundle), within(bundle, name));
  };

/** Even root may not change it or its entries. */
function lock(t: Test, place: string): void {
  execFileSync('chattr', ['+i', place]);
  t.teardown(() => spawnSync('chattr', ['-i', place]));
}

const file = (place: string): void => writeFileSync(place, 'in the way');
const fifo = (place: string): void => void execFileSync('mkfifo', [place]);
const link = (place: string): void => {
  mkdirSync(`${place}-target`, { recursive: true });
  symlinkSync(`${path.basename(place)}-target`, place);
};
const dangling = (place: string): void => symlinkSync('nowhere', place);
const directory = (place: string): void => {
  mkdirSync(place, { recursive: true });
  writeFileSync(path.join(place, 'foreign'), 'not ours');
};

const needsDirectory = (at: string): RegExp => new RegExp(`needs the directory "${at}", where there is`);
const obstacles: Obstacle[] = [];
for (const [what, put] of Object.entries({ file, fifo, link, dangling }))
  for (const at of ['new', 'new/sub', 'new/sub/deeper'])
    obstacles.push({
      name: `a ${what} at ${at}`,
      put: (_, bundle) => put(make(bundle, at)),
      remove(bundle) {
        removeAt('new')(bundle);
        removeAt('new-target')(bundle);
      },
      code: 'unmanaged_content',
      message: needsDirectory(at),
    });
for (const [what, put] of Object.entries({ file, fifo, link, dangling }))
  for (const at of ['assets', 'assets/deep/x'])
    obstacles.push({
      name: `a ${what} where ${at} was published`,
      put: replacing(at, put),
      remove(bundle) {
        removeAt(`${at}-target`)(bundle);
        restoring(at)(bundle);
      },
      code: 'unmanaged_content',
      message: needsDirectory(at),
    });
for (const at of ['new/top.txt', 'new/sub/deeper/b.js'])
  obstacles.push({
    name: `a directory at ${at}`,
    put: (_, bundle) => directory(make(bundle, at)),
    remove: removeAt('new'),
    code: 'unmanaged_content',
    message: new RegExp(`"${at}" exists and is not recorded`),
  });
for (const at of ['index.html', 'assets/style.css', 'assets/deep/x/a.js'])
  obstacles.push({
    name: `a directory where ${at} was published`,
    put: replacing(at, directory),
    remove: restoring(at),
    code: 'unmanaged_content',
    message: new RegExp(`at the planned path "${at}" there is a directory with content that is not recorded`),
  });
for (const at of ['assets', 'assets/deep/x'])
  obstacles.push({
    name: `an unwritable directory: ${at}`,
    put: (t, bundle) => lock(t, within(bundle, at)),
    remove: (bundle) => void execFileSync('chattr', ['-i', within(bundle, at)]),
    code: 'storage_denied',
    message: new RegExp(`bundle/${at}": permission denied`),
  });
obstacles.push(
  {
    name: 'an irreplaceable file',
    put: (t, bundle) => lock(t, within(bundle, 'index.html')),
    remove: (bundle) => void execFileSync('chattr', ['-i', within(bundle, 'index.html')]),
    code: 'storage_denied',
    message: /bundle\/index.html": permission denied/,
    isHidden: true,
  },
  {
    name: 'an unremovable file',
    put: (t, bundle) => lock(t, within(bundle, 'gone.txt')),
    remove: (bundle) => void execFileSync('chattr', ['-i', within(bundle, 'gone.txt')]),
    code: 'storage_denied',
    message: /bundle\/gone.txt": permission denied/,
    isHidden: true,
  },
  {
    name: 'a link at the path of removed files only, to files with the same names',
    put: replacing('old', (place) => symlinkSync('../bundle-aside', place)),
    remove: restoring('old'),
    code: 'storage_permanent',
    message: /"bundle\/old" is not a directory/,
  },
  {
    name: 'another file system below the destination',
    put(t, bundle) {
      const place = within(bundle, 'assets/deep');
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'waybill-test', place]);
      t.teardown(() => spawnSync('umount', ['--lazy', place]));
    },
    // The storage under test has the directory open.
    remove: (bundle) => void execFileSync('umount', ['--lazy', within(bundle, 'assets/deep')]),
    code: 'storage_permanent',
    message: /bundle\/assets\/deep" is on another file system/,
  },
  {
    name: 'a directory mounted again below the destination',
    put(t, bundle) {
      const place = within(bundle, 'assets/deep/x');
      execFileSync('mount', ['--bind', place, place]);
      t.teardown(() => spawnSync('umount', ['--lazy', place]));
    },
    remove: (bundle) => void execFileSync('umount', ['--lazy', within(bundle, 'assets/deep/x')]),
    code: 'storage_permanent',
    message: /bundle\/assets\/deep\/x" is on another file system/,
  },
);

/** Every entry below a directory: type and bytes, and for outputs also inode and time. */
function tree(directory: string): Record<string, string> {
  const entries: Record<string, string> = {};
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    const place = path.join(entry.parentPath, entry.name);
    const { ino, mtimeMs } = lstatSync(place);
    const name = path.relative(directory, place);
    if (entry.isSymbolicLink()) entries[name] = `link to ${readlinkSync(place)}`;
    else if (entry.isDirectory()) entries[name] = 'directory';
    else if (!entry.isFile()) entries[name] = 'neither';
    else if (entry.name === '.publisher.json') entries[name] = readFileSync(place, 'utf8');
    else entries[name] = `${ino} ${mtimeMs} ${readFileSync(place, 'utf8')}`;
  }
  return entries;
}

function newRoot(t: Test): string {
  const root = mkdtempSync(path.join(tmpdir(), 'waybill-in-the-way-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  return root;
}

const publish = async (storage: Storage, files: Files, dryRun = false): Promise<ActionResult> =>
  publishTo(storage, { files, workflow: 'replacement', dryRun });

async function meets(t: Test, obstacle: Obstacle, root: string, open: () => Promise<Storage>): Promise<void> {
  const bundle = path.join(root, 'bundle');
  t.equal((await publish(await open(), published)).error, null);
  await obstacle.put(t, bundle);
  const before = tree(root);
  const fails = { error: { code: obstacle.code, message: obstacle.message } };
  const predicted = await publish(await open(), next, true);
  if (obstacle.isHidden === true) t.equal(predicted.error, null, 'cannot be predicted');
  else t.match(predicted, fails, 'predicted');
  t.match(await publish(await open(), next), fails);
  t.same(tree(root), before, 'everything is unchanged');
  t.match(await publish(await open(), next), fails, 'and so it is the next time');
  t.same(tree(root), before, 'everything is unchanged');

  obstacle.remove(bundle);
  t.match(await publish(await open(), next), { error: null, action: 'replace_catalog' });
  const files = await snapshot(await open());
  for (const [name, text] of Object.entries(next)) t.equal(files.get(`bundle/${name}`), text, name);
  for (const name of ['gone.txt', 'old/deep/gone.js']) t.notOk(files.has(`bundle/${name}`), name);
  t.same(leftovers(files), []);
  t.same(await catalogMismatches(await open()), []);
  t.match(await publish(await open(), next), { action: 'skip_same' });
}

for (const obstacle of obstacles)
  t.test(`local: ${obstacle.name}`, async (t) => {
    const root = newRoot(t);
    await meets(t, obstacle, root, async () => localStorage(root));
  });

t.test('local: a full disk', async (t) => {
  const root = newRoot(t);
  await mountTmpfs(t, root, '400k');
  const large = { ...published, 'index.html': 'x'.repeat(150_000) };
  t.equal((await publish(await localStorage(root), large)).error, null);
  const before = tree(root);
  const larger = { ...next, 'index.html': 'y'.repeat(300_000) };
  for (const dryRun of [true, false, false]) {
    const failed = await publish(await localStorage(root), larger, dryRun);
    t.match(failed, { error: { code: 'storage_full', message: /only \d+ are free/ } });
    t.same(tree(root), before);
  }
  execFileSync('mount', ['-o', 'remount,size=2m', root]);
  t.match(await publish(await localStorage(root), larger), { error: null });
  t.match(await publish(await localStorage(root), larger), { action: 'skip_same' });
});

t.test('local: paths that are too long for the system', async (t) => {
  const base = newRoot(t);
  const root = path.join(base, ...Array.from({ length: 13 }, () => 'r'.repeat(240)));
  const storage = async (): Promise<Storage> => localStorage(root);
  t.equal((await publish(await storage(), published)).error, null);
  const before = tree(root);
  const long = Array.from({ length: 4 }, () => 'p'.repeat(240)).join('/');
  for (const dryRun of [true, false]) {
    const failed = await publish(await storage(), { ...next, [long]: 'x' }, dryRun);
    t.match(failed, { error: { code: 'storage_permanent', message: /ENAMETOOLONG/, hint: /shorter/ } });
    t.same(tree(root), before);
  }
  t.match(await publish(await storage(), next), { error: null });
});

// Root without its capabilities is subject to file modes like any user.
const heldToModes = 'setpriv --bounding-set=-all --inh-caps=-all -- /usr/lib/openssh/sftp-server';
const isRoot = process.getuid?.() === 0;
const [server, unprivileged] = await Promise.all([
  startSshd(t),
  startSshd(t, isRoot ? { subsystem: heldToModes } : {}),
]);
let worlds = 0;
const sees = new Set([
  'another file system below the destination',
  'a link at the path of removed files only, to files with the same names',
]);

for (const obstacle of obstacles) {
  // SFTP cannot report permissions, and servers give no reasons.
  const isOfRights = obstacle.code === 'storage_denied' || obstacle.name.includes('mounted again');
  const onServer: Obstacle = isOfRights
    ? { ...obstacle, isHidden: true, code: obstacle.code, message: /./ }
    : obstacle;
  t.test(`SFTP: ${obstacle.name}`, async (t) => {
    worlds += 1;
    const root = path.join(server.root, `world-${worlds}`);
    const location = sftpLocationOf(server, root);
    const storage = await sftpStorage(location, { clock: systemClock, log: silentLog, secrets: noSecrets });
    t.teardown(() => storage.close());
    const failing = obstacle.name.includes('mounted again') ? ('storage_permanent' as const) : onServer.code;
    await meets(t, { ...onServer, code: failing }, root, async () => storage);
    t.ok(isOfRights || sees.has(obstacle.name) || obstacle.code === 'unmanaged_content');
  });
}

/** The outcome of a first publication without write permission, and of one that changes published files. */
for (const [at, isFirst, message, hint] of [
  [
    '',
    true,
    '"bundle" cannot be created: permission denied by the server',
    'write access to "ROOT", or create "bundle" for',
  ],
  [
    'bundle',
    false,
    '"bundle/.publisher.tmp" cannot be created: permission denied by the server',
    'write access to "bundle"',
  ],
  [
    'bundle/new',
    false,
    '"bundle/new/sub" cannot be created: permission denied by the server',
    'write access to "bundle/new"',
  ],
  [
    'bundle/assets',
    false,
    '"bundle/assets/style.css" cannot',
    'to the directory "bundle/assets" (mode 0500,',
  ],
  [
    'bundle/assets/deep/x',
    false,
    '"bundle/assets/deep/x/a.js" cannot',
    'the directory "bundle/assets/deep/x"',
  ],
  ['bundle/old/deep', false, '"bundle/old/deep/gone.js" cannot', 'to the directory "bundle/old/deep" (mode'],
] as const)
  t.test(
    `SFTP: a directory without write permission: ${at === '' ? 'the root' : at}, ${isFirst ? 'first publication' : 'published'}`,
    async (t) => {
      worlds += 1;
      const root = path.join(unprivileged.root, `world-${worlds}`);
      const closed = path.join(root, at);
      const options = { clock: systemClock, log: silentLog, secrets: noSecrets };
      const storage = await sftpStorage(sftpLocationOf(unprivileged, root), options);
      t.teardown(() => storage.close());
      if (!isFirst) t.equal((await publish(storage, published)).error, null);
      mkdirSync(closed, { recursive: true });
      // A directory that stays empty is removed together with the planned files.
      if (at === 'bundle/new') writeFileSync(path.join(closed, 'theirs.txt'), 'theirs');
      chmodSync(closed, 0o500);
      const before = tree(root);
      for (const round of ['once', 'again']) {
        const { error } = await publish(storage, next);
        t.equal(error?.code, 'storage_denied', round);
        t.ok(error?.message.includes(message), error?.message ?? 'no error');
        t.ok(error?.hint?.includes(hint.replace('ROOT', root)), error?.hint ?? 'no hint');
        t.same(tree(root), before, 'everything is unchanged');
      }
      chmodSync(closed, 0o755);
      t.match(await publish(storage, next), { error: null });
      t.same(leftovers(await snapshot(storage)), []);
      t.same(await catalogMismatches(storage), []);
    },
  );

t.test('SFTP: dry run and run detect a root that is mounted read-only', async (t) => {
  const root = path.join(server.root, 'read-only');
  mkdirSync(root);
  const options = { clock: systemClock, log: silentLog, secrets: noSecrets };
  const storage = await sftpStorage(sftpLocationOf(server, root), options);
  t.teardown(() => storage.close());
  const mount = (): void => {
    execFileSync('mount', ['--bind', root, root]);
    execFileSync('mount', ['-o', 'remount,bind,ro', root]);
  };
  const unmount = (): void => void spawnSync('umount', ['--lazy', root]);
  t.teardown(unmount);
  const message = /"[^"]*read-only(\/bundle)?"|"bundle"/;
  for (const files of [published, next]) {
    mount();
    const before = tree(root);
    for (const dryRun of [true, false]) {
      const { error } = await publish(storage, files, dryRun);
      t.match(error, { code: 'storage_denied', message: /is on a file system that is mounted read-only/ });
      t.match(error, { message, hint: /mount it for writing/ });
    }
    t.same(tree(root), before);
    unmount();
    t.match(await publish(storage, files), { error: null });
  }
});
