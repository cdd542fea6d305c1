import { spawnSync } from 'node:child_process';
import t from 'tap';
import { quietDomains } from '../scripts/test/run-file.ts';

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
