import t, { type Test } from 'tap';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { type MemoryQueue, memoryQueue } from '../../../src/workers/memory/memory-queue.ts';
import type { JobProcessor } from '../../../src/workers/queue/job-queue.ts';
import type { Triggers } from '../../../src/workers/queue/trigger.ts';
import { runResult } from '../../contract/queue.ts';
import { type ManualClock, manualClock } from '../manual-clock.ts';
import { newTally, openScheduler, scheduled, until } from './hosts.ts';

const hour = 3_600_000;
const minute = 60_000;

function openQueue(t: Test, clock: ManualClock): { queue: MemoryQueue; ticks: string[] } {
  const queue = memoryQueue({
    clock,
    log: silentLog,
    queueSize: 1,
    maxConcurrency: 10,
    retentionMs: 1_000,
    onExpire: async () => undefined,
  });
  t.teardown(() => queue.close(0));
  const ticks: string[] = [];
  return { queue, ticks };
}

/** Publishes immediately, and records the ticks of its runs. */
const noting =
  (ticks: string[]): JobProcessor =>
  async (job) => {
    if (job.staged === null && job.trigger?.kind === 'schedule')
      ticks.push(`${job.pipelineId} ${job.trigger.tick}`);
    return runResult('ok');
  };

t.test('each tick is one run, beginning with the first one after the start', async (t) => {
  const clock = manualClock(new Date('2026-11-22T15:07:00Z'));
  const { queue, ticks } = openQueue(t, clock);
  await queue.start(noting(ticks));
  const tally = newTally();
  const scheduler = openScheduler(
    queue,
    clock,
    [scheduled('*/15 * * * *'), scheduled('@hourly', {}, 'docs')],
    tally,
  );
  t.same(scheduler.nextRun('maps'), new Date('2026-11-22T15:15:00Z'));
  t.equal(scheduler.nextRun('other'), null);
  await clock.advance(2 * hour);
  t.equal(ticks.filter((tick) => tick.startsWith('maps')).length, 8);
  t.same(
    ticks.filter((tick) => tick.startsWith('docs')),
    ['docs 2026-11-22T16:00:00.000Z', 'docs 2026-11-22T17:00:00.000Z'],
  );
  t.equal(ticks[0], 'maps 2026-11-22T15:15:00.000Z');
  t.equal(new Set(ticks).size, ticks.length, 'none twice');
  t.same(tally.counts, { started: 10 });
  await scheduler.close();
  await clock.advance(hour);
  t.equal(ticks.length, 10, 'nothing starts after the end');
});

t.test('a nightly run starts once in each of the nights when clocks change', async (t) => {
  for (const [start, nights] of [
    [
      '2026-03-27T12:00:00Z',
      ['2026-03-28T01:30:00.000Z', '2026-03-29T01:00:00.000Z', '2026-03-30T00:30:00.000Z'],
    ],
    [
      '2026-10-23T12:00:00Z',
      ['2026-10-24T00:30:00.000Z', '2026-10-25T00:30:00.000Z', '2026-10-26T01:30:00.000Z'],
    ],
  ] as const) {
    const clock = manualClock(new Date(start));
    const { queue, ticks } = openQueue(t, clock);
    await queue.start(noting(ticks));
    const scheduler = openScheduler(queue, clock, [scheduled('30 2 * * *', { timezone: 'Europe/Berlin' })]);
    await clock.advance(72 * hour);
    t.same(
      ticks,
      nights.map((night) => `maps ${night}`),
      start,
    );
    await scheduler.close();
  }
});

t.test('catches up on missed ticks once, or not at all, as configured', async (t) => {
  for (const catchUp of ['none', 'once'] as const) {
    const clock = manualClock(new Date('2026-11-22T15:07:00Z'));
    const { queue, ticks } = openQueue(t, clock);
    await queue.start(noting(ticks));
    const tally = newTally();
    const pipelines = [scheduled('*/15 * * * *', { catchUp })];
    const first = openScheduler(queue, clock, pipelines, tally);
    await clock.advance(10 * minute);
    await first.close();
    await clock.advance(2 * hour + 30 * minute);
    const second = openScheduler(queue, clock, pipelines, tally);
    const decided = catchUp === 'once' ? 2 : 1;
    await until(
      () => tally.counts,
      (counts) => counts['started'] === decided && counts['missed down'] !== undefined,
    );
    await clock.advance(minute);
    const missed = '2026-11-22T17:45:00.000Z';
    t.same(
      ticks,
      ['maps 2026-11-22T15:15:00.000Z', ...(catchUp === 'once' ? [`maps ${missed}`] : [])],
      catchUp,
    );
    t.same(tally.counts, { started: decided, 'missed down': catchUp === 'once' ? 9 : 10 });
    await clock.advance(15 * minute);
    t.equal(ticks.at(-1), 'maps 2026-11-22T18:00:00.000Z', 'and it continues');
    await second.close();
  }
});

t.test('starts a tick up to a minute late, whatever catch_up is set to', async (t) => {
  const clock = manualClock(new Date('2026-11-22T15:07:00Z'));
  const { queue, ticks } = openQueue(t, clock);
  await queue.start(noting(ticks));
  const tally = newTally();
  const pipelines = [scheduled('*/15 * * * *')];
  const first = openScheduler(queue, clock, pipelines, tally);
  await clock.advance(minute);
  await first.close();
  await clock.advance(8 * minute);
  const second = openScheduler(queue, clock, pipelines, tally);
  await until(
    () => ticks.length,
    (count) => count === 1,
  );
  t.same(tally.counts, { started: 1 });
  await second.close();
});

t.test('uncountable ticks count as a thousand', async (t) => {
  const clock = manualClock(new Date('2026-11-22T15:07:00Z'));
  const { queue } = openQueue(t, clock);
  const tally = newTally();
  const pipelines = [scheduled('* * * * *', { catchUp: 'once' })];
  const first = openScheduler(queue, clock, pipelines, tally);
  await until(
    () => queue.triggers.last('maps', 'schedule'),
    (last) => last !== null,
  );
  await first.close();
  await clock.advance(72 * hour);
  const second = openScheduler(queue, clock, pipelines, tally);
  await until(
    () => tally.counts['missed down'],
    (count) => count !== undefined,
  );
  t.same(tally.counts, { started: 1, 'missed down': 1_000 });
  await second.close();
});

t.test(
  'combines a tick during a run with the next one, and counts one of a paused pipeline as missed',
  async (t) => {
    const clock = manualClock(new Date('2026-11-22T15:07:00Z'));
    const { queue, ticks } = openQueue(t, clock);
    let release: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => (release = resolve));
    await queue.start(async (job, context) => {
      await gate;
      return noting(ticks)(job, context);
    });
    const tally = newTally();
    const scheduler = openScheduler(queue, clock, [scheduled('*/15 * * * *', { catchUp: 'once' })], tally);
    await clock.advance(45 * minute);
    t.same(tally.counts, { started: 1, coalesced: 2 });
    release();
    await until(
      () => queue.depth(),
      ({ running }) => running === 0,
    );
    await queue.pause('maps', 'the disk is replaced');
    await clock.advance(30 * minute);
    t.same(tally.counts, { started: 1, coalesced: 2, 'missed paused': 2 });
    await queue.resume('maps');
    await clock.advance(5 * minute);
    t.equal(ticks.length, 1, 'ticks during a pause are not caught up');
    await clock.advance(5 * minute);
    t.same(ticks, ['maps 2026-11-22T15:15:00.000Z', 'maps 2026-11-22T16:30:00.000Z']);
    await scheduler.close();
  },
);

t.test('a new list of pipelines takes effect immediately, and does not affect unchanged ones', async (t) => {
  const clock = manualClock(new Date('2026-11-22T15:07:00Z'));
  const { queue, ticks } = openQueue(t, clock);
  await queue.start(noting(ticks));
  const asked: string[] = [];
  const triggers: Triggers = {
    ...queue.triggers,
    last: (pipelineId, kind) => {
      asked.push(pipelineId);
      return queue.triggers.last(pipelineId, kind);
    },
  };
  const tally = newTally();
  const scheduler = openScheduler(
    { triggers },
    clock,
    [scheduled('*/15 * * * *'), scheduled('@daily', {}, 'docs')],
    tally,
  );
  await clock.advance(10 * minute);
  scheduler.update([scheduled('*/15 * * * *'), scheduled('* * * * *', { catchUp: 'once' }, 'docs')]);
  t.same(scheduler.nextRun('docs'), new Date('2026-11-22T15:18:00Z'));
  await clock.advance(2 * minute);
  t.same(asked, ['maps', 'docs', 'docs'], 'only changed files restart it');
  t.same(tally.counts, { started: 3 }, 'ticks of the new schedule before its start do not count as missed');
  scheduler.update([scheduled('*/15 * * * *')]);
  t.equal(scheduler.nextRun('docs'), null);
  await clock.advance(15 * minute);
  t.same(
    ticks.filter((tick) => tick.startsWith('docs')),
    ['docs 2026-11-22T15:18:00.000Z', 'docs 2026-11-22T15:19:00.000Z'],
  );
  t.equal(ticks.filter((tick) => tick.startsWith('maps')).length, 2);
  await scheduler.close();
  scheduler.update([scheduled('* * * * *')]);
  await clock.advance(hour);
  t.equal(scheduler.nextRun('maps'), null, 'a closed scheduler accepts nothing');
});

t.test(
  "starts a delayed tick within a minute of the queue's return, and counts later ones as missed",
  async (t) => {
    for (const [awayMs, expected] of [
      [40_000, { started: 1 }],
      [100_000, { 'missed down': 1 }],
    ] as const) {
      const clock = manualClock(new Date('2026-11-22T15:07:00Z'));
      const { queue, ticks } = openQueue(t, clock);
      await queue.start(noting(ticks));
      let isAway = false;
      const reached = async <T>(answer: () => Promise<T>): Promise<T> => {
        if (isAway) throw new WaybillError('queue_unavailable', 'the queue of this daemon cannot be reached');
        return answer();
      };
      const triggers: Triggers = {
        last: (pipelineId, kind) => reached(() => queue.triggers.last(pipelineId, kind)),
        decide: (job, options) => reached(() => queue.triggers.decide(job, options)),
      };
      const tally = newTally();
      const scheduler = openScheduler({ triggers }, clock, [scheduled('*/15 * * * *')], tally);
      await clock.advance(7 * minute);
      isAway = true;
      await clock.advance(minute + awayMs);
      t.same(tally.counts, {});
      isAway = false;
      await clock.advance(10_000);
      t.same(tally.counts, expected, `${awayMs} ms`);
      await scheduler.close();
    }
  },
);

const day = 24 * hour;

for (const restarts of [true, false])
  t.test(
    `a clock that was a day ahead does not stop the schedule (${restarts ? 'after a restart' : 'in one process'})`,
    async (t) => {
      let aheadMs = day;
      const inner = manualClock(new Date('2026-11-22T15:07:00Z'));
      const clock = { ...inner, now: () => new Date(inner.now().getTime() + aheadMs) };
      const { queue, ticks } = openQueue(t, clock);
      await queue.start(noting(ticks));
      const tally = newTally();
      const pipelines = [scheduled('*/15 * * * *')];
      const ahead = openScheduler(queue, clock, pipelines, tally);
      await clock.advance(10 * minute);
      t.same(ticks, ['maps 2026-11-23T15:15:00.000Z']);
      aheadMs = 0;
      if (restarts) await ahead.close();
      const scheduler = restarts ? openScheduler(queue, clock, pipelines, tally) : ahead;
      await clock.advance(30 * minute);
      t.same(ticks.slice(1), ['maps 2026-11-22T15:30:00.000Z', 'maps 2026-11-22T15:45:00.000Z']);
      t.equal(tally.counts['ignored'], 1);
      await scheduler.close();
    },
  );

t.test('a tick that another host decided a minute early does not run again', async (t) => {
  const clock = manualClock(new Date('2026-11-22T15:07:00Z'));
  const { queue, ticks } = openQueue(t, clock);
  await queue.start(noting(ticks));
  const early = { ...clock, now: () => new Date(clock.now().getTime() + minute) };
  const tally = newTally();
  const hosts = [clock, early].map((each) => openScheduler(queue, each, [scheduled('*/15 * * * *')], tally));
  await clock.advance(hour);
  t.equal(ticks.length, 4);
  t.equal(new Set(ticks).size, 4);
  t.equal(tally.counts['ignored'], undefined);
  for (const host of hosts) await host.close();
});
