import t from 'tap';
import { watchLease } from '../../../../src/core/catalog/lease/heartbeat.ts';
import { defaultLeaseTimes as times } from '../../../../src/core/catalog/lease/lease.ts';

t.test('a lease is stale exactly after staleAfterMs without a change', async (t) => {
  const judge = watchLease(times, 1_000);
  t.equal(judge('a', 1_000), 'wait');
  t.equal(judge('a', 1_000 + times.staleAfterMs - 1), 'wait');
  t.equal(judge('a', 1_000 + times.staleAfterMs), 'stale');
});

t.test('a renewal restarts the time and makes the contender fail after its wait', async (t) => {
  const startedMs = 1_000;
  const judge = watchLease(times, startedMs);
  t.equal(judge('a', startedMs), 'wait');
  t.equal(judge('b', startedMs + times.waitMs - 1), 'wait');
  t.equal(judge('b', startedMs + times.waitMs), 'busy');
  t.equal(judge('b', startedMs + times.waitMs - 1 + times.staleAfterMs), 'stale');
});
