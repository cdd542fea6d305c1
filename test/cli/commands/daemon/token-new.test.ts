import { createHash } from 'node:crypto';
import t from 'tap';
import { document, waybill } from '../../process.ts';

t.test('token new prints a token, and the digest and setting for the daemon', (t) => {
  const place = t.testdir({});
  const made = document(t, waybill(['token', 'new', 'ci', '--format', 'json'], { cwd: place })) as {
    token: string;
    value: string;
  };
  t.match(made, { kind: 'token_new', id: 'ci', token: /^wb_[a-z2-7]{39}$/, value_env: 'WAYBILL_TOKEN_CI' });
  t.equal(made.value, `sha256:${createHash('sha256').update(made.token).digest('hex')}`);
  const ended = waybill(['token', 'new', 'ci-2', '-p', 'maps', '-p', 'docs'], { cwd: place });
  t.match(ended, {
    status: 0,
    stdout: /^wb_[a-z2-7]{39}\n$/,
    stderr: /\{ id: ci-2, value_env: WAYBILL_TOKEN_CI_2, pipelines: \[maps, docs\] \}/,
  });
  t.notOk(ended.stderr.includes(ended.stdout.trim()), 'the token is on stdout only');
  t.match(waybill(['token', 'new', 'CI'], { cwd: place }), { status: 2, stderr: /"CI" is not a valid id/ });
  t.match(waybill(['token', 'new', 'ci', '-p', 'a b'], { cwd: place }), { status: 2, stderr: /"a b"/ });
  t.end();
});

t.test('push reports a mistyped token before it connects', (t) => {
  const place = t.testdir({ site: { 'a.txt': 'a' } });
  const { token } = document(t, waybill(['token', 'new', 'ci', '--format', 'json'], { cwd: place })) as {
    token: string;
  };
  const mistyped = token.replace(/.$/, token.endsWith('a') ? 'b' : 'a');
  const options = { cwd: place, env: { WAYBILL_TOKEN: mistyped } };
  t.match(
    waybill(['push', 'site', '--name', 'x', '--to', 'http://127.0.0.1:9', '--pipeline', 'p'], options),
    {
      status: 2,
      stderr: /the token is incomplete or mistyped: its checksum does not match\n.*WAYBILL_TOKEN/,
    },
  );
  t.end();
});
