import { execFileSync } from 'node:child_process';
import { rm, writeFile } from 'node:fs/promises';
import t from 'tap';
import { newReadiness } from '../../../src/api/daemon/readiness.ts';
import { stageUpload } from '../../../src/core/bundle/stage-upload.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { bundleTar } from '../../fixtures/tar.ts';
import { mountTmpfs } from '../../services/tmpfs.ts';
import { manualClock } from '../../workers/manual-clock.ts';
import { connect, startApi, upload, uploadHead } from '../harness.ts';

const body = bundleTar({ 'index.html': 'x' }, { name: 'session-1' });
const settings = { stage: stageUpload, maxUploadSize: 100_000 };

t.test('a deleted staging directory is recreated by an upload or a health check', async (t) => {
  const { origin, stagingDirectory, staged } = await startApi(t, settings);
  await rm(stagingDirectory, { recursive: true });
  t.equal((await upload(origin, { body })).status, 202);
  t.equal((await staged()).length, 1);
  await rm(stagingDirectory, { recursive: true });
  t.equal((await fetch(`${origin}/healthz`)).status, 200);
  t.same(await staged(), [], 'the files of the test write are gone');
});

t.test('while staging is unusable, uploads and readiness are 503', async (t) => {
  const { origin, stagingDirectory, lines } = await startApi(t, settings);
  await rm(stagingDirectory, { recursive: true });
  await writeFile(stagingDirectory, 'a file where the directory was');
  for (const response of [await upload(origin, { body }), await fetch(`${origin}/healthz`)]) {
    t.equal(response.status, 503);
    t.match(response.headers.get('retry-after'), /^\d+$/);
    const text = await response.text();
    t.match(JSON.parse(text), { code: 'staging_unavailable', retryable: true });
    t.match(text, /uploads cannot be staged: E[A-Z]+/);
    t.notMatch(text, stagingDirectory, 'only the log has the path');
  }
  const failures = lines.filter(({ message }) => message === 'request failed');
  t.equal(failures.length, 2);
  t.match(String((failures[0]?.fields['err'] as { cause: unknown }).cause), stagingDirectory);
  await rm(stagingDirectory);
  t.equal((await fetch(`${origin}/healthz`)).status, 200);
  t.equal((await upload(origin, { body })).status, 202);
});

t.test('while staging is read-only, uploads and readiness are 503', async (t) => {
  const { origin, stagingDirectory } = await startApi(t, settings);
  await mountTmpfs(t, stagingDirectory, '64m');
  const remount = (how: 'ro' | 'rw'): unknown =>
    execFileSync('mount', ['-o', `remount,${how}`, stagingDirectory]);
  remount('ro');
  for (const response of [await upload(origin, { body }), await fetch(`${origin}/readyz`)]) {
    t.equal(response.status, 503);
    t.match(await response.json(), { code: 'staging_unavailable', detail: /: EROFS/ });
  }
  remount('rw');
  t.equal((await fetch(`${origin}/readyz`)).status, 200);
  t.equal((await upload(origin, { body })).status, 202);
});

t.test('an upload whose staging is deleted while it is received is 503, not an internal error', async (t) => {
  const { origin, stagingDirectory, staged } = await startApi(t, settings);
  const { socket, until } = await connect(t, origin);
  socket.write(uploadHead({ 'Content-Length': body.length }));
  socket.write(body.subarray(0, 512));
  while ((await staged()).length === 0) await new Promise((resolve) => setImmediate(resolve));
  await rm(stagingDirectory, { recursive: true });
  socket.write(body.subarray(512));
  t.match(await until(/\r\n\r\n\{.*\}/), /^HTTP\/1.1 503 [^]*"code":"staging_unavailable"/);
});

t.test('readiness names each check with its state, the time of the change, and a hint', async (t) => {
  const { origin, stagingDirectory, lines } = await startApi(t, { ...settings, weatherIsUp: false });
  const ask = async (path = '/readyz') => {
    const response = await fetch(`${origin}${path}`);
    const text = await response.text();
    t.notMatch(text, stagingDirectory);
    const { checks } = JSON.parse(text) as { checks: Record<string, string>[] };
    return {
      status: response.status,
      checks,
      of: (name: string) => checks.find((one) => one['name'] === name),
    };
  };
  const before = await ask();
  t.equal(before.status, 200);
  t.match(before.checks, [
    { name: 'queue', state: 'ok' },
    { name: 'staging', state: 'ok' },
    { name: 'room', state: 'ok' },
    {
      name: 'weather',
      state: 'degraded',
      code: 'database_unavailable',
      hint: /check that the database runs/,
    },
  ]);
  t.equal(before.checks.length, 4);
  t.same(before.of('queue'), { name: 'queue', state: 'ok', since: before.of('queue')?.['since'] });

  await rm(stagingDirectory, { recursive: true });
  await writeFile(stagingDirectory, 'a file where the directory was');
  const away = await ask();
  t.equal(away.status, 503);
  t.match(away.of('staging'), {
    state: 'failing',
    code: 'staging_unavailable',
    detail: /uploads cannot be staged: E[A-Z]+/,
    hint: /check that server\.staging\.directory exists/,
  });
  t.equal(away.of('queue')?.['since'], before.of('queue')?.['since']);
  t.ok((away.of('staging')?.['since'] ?? '') > (before.of('staging')?.['since'] ?? ''));
  const gauges = await (await fetch(`${origin}/metrics`)).text();
  t.match(gauges, /^waybill_ready 0$/m);
  t.match(gauges, /^waybill_check_up\{check="staging"\} 0$/m);
  t.match(gauges, /^waybill_check_up\{check="queue"\} 1$/m);

  await rm(stagingDirectory);
  const again = await ask('/healthz');
  t.equal(again.status, 200);
  t.match(again.of('staging'), { state: 'ok' });
  t.ok((again.of('staging')?.['since'] ?? '') > (away.of('staging')?.['since'] ?? ''));
  t.match(await (await fetch(`${origin}/metrics`)).text(), /^waybill_ready 1$/m);
  const messages = lines
    .filter(({ fields }) => fields['check'] === 'staging')
    .map(({ level, message }) => [level, message]);
  t.same(messages, [
    ['warn', 'a health check fails'],
    ['info', 'a health check succeeds again'],
  ]);
});

t.test(
  'a check that does not answer is reported after five seconds, and not repeated meanwhile',
  async (t) => {
    const clock = manualClock();
    let begun = 0;
    let answer: () => void = () => undefined;
    const prove = (): Promise<void> => {
      begun += 1;
      return new Promise((resolve) => (answer = resolve));
    };
    const check = {
      name: 'staging' as const,
      timeoutCode: 'staging_unavailable' as const,
      remedy: 'look',
      check: prove,
    };
    const readiness = newReadiness({
      clock,
      log: silentLog,
      checks: [check],
      isDraining: () => false,
      weatherHealth: null,
    });
    for (const times of [1, 2]) {
      const looking = readiness.look();
      await clock.advance(5_000);
      const { checks, failure } = await looking;
      t.match(failure, { code: 'staging_unavailable', message: 'no answer within 5 s' }, `check ${times}`);
      t.match(checks, [{ state: 'failing', since: '2026-11-20T02:04:39.000Z', hint: 'look' }]);
    }
    t.equal(begun, 1);
    answer();
    await clock.advance(0);
    const looking = readiness.look();
    answer();
    t.match(await looking, { checks: [{ state: 'ok' }], failure: null });
    t.equal(begun, 2);
  },
);

t.test('hides unexpected errors of a check', async (t) => {
  for (const error of [new Error('/srv/secret'), new WaybillError('storage_permanent', '/srv/secret')]) {
    const prove = (): Promise<void> => Promise.reject(error);
    const checks = [
      { name: 'queue' as const, timeoutCode: 'queue_unavailable' as const, remedy: 'look', check: prove },
    ];
    const { origin } = await startApi(t, { checks });
    const response = await fetch(`${origin}/readyz`);
    const text = await response.text();
    t.equal(response.status, 500);
    t.notMatch(text, 'secret');
    t.match(JSON.parse(text), { checks: [{ state: 'failing', code: 'internal_error', hint: 'look' }] });
  }
});
