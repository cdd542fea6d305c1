import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { bundle } from '../scripts/test/bundle.ts';
import { endLeftovers, leftDirectories } from '../scripts/test/leftovers.ts';
import { quietDomains, runFile } from '../scripts/test/run-file.ts';
import { watchSilence } from '../scripts/test/silence.ts';
import { ensureInstalled } from './services/debian.ts';
import { emptyPatterns } from './support/empty-patterns.ts';

t.test('an error that nothing awaits fails the test that it comes from', async (t) => {
  for (const args of [[], [quietDomains]]) {
    const { status, stdout } = spawnSync(
      process.execPath,
      [...args.map((url) => `--import=${url}`), 'test/fixtures/harness/uncaught.mjs'],
      { encoding: 'utf8', env: { PATH: process.env['PATH'], TAP: '1' } },
    );
    t.equal(status, 1);
    const told = stdout.match(/^ *(not )?ok .*?(?= #|$)|tapCaught: .*/gm)?.map((line) => line.trim());
    t.same(
      told,
      [
        'not ok 1 - unhandled',
        'tapCaught: unhandledRejection',
        'not ok 1 - a rejection that nobody handles',
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

t.test('a failure names its place in the source, and shows it', async (t) => {
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
  t.notMatch(`${failure}${exception}`, /bundles-|node_modules/, 'and nothing of what runs it');
});

t.test(
  'a file is not taken for a silent one after its end, though its last output comes later',
  async (t) => {
    let silences = 0;
    const silence = watchSilence(1, () => (silences += 1));
    silence.end();
    silence.heard();
    await sleep(20);
    t.equal(silences, 0);
    watchSilence(1, () => (silences += 1)).heard();
    while (silences === 0) await sleep(1);
  },
);

t.test('no test expects an empty list in a way that any list fulfils', async (t) => {
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
