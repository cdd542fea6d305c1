import path from 'node:path';
import { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { bullmqEndedSessions } from '../../../src/workers/bullmq/bullmq-sessions.ts';
import { openQueueStore } from '../../../src/workers/embedded/queue-store.ts';
import { type EndedSessions, endedSessionsBook } from '../../../src/workers/queue/ended-sessions.ts';
import { freePort } from '../../services/free-port.ts';
import { startRedis } from '../../services/redis.ts';
import { manualClock } from '../manual-clock.ts';

const later = (): Date => new Date(Date.now() + 3_600_000);

async function keeps(t: Test, sessions: EndedSessions): Promise<void> {
  t.same(await sessions.among(['a']), []);
  await sessions.add('a', later());
  t.same(await sessions.among(['b', 'a', 'c']), ['a']);
  t.same(await sessions.among(['b']), []);
  t.same(await sessions.among([]), []);
  const uses = await Promise.all([1, 2, 3].map(() => sessions.addOnce('id-token-1', later())));
  t.same(uses.sort(), [false, false, true], 'an ID token is used once');
}

t.test('a process keeps ended sessions until they would have expired', async (t) => {
  const clock = manualClock();
  const written: [string, boolean][] = [];
  const write = async (id: string, expiresAt: Date | null): Promise<void> =>
    void written.push([id, expiresAt !== null]);
  const sessions = endedSessionsBook({ clock, write });
  await sessions.add('a', new Date(clock.now().getTime() + 1_000));
  t.same(await sessions.among(['a']), ['a']);
  await clock.advance(1_000);
  await sessions.add('b', later());
  t.same(await sessions.among(['a']), []);
  t.same(written, [
    ['a', true],
    ['a', false],
    ['b', true],
  ]);
});

t.test('uses of ID tokens are refused when the book is full, and logouts are not', async (t) => {
  const clock = manualClock();
  const end = new Date(clock.now().getTime() + 1_000);
  const left = Array.from({ length: 100_000 }, (_, index): [string, Date] => [`id-token-${index}`, end]);
  const full = endedSessionsBook({ clock, left });
  await t.rejects(full.addOnce('another', end), { code: 'server_busy' });
  await full.add('session', later());
  t.same(await full.among(['session']), ['session']);
  await clock.advance(1_000);
  t.equal(await full.addOnce('another', later()), true, 'after their expiry');
});

t.test('the embedded queue keeps ended sessions over a restart', async (t) => {
  const directory = path.join(t.testdir(), 'queue');
  const open = () =>
    openQueueStore({ directory, staging: t.testdirName, clock: systemClock, log: silentLog });
  const before = await open();
  await keeps(t, before.endedSessions);
  await before.close();
  const after = await open();
  t.teardown(() => after.close());
  t.same(await after.endedSessions.among(['a']), ['a']);
  t.equal(await after.endedSessions.addOnce('id-token-1', later()), false, 'used before the restart');
});

t.test('keeps ended sessions in Redis for all hosts, also while one of several is unreachable', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.close());
  const servers = [
    { url: `redis://127.0.0.1:${await freePort()}`, urlEnv: 'AWAY' },
    { url: redis.url, urlEnv: 'REDIS_URL' },
  ];
  const open = (some: typeof servers): EndedSessions => {
    const sessions = bullmqEndedSessions({ clock: systemClock, servers: some, prefix: 'waybill' });
    t.teardown(() => sessions.close());
    return sessions;
  };
  await keeps(t, open(servers));
  t.same(await open(servers.slice(1)).among(['a']), ['a'], 'another host');
  t.equal(await open(servers.slice(1)).addOnce('id-token-1', later()), false, 'used on another host');
  await t.rejects(open(servers.slice(0, 1)).addOnce('id-token-3', later()), { code: 'queue_unavailable' });
  const other = new Redis(redis.url);
  t.teardown(() => other.disconnect());
  const sessions = open(servers.slice(1));
  await sessions.among(['a']);
  await other.config('RESETSTAT');
  const many = Array.from({ length: 500 }, (_, index) => `stream-${index}`);
  t.same(await sessions.among([...many, 'a']), ['a']);
  const stats = await other.info('commandstats');
  t.match(stats, /cmdstat_mget:calls=1,/, 'one command for all');
  t.notMatch(stats, /cmdstat_(?:get|exists):/);
  await t.rejects(open(servers.slice(0, 1)).among(['a']), { code: 'queue_unavailable' });
});
