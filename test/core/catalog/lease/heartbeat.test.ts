import t from 'tap';
import { Heartbeat } from '../../../../src/core/catalog/lease/heartbeat.ts';
import { defaultLeaseTimes, leaseLost } from '../../../../src/core/catalog/lease/lease.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import { beatingClock } from './beating-clock.ts';

const times = defaultLeaseTimes;
const label = { label: 'memory' };

t.test('renews at every beat until it is stopped', async (t) => {
  const clock = beatingClock();
  let renewals = 0;
  const heartbeat = new Heartbeat(label, { clock, log: silentLog, times });
  heartbeat.renewBy(async () => {
    renewals += 1;
  }, clock.monotonic());
  for (let beat = 0; beat < 5; beat += 1) await clock.beat();
  t.equal(renewals, 5);
  heartbeat.check();
  t.notOk(heartbeat.signal.aborted);
  await heartbeat.stop();
});

t.test('retries a failed renewal, and loses the lease after too long without one', async (t) => {
  const clock = beatingClock();
  const heartbeat = new Heartbeat(label, { clock, log: silentLog, times });
  heartbeat.renewBy(async () => Promise.reject(new Error('away')), clock.monotonic());
  for (let beat = 0; beat < 3; beat += 1) await clock.beat();
  t.notOk(heartbeat.signal.aborted, '90 seconds are allowed');
  heartbeat.check();
  await clock.beat();
  t.ok(heartbeat.signal.aborted);
  t.throws(() => heartbeat.check(), { code: 'lease_lost', message: /could not be renewed in time/ });
  await heartbeat.stop();
});

t.test('detects that the process was suspended for too long', async (t) => {
  const clock = beatingClock();
  const heartbeat = new Heartbeat(label, { clock, log: silentLog, times });
  heartbeat.renewBy(async () => undefined, clock.monotonic());
  await clock.pass(times.abortAfterMs);
  heartbeat.check();
  await clock.pass(1);
  t.throws(() => heartbeat.check(), { code: 'lease_lost', message: /suspended for too long/ });
  await heartbeat.stop();
});

t.test('a late beat renews nothing, even before the lease is held', async (t) => {
  const clock = beatingClock();
  const heartbeat = new Heartbeat(label, { clock, log: silentLog, times });
  await clock.beat();
  heartbeat.check();
  await clock.pass(times.abortAfterMs);
  let renewals = 0;
  heartbeat.renewBy(async () => void (renewals += 1), clock.monotonic());
  await clock.beat();
  t.equal(renewals, 0);
  t.throws(() => heartbeat.check(), { code: 'lease_lost', message: /suspended for too long/ });
  await heartbeat.stop();
});

t.test('a renewal that finds another holder loses the lease immediately', async (t) => {
  const clock = beatingClock();
  const heartbeat = new Heartbeat(label, { clock, log: silentLog, times });
  const taken = leaseLost(label, 'another publisher holds it');
  heartbeat.renewBy(async () => Promise.reject(taken), clock.monotonic());
  await clock.beat();
  t.equal(heartbeat.signal.reason, taken);
  await heartbeat.stop();
});

t.test('a lost lease is not renewed again', async (t) => {
  const lost = leaseLost(label, 'another publisher holds it');
  for (const giveUp of ['by its holder', 'by a renewal'] as const) {
    const clock = beatingClock();
    let renewals = 0;
    const heartbeat = new Heartbeat(label, { clock, log: silentLog, times });
    heartbeat.renewBy(async () => {
      renewals += 1;
      if (giveUp === 'by a renewal') throw lost;
    }, clock.monotonic());
    await clock.beat();
    if (giveUp === 'by its holder') heartbeat.lose('for the test');
    await clock.beat();
    t.equal(renewals, 1, giveUp);
    await heartbeat.stop();
  }
});

t.test('stopping waits for the running renewal and prevents further ones', async (t) => {
  const clock = beatingClock();
  let finish = (): void => undefined;
  let renewals = 0;
  const heartbeat = new Heartbeat(label, { clock, log: silentLog, times });
  heartbeat.renewBy(async () => {
    renewals += 1;
    await new Promise<void>((resolve) => (finish = resolve));
  }, clock.monotonic());
  await clock.beat();
  let isStopped = false;
  const stopping = heartbeat.stop().then(() => (isStopped = true));
  await new Promise((resolve) => setImmediate(resolve));
  t.notOk(isStopped, 'a renewal that comes after the release would bring the lease back');
  finish();
  await stopping;
  t.equal(renewals, 1);
});

t.test('the age of a lease counts from the start of the last renewal or of taking it', async (t) => {
  const clock = beatingClock();
  const heartbeat = new Heartbeat(label, { clock, log: silentLog, times });
  let takesMs = 0;
  heartbeat.renewBy(async () => clock.pass(takesMs), clock.monotonic());
  takesMs = times.abortAfterMs;
  await clock.beat();
  heartbeat.check();
  await clock.pass(1);
  t.throws(() => heartbeat.check(), { code: 'lease_lost' }, 'others saw the renewal when it began');
  await heartbeat.stop();

  const late = new Heartbeat(label, { clock, log: silentLog, times });
  late.renewBy(async () => undefined, clock.monotonic() - times.abortAfterMs - 1);
  t.throws(() => late.check(), { code: 'lease_lost', message: /could not be renewed in time/ });
  await late.stop();
});
