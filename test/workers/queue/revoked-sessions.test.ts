import path from 'node:path';
import { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { bullmqRevokedSessions } from '../../../src/workers/bullmq/bullmq-sessions.ts';
import { openQueueStore } from '../../../src/workers/embedded/queue-store.ts';
import {
  inProcessRevokedSessions,
  type RevokedSessions,
} from '../../../src/workers/queue/revoked-sessions.ts';
import { freePort } from '../../services/free-port.ts';
import { startRedis } from '../../services/redis.ts';
import { manualClock } from '../manual-clock.ts';

const later = (): Date => new Date(Date.now() + 3_600_000);

async function keeps(t: Test, sessions: RevokedSessions): Promise<void> {
  t.same([...(await sessions.findRevoked(['a'])).keys()], []);
  await sessions.add('a', later());
  t.same([...(await sessions.findRevoked(['b', 'a', 'c'])).keys()], ['a']);
  t.same([...(await sessions.findRevoked(['b'])).keys()], []);
  t.same([...(await sessions.findRevoked([])).keys()], []);
  const uses = await Promise.all([1, 2, 3].map(() => sessions.addOnce('id-token-1', later())));
  t.same(uses.sort(), [false, false, true], 'an ID token is used once');
}

t.test('a process stores ended sessions until they would have expired', async (t) => {
  const clock = manualClock();
  const written: [string, boolean][] = [];
  const write = async (id: string, expiresAt: Date | null): Promise<void> =>
    void written.push([id, expiresAt !== null]);
  const sessions = inProcessRevokedSessions({ clock, write });
  await sessions.add('a', new Date(clock.now().getTime() + 1_000));
  t.same([...(await sessions.findRevoked(['a'])).keys()], ['a']);
  await clock.advance(1_000);
  await sessions.add('b', later());
  t.same([...(await sessions.findRevoked(['a'])).keys()], []);
  t.same(written, [
    ['a', true],
    ['a', false],
    ['b', true],
  ]);
});

t.test('uses of ID tokens are rejected when the book is full, and logouts are not', async (t) => {
  const clock = manualClock();
  const end = new Date(clock.now().getTime() + 1_000);
  const restored = Array.from({ length: 100_000 }, (_, index): [string, Date] => [`id-token-${index}`, end]);
  const full = inProcessRevokedSessions({ clock, restored });
  await t.rejects(full.addOnce('another', end), { code: 'server_busy' });
  await full.add('session', later());
  t.same([...(await full.findRevoked(['session'])).keys()], ['session']);
  await clock.advance(1_000);
  t.equal(await full.addOnce('another', later()), true, 'after their expiry');
});

t.test('the embedded queue keeps ended sessions across a restart', async (t) => {
  const directory = path.join(t.testdir(), 'queue');
  const open = () =>
    openQueueStore({ directory, staging: t.testdirName, clock: systemClock, log: silentLog });
  const before = await open();
  await keeps(t, before.revokedSessions);
  await before.close();
  const after = await open();
  t.teardown(() => after.close());
  t.same([...(await after.revokedSessions.findRevoked(['a'])).keys()], ['a']);
  t.equal(await after.revokedSessions.addOnce('id-token-1', later()), false, 'used before the restart');
});

t.test('Redis stores ended sessions for all hosts', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.close());
  const unreachable = `redis://127.0.0.1:${await freePort()}`;
  const open = (url = redis.url): RevokedSessions => {
    const sessions = bullmqRevokedSessions({
      clock: systemClock,
      url,
      urlEnv: 'REDIS_URL',
      prefix: 'waybill',
    });
    t.teardown(() => sessions.close());
    return sessions;
  };
  await keeps(t, open());
  t.same([...(await open().findRevoked(['a'])).keys()], ['a'], 'another host');
  t.equal(await open().addOnce('id-token-1', later()), false, 'used on another host');
  await t.rejects(open(unreachable).addOnce('id-token-3', later()), { code: 'queue_unavailable' });
  const other = new Redis(redis.url);
  t.teardown(() => other.disconnect());
  const sessions = open();
  await sessions.findRevoked(['a']);
  await other.config('RESETSTAT');
  const many = Array.from({ length: 500 }, (_, index) => `stream-${index}`);
  t.same([...(await sessions.findRevoked([...many, 'a'])).keys()], ['a']);
  const stats = await other.info('commandstats');
  t.match(stats, /cmdstat_mget:calls=1,/, 'one command for all');
  t.notMatch(stats, /cmdstat_(?:get|exists):/);
  await t.rejects(open(unreachable).findRevoked(['a']), { code: 'queue_unavailable' });
});
