import t from 'tap';
import { startHeartbeat } from '../../../src/core/lease/heartbeat.ts';
import { defaultLeaseTimes } from '../../../src/core/lease/lease.ts';
import { silentLog } from '../../../src/core/log.ts';
import { beatingClock } from './beating-clock.ts';

const times = defaultLeaseTimes;
const label = { label: 'memory' };

t.test('renews at every beat, until it is stopped', async (t) => {
  const clock = beatingClock();
  let renewals = 0;
  const heartbeat = startHeartbeat(label, { clock, log: silentLog, times }, async () => {
    renewals += 1;
  });
  for (let beat = 0; beat < 5; beat += 1) await clock.beat();
  t.equal(renewals, 5);
  heartbeat.check();
  t.notOk(heartbeat.signal.aborted);
  await heartbeat.stop();
});

t.test('a failed renewal is tried again; too long without one loses the lease', async (t) => {
  const clock = beatingClock();
  const heartbeat = startHeartbeat(label, { clock, log: silentLog, times }, async () =>
    Promise.reject(new Error('away')),
  );
  for (let beat = 0; beat < 3; beat += 1) await clock.beat();
  t.notOk(heartbeat.signal.aborted, '90 seconds are allowed');
  heartbeat.check();
  await clock.beat();
  t.ok(heartbeat.signal.aborted);
  t.throws(() => heartbeat.check(), { code: 'lease_lost', message: /could not be renewed in time/ });
  await heartbeat.stop();
});

t.test('a process that was suspended for too long finds out by itself', async (t) => {
  const clock = beatingClock();
  const heartbeat = startHeartbeat(label, { clock, log: silentLog, times }, async () => undefined);
  await clock.pass(times.abortAfterMs);
  heartbeat.check();
  await clock.pass(1);
  t.throws(() => heartbeat.check(), { code: 'lease_lost', message: /did not run for too long/ });
  await heartbeat.stop();
});
