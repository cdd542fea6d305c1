import t from 'tap';
import { columns, makeOutput } from '../../src/cli/output/output.ts';
import { finding } from '../../src/core/lib/errors.ts';

t.test('warnings of the core are written to stderr in both formats, and lower levels are not', async (t) => {
  const err = t.capture(process.stderr, 'write', () => true);
  for (const json of [false, true]) {
    const { log } = makeOutput({ json, color: false });
    log.debug({}, 'read');
    log.info({}, 'looking again');
    log.warn({ storage: 'local storage "web"', err: new Error('EIO\n') }, 'the lease could not be renewed');
    const line = 'warning  local storage "web": the lease could not be renewed (EIO\\n)\n';
    t.same(
      err().map(({ args }) => args[0]),
      [line],
    );
  }
});

t.test('a warning of the result is not printed again if it was logged', async (t) => {
  const err = t.capture(process.stderr, 'write', () => true);
  const { log, result } = makeOutput({ json: false, color: false });
  log.warn({ destination: 'web' }, 'the clock is ahead');
  const warnings = ['the clock is ahead', 'the bundle is old'].map((text) => finding('warning', 'x', text));
  result('run', { warnings }, () => undefined);
  t.same(
    err().map(({ args }) => args[0]),
    ['warning  the clock is ahead\n', 'warning  the bundle is old\n'],
  );
});

t.test(
  'columns are as wide as their widest cell without colors, and lines have no trailing blanks',
  async (t) => {
    t.same(
      columns(
        [
          ['a', '\u001b[32mlonger\u001b[39m', ''],
          ['bcd', 'x', 'last'],
        ],
        ' ',
      ),
      [' a    \u001b[32mlonger\u001b[39m', ' bcd  x       last'],
    );
  },
);
