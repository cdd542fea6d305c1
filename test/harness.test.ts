import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { bundle } from '../scripts/test/bundle.ts';
import { isSlow, shuffled } from '../scripts/test/costs.ts';
import { exhaustiveResults } from '../scripts/test/exhaustive.ts';
import { endLeftovers, leftDirectories } from '../scripts/test/leftovers.ts';
import { type FileResult, quietDomains, runFile } from '../scripts/test/run-file.ts';
import { type Mode, selectFiles, SelectionError } from '../scripts/test/selection.ts';
import { watchSilence } from '../scripts/test/silence.ts';
import { seedOf } from '../scripts/test/source-version.ts';
import { ensureInstalled } from './services/debian.ts';
import { nameLocalhost } from './services/localhost.ts';
import { emptyPatterns } from './support/empty-patterns.ts';

t.test('an unhandled error fails the test that caused it', async (t) => {
  for (const args of [[], [quietDomains]]) {
    const { status, stdout } = spawnSync(
      process.execPath,
      [...args.map((url) => `--import=${url}`), 'test/fixtures/harness/uncaught.mjs'],
      { encoding: 'utf8', env: { PATH: process.env['PATH'], TAP: '1' } },
    );
    t.equal(status, 1);
    const results = stdout.match(/^ *(not )?ok .*?(?= #|$)|tapCaught: .*/gm)?.map((line) => line.trim());
    t.same(
      results,
      [
        'not ok 1 - unhandled',
        'tapCaught: unhandledRejection',
        'not ok 1 - an unhandled rejection',
        'not ok 1 - uncaught',
        'tapCaught: uncaughtException',
        'not ok 1 - of a test within',
        'ok 1 - well',
        'ok 2 - and not of the next',
        'not ok 2 - an exception in a callback',
        'ok 1 - well',
        'ok 3 - all is well',
      ],
      args.length === 0 ? 'with the domains of tap' : 'with quiet ones',
    );
  }
});

for (const how of ['throw', 'SIGKILL'] as const)
  t.test(`a file that ends by ${how} leaves no service behind`, async (t) => {
    await ensureInstalled('redis', 'ssh');
    const directory = t.testdir();
    const env = { PATH: process.env['PATH'], TMPDIR: directory, WAYBILL_TEST_FILE: directory };
    const child = spawn(process.execPath, ['--import=tsx', 'test/fixtures/harness/services.ts', how], {
      ...{ env, detached: true },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    t.teardown(() => child.kill('SIGKILL'));
    const ended = once(child, 'exit');
    await once(child.stdout, 'data');
    if (how === 'SIGKILL') child.kill(how);
    t.strictSame(await ended, how === 'SIGKILL' ? [null, how] : [1, null]);
    t.strictSame(await endLeftovers(child.pid as number, directory), []);
    if (how === 'throw') t.strictSame(leftDirectories([directory]), []);
  });

t.test('a failure shows its location in the source', async (t) => {
  const file = 'test/fixtures/harness/failing.ts';
  mkdirSync('.tap', { recursive: true });
  const directory = mkdtempSync('.tap/bundles-');
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  const program = (await bundle([file], directory)).get(file) as string;
  const { failures } = await runFile(file, program, { env: {}, directories: [], skipsMissing: false });
  t.same(
    failures.map(({ name }) => name),
    ['a failure > not the same', 'an exception > thrown'],
  );
  const [failure = '', exception = ''] = failures.map(({ detail }) => detail);
  t.match(failure, `${file}:4:5`);
  t.match(failure, "t.equal(1, 2, 'not the same');\n  ----^");
  t.match(exception, `${file}:9:9`);
  t.match(exception, 'throw new Error(thrown);\n  --------^');
  t.notMatch(`${failure}${exception}`, /bundles-|node_modules/, 'and no frames of the runner');
});

t.test('a file that has ended does not count as silent, even if its last output arrives later', async (t) => {
  let silences = 0;
  const silence = watchSilence(1, () => (silences += 1));
  silence.end();
  silence.refresh();
  await sleep(20);
  t.equal(silences, 0);
  watchSilence(1, () => (silences += 1)).refresh();
  while (silences === 0) await sleep(1);
});

t.test('no test compares with an empty list by a pattern that matches any list', async (t) => {
  const files = readdirSync('test', { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => path.join('test', file));
  t.ok(files.length > 100);
  t.same(
    files.flatMap((file) => emptyPatterns(readFileSync(file, 'utf8')).map((line) => `${file}:${line}`)),
    [],
  );
  t.same(
    emptyPatterns('t.match(a, []);\nt.match(b, { c: [\n[]] }, "d");\nt.match([], { length: 0 });'),
    [1, 3],
  );
});

t.test('an interrupt ends the tests and all their processes, and reports it', async (t) => {
  const pidFile = path.join(t.testdir({}), 'pids');
  const run = spawn(
    process.execPath,
    ['--import=tsx', 'scripts/test.ts', 'test/fixtures/harness/waiting.ts'],
    {
      env: { ...process.env, PID_FILE: pidFile },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  let output = '';
  run.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const pids = (): string[] => (existsSync(pidFile) ? readFileSync(pidFile, 'utf8').split(' ') : []);
  while (run.exitCode === null && pids().length < 2) await sleep(20);
  // A killed process remains as a zombie until its new parent collects it.
  const hasEnded = (pid: string): boolean => {
    try {
      return readFileSync(`/proc/${pid}/stat`, 'latin1').includes(') Z ');
    } catch {
      return true;
    }
  };
  t.same(pids().map(hasEnded), [false, false], 'both processes are running');
  run.kill('SIGINT');
  await once(run, 'close');
  t.equal(run.exitCode, 130);
  t.match(output, /interrupted: ending all tests/);
  t.match(output, /interrupted after 0 of 1 files/);
  t.same(pids().map(hasEnded), [true, true], 'both processes are gone');
});

t.test('a failed file runs again alone, and is reported as flaky if it then passes', async (t) => {
  const run = (...args: string[]): { status: number | null; stdout: string } =>
    spawnSync(process.execPath, ['--import=tsx', 'scripts/test.ts', ...args], {
      encoding: 'utf8',
      env: { ...process.env, WAYBILL_TEST_JOBS: '2', MARKER_FILE: path.join(t.testdir({}), 'ran') },
    });
  const [flaky, failing] = ['test/fixtures/harness/flaky.ts', 'test/fixtures/harness/failing.ts'];
  const lenient = run(flaky);
  t.equal(lenient.status, 0);
  t.match(
    lenient.stdout,
    `FLAKY   ${flaky} › only the second run passes > ran before\n\n1 passed, 0 failed, 1 flaky\n`,
  );
  const both = run(flaky, failing);
  t.equal(both.status, 1, 'a file that fails twice fails the run');
  t.match(both.stdout, `FLAKY   ${flaky}`);
  t.match(both.stdout, `FAILED  ${failing}`);
  const strict = run('--strict', flaky);
  t.equal(strict.status, 1);
  t.match(strict.stdout, `FAILED  ${flaky}`);
});

t.test(
  'a run omits slow tests, a full run has them, and CI adds the matrix suite selected by the commit',
  async (t) => {
    const select = (mode: Mode, isWhole: boolean, matrixTurn?: number): string[] =>
      selectFiles({ mode, names: [], isWhole, matrixTurn });
    const all = select('tests', true);
    const quick = select('tests', false);
    const matrix = select('matrix', false);
    t.ok(all.length > 100 && matrix.length > 3);
    t.same(
      all.filter((file) => !quick.includes(file)),
      all.filter(isSlow),
    );
    const measured = Object.keys(JSON.parse(readFileSync('scripts/test/costs.json', 'utf8')) as object);
    t.same(
      measured.filter((file) => !all.includes(file)),
      [],
      'each recorded cost belongs to a file',
    );
    t.ok(quick.includes('test/spec/bundle-cli.test.ts'), 'the specification is never omitted');
    t.ok(all.every((file) => !file.startsWith('test/matrix/')));
    const chosen = matrix.map((_, turn) =>
      select('tests', true, matrix.length * 7 + turn).filter((file) => !all.includes(file)),
    );
    t.same(chosen.flat(), matrix, 'each suite has its turn');
    const exhaustive = select('exhaustive', false);
    t.ok(exhaustive.includes('test/faults/s3-walk.test.ts') && exhaustive.length < all.length / 3);
  },
);

t.test('the seed determines the order of the slow tests', async (t) => {
  const files = ['a', 'b', 'c', 'd', 'e', 'f'];
  t.same(shuffled(files, 1).toSorted(), files);
  t.same(shuffled(files, 1), shuffled(files, 1));
  t.ok(
    files.some((_, seed) => shuffled(files, seed)[0] !== shuffled(files, seed + 1)[0]),
    'seeds differ',
  );
});

t.test('a test is selected by its file, its directory or its short name', async (t) => {
  const named = (name: string): string[] => selectFiles({ mode: 'tests', names: [name], isWhole: false });
  t.same(named('test/core/lib/paths.test.ts'), ['test/core/lib/paths.test.ts']);
  t.same(named('core/lib/paths'), ['test/core/lib/paths.test.ts']);
  t.same(named('core/catalog/lease'), named('test/core/catalog/lease'));
  t.ok(named('core/catalog/lease').length > 1);
  t.same(named('cli/mistakes'), ['test/cli/mistakes.test.ts'], 'and not the directory with that name');
  t.throws(() => named('core/absent'), new SelectionError('no test file or directory is called core/absent'));
  t.throws(() => named('test/fixtures'), new SelectionError('no test file is below test/fixtures'));
});

t.test('each commit has its own constant seed', async (t) => {
  t.equal(seedOf('0000010aaaa'), 16);
  t.not(seedOf('0123456789'), seedOf('1123456789'));
});

t.test('an exhaustive suite is resumed only if it passed on the same sources', async (t) => {
  const file = path.join(t.testdir({}), 'results.json');
  const result: FileResult = {
    ...{
      file: 'test/faults/a.test.ts',
      passed: 7,
      failures: [],
      skipped: [],
      flaky: [],
      stderr: '',
      exit: '',
    },
    ...{ ms: 1500, processorMs: 900, reports: ['12 points walked', '3 kills'] },
  };
  const results = exhaustiveResults(file, { commit: 'abc', label: 'abc' });
  t.notOk(results.hasPassed(result.file));
  results.record(result);
  t.ok(results.hasPassed(result.file));
  t.notOk(
    exhaustiveResults(file, { commit: 'abc', label: 'abc+1f' }).hasPassed(result.file),
    'other sources',
  );
  t.match(results.table(), /^faults\/a +abc +\S+Z +2 s +7 passed +12 points walked\n +3 kills$/m);
  results.record({ ...result, failures: [{ name: 'x', detail: '' }] });
  t.notOk(results.hasPassed(result.file), 'a failed suite runs again');
  t.match(results.table(), /1 FAILED/);
});

t.test('a machine without /etc/hosts gets one with localhost', async (t) => {
  const hosts = path.join(t.testdir({}), 'hosts');
  const said: string[] = [];
  const name = (file: string): void => nameLocalhost(file, (line) => said.push(line));
  name(hosts);
  t.equal(readFileSync(hosts, 'utf8'), '127.0.0.1 localhost\n');
  name(hosts);
  t.equal(said.length, 1, 'an existing one stays');
  name(path.join(hosts, 'in-a-file'));
  t.match(said, [/^wrote .*hosts, which was missing/, /missing, so tests cannot connect.*as root/]);
});
