import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import type { RunRecord } from '../../src/workers/queue/run-record.ts';
import { waybill } from '../cli/process.ts';
import { bundleTar, manifestOf } from '../fixtures/tar.ts';
import { type FakeTime, fakeTime } from '../services/faketime.ts';
import {
  acceptedId,
  adminToken,
  follow,
  launch,
  launchApi,
  layOut,
  type Place,
  token,
  upload,
} from './processes.ts';

/*
 * The built program with a clock that is two days ahead and then corrected. Only the system clock changes.
 * docs/design/clocks.md lists all stored times and their tests.
 */

const aheadSeconds = 2 * 86_400;

/** Returns the offset near `seconds` with which a minute ends in ten seconds, for the start of a daemon. */
function beforeMinute(seconds: number): number {
  const second = Math.floor(Date.now() / 1000 + seconds) % 60;
  return seconds + 50 - second;
}

/** A directory with an upload pipeline p1, and `nightly`, which has a schedule. */
function scheduledPlace(t: Test, { env }: FakeTime): Place {
  const place = layOut(t, { embedded: './queue', http: 'retention: 10s', env });
  mkdirSync(path.join(place.root, 'source'));
  writeFileSync(path.join(place.root, 'source/a.txt'), 'a');
  writeFileSync(path.join(place.root, 'source/manifest.json'), manifestOf(['a.txt'], { name: 'source' }));
  const nightly = `  - {id: nightly, source: {backend: local, path: ./source}, schedule: '* * * * *', destinations: [{id: web, backend: local, path: ./public/nightly}]}\n`;
  const yaml = readFileSync(place.config, 'utf8').replace('pipelines: [p1]', 'pipelines: [p1, nightly]');
  writeFileSync(place.config, yaml + nightly);
  return place;
}

t.test('a daemon whose clock was two days ahead continues after the clock is corrected', async (t) => {
  const time = await fakeTime(t);
  const place = scheduledPlace(t, time);
  time.shift(beforeMinute(aheadSeconds));
  let daemon = await launchApi(t, place, ['serve']);
  const publish = async (name: string, createdMs: number): Promise<RunRecord> => {
    const created = new Date(createdMs).toISOString();
    const body = bundleTar({ 'a.txt': name }, { name, created });
    return follow(daemon.url, await acceptedId(await upload(daemon.url, 'p1', body)));
  };
  const aheadMs = (): number => Date.now() + aheadSeconds * 1000;
  const first = await publish('first', aheadMs());
  t.equal(first.status, 'succeeded');
  t.same(first.warnings, []);
  t.ok(Date.parse(first.accepted_at) > Date.now() + 86_400_000, 'the clock is ahead');
  const ticked = await scheduledRun(daemon.url, (tick) => tick > Date.now() + 86_400_000);
  t.equal(ticked.status, 'succeeded');
  const cookie = await logIn(daemon.url);
  t.equal(await visit(daemon.url, cookie), 200);

  time.shift(0);
  const isNow = (tick: number): boolean => tick < Date.now() + 600_000;
  await scheduledRun(daemon.url, isNow);
  t.not(await visit(daemon.url, cookie), 200, 'a session that begins in the future has ended');
  t.equal(await visit(daemon.url, await logIn(daemon.url)), 200);
  t.match(await publish('second', aheadMs()), {
    status: 'succeeded',
    warnings: [{ code: 'created_in_future' }],
  });
  const metrics = await (await fetch(`${daemon.url}metrics`)).text();
  t.match(metrics, /^waybill_schedule_future_ticks_total\{pipeline="nightly"\} [1-9]/m);
  t.match(metrics, /^waybill_future_bundles_total\{[^}]*\} 1$/m);

  // An earlier process leaves a decided tick, a record and a session from the future.
  t.equal(await daemon.kill('SIGTERM'), 0);
  time.shift(beforeMinute(aheadSeconds));
  daemon = await launchApi(t, place, ['serve']);
  await scheduledRun(daemon.url, (tick) => tick > Date.now() + 86_400_000);
  const late = await logIn(daemon.url);
  const last = await publish('third', Date.now());
  t.equal(await daemon.kill('SIGTERM'), 0);
  time.shift(beforeMinute(0));
  daemon = await launchApi(t, place, ['serve']);
  t.equal((await fetch(`${daemon.url}runs/${last.run_id}`)).status, 200, 'its retention begins now');
  await scheduledRun(daemon.url, isNow);
  t.not(await visit(daemon.url, late), 200);
  while ((await fetch(`${daemon.url}runs/${last.run_id}`)).status !== 404) await pause();
  t.equal(await daemon.kill('SIGTERM'), 0);
});

for (const [when, before, after] of [
  ['was ahead', aheadSeconds, 0],
  ['is ahead now', 0, aheadSeconds],
] as const)
  t.test(`takes over from a publisher that died, if the clock ${when}`, async (t) => {
    const time = await fakeTime(t);
    const root = t.testdir({ source: { 'large.bin': 'x'.repeat(1 << 20) } });
    const manifest = manifestOf(['large.bin'], { name: 'one' });
    writeFileSync(path.join(root, 'source/manifest.json'), manifest);
    const config = path.join(root, 'waybill.yml');
    const yaml = (more: string): string =>
      `pipelines: [{id: maps, source: {backend: local, path: ./source}, destinations: [{id: web, backend: local, path: ./public${more}}]}]\n`;
    writeFileSync(config, yaml(', max_rate: 1KiB'));
    time.shift(before);
    const dead = launch(t, { root, config, env: time.env, pipelines: ['maps'] }, ['run']);
    const lock = path.join(root, 'public/.publisher.lock');
    while (!existsSync(lock)) await pause();
    await dead.kill('SIGKILL');
    time.shift(after);
    writeFileSync(config, yaml(''));
    const ended = waybill(['run', '--config', config], { env: time.env });
    t.equal(ended.status, 0, ended.stderr);
    const verified = waybill(['verify', '--config', config], { env: time.env });
    t.equal(verified.status, 0, verified.stdout);
  });

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 50));

/** Returns an ended run whose tick matches. */
async function scheduledRun(url: string, matches: (tickMs: number) => boolean): Promise<RunRecord> {
  for (;;) {
    const headers = { authorization: `Bearer ${token}` };
    const page = await fetch(`${url}v1/runs?pipeline=nightly`, { headers });
    const { runs } = (await page.json()) as { runs: RunRecord[] };
    const found = runs.find(
      ({ triggered_by: { tick }, finished_at: at }) =>
        tick !== null && at !== null && matches(Date.parse(tick)),
    );
    if (found !== undefined) return found;
    await pause();
  }
}

/** Logs in to the console and returns the cookie. */
async function logIn(url: string): Promise<string> {
  const { origin } = new URL(url);
  const body = new URLSearchParams({ token: adminToken });
  const page = await fetch(`${url}console/login`, {
    method: 'POST',
    redirect: 'manual',
    headers: { origin },
    body,
  });
  return page.headers.get('set-cookie')?.split(';')[0] ?? '';
}

async function visit(url: string, cookie: string): Promise<number> {
  return (await fetch(`${url}console`, { headers: { cookie }, redirect: 'manual' })).status;
}
