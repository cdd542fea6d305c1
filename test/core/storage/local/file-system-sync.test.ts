import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { syncFileSystem } from '../../../../src/core/storage/local/file-system-sync.ts';

const onLinux = { skip: process.platform === 'linux' ? false : 'syncfs is of Linux' };

/** The shells that this process has started. */
function shells(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const parent = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')[1];
        return parent === `${process.pid}` && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('sync');
      } catch {
        return false;
      }
    })
    .map(Number);
}

t.test('A file system is synced by one shell, however often', onLinux, async (t) => {
  const directory = t.testdir({ "it's a $(name)": {} });
  t.same(
    await Promise.all([
      syncFileSystem(directory),
      syncFileSystem(path.join(directory, "it's a $(name)")),
      syncFileSystem(path.join(directory, 'missing')),
      syncFileSystem(directory),
    ]),
    [true, true, false, true],
    'each gets the answer to its own question',
  );
  t.equal(shells().length, 1);
});

t.test('A shell that was ended is replaced', onLinux, async (t) => {
  const directory = t.testdir();
  t.equal(await syncFileSystem(directory), true);
  const [first] = shells();
  process.kill(first!, 'SIGSTOP');
  const answer = syncFileSystem(directory);
  process.kill(first!, 'SIGKILL');
  t.equal(await answer, false, 'whoever waits is told, and syncs each file');
  t.equal(await syncFileSystem(directory), true);
  t.not(shells()[0], first);
});

t.test('A name with a line break is not asked for', async (t) => {
  t.equal(await syncFileSystem(t.testdir({ 'a\nb': {} }) + '/a\nb'), false);
});

t.test('Neither keeps the other: the process ends, and the shell with it', onLinux, (t) => {
  const module = path.resolve('src/core/storage/local/file-system-sync.ts');
  const { stdout, status } = spawnSync(
    process.execPath,
    [
      '--import=tsx',
      '--input-type=module',
      '-e',
      `import { syncFileSystem } from ${JSON.stringify(module)};
       console.log(await syncFileSystem('/'));
       console.log(process.getActiveResourcesInfo().filter((name) => /Process|Pipe/.test(name)).join());`,
    ],
    { encoding: 'utf8', timeout: 30_000 },
  );
  t.equal(status, 0);
  t.match(stdout, /^true\n/);
  const left = execFileSync('ps', ['-eo', 'ppid,args'], { encoding: 'utf8' });
  t.notMatch(left, /^ *1 .*IFS= read -r directory/m, 'no shell is left to init');
  t.end();
});
