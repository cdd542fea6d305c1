import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { syncFileSystem } from '../../../../src/core/storage/local/file-system-sync.ts';

const onLinux = { skip: process.platform === 'linux' ? false : 'syncfs is of Linux' };

/** The shells that this process, or the other one, has started. */
function shells(starter = process.pid): number[] {
  return processesThat((pid) => {
    const parent = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')[1];
    return parent === `${starter}` && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('sync');
  });
}

/** A process that has ended or belongs to another user fails `isMeant`, and is left out. */
function processesThat(isMeant: (pid: string) => boolean): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return isMeant(pid);
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

t.test('a process ends though it has a shell, and the shell ends with it', onLinux, async (t) => {
  const module = path.resolve('src/core/storage/local/file-system-sync.ts');
  const program = spawn(
    process.execPath,
    [
      '--import=tsx',
      '--input-type=module',
      '-e',
      `import { syncFileSystem } from ${JSON.stringify(module)};
       console.log(await syncFileSystem('/'));
       process.stdin.once('data', () => process.stdin.destroy());`,
    ],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  );
  const [answer] = (await once(program.stdout, 'data')) as [Buffer];
  t.equal(answer.toString(), 'true\n');
  const [shell] = shells(program.pid);
  if (shell === undefined) throw new Error('no shell was found');
  program.stdin.write('end');
  t.same(await once(program, 'exit'), [0, null]);
  while (existsSync(`/proc/${shell}`)) await systemClock.sleep(10);
});

t.test('the shell gets no environment variable but PATH', onLinux, async (t) => {
  process.env['WAYBILL_TEST_SECRET'] = 'secret';
  t.teardown(() => delete process.env['WAYBILL_TEST_SECRET']);
  for (const shell of shells()) process.kill(shell, 'SIGKILL');
  while (shells().length > 0) await systemClock.sleep(10);
  while (!(await syncFileSystem(t.testdir()))) await systemClock.sleep(10);
  const names = readFileSync(`/proc/${shells()[0]}/environ`, 'utf8')
    .split('\0')
    .map((line) => line.split('=')[0]);
  t.same(names.filter(Boolean), ['PATH']);
});
