import type { Test } from 'tap';
import { digestOf } from '../../src/core/lib/digest.ts';
import type { JobProcessor, JobQueue } from '../../src/workers/queue/job-queue.ts';
import type { Decision, TriggeredJob } from '../../src/workers/queue/trigger.ts';

export interface TriggerTools {
  start: (settings?: { queueSize?: number }) => Promise<{ queue: JobQueue }>;
  /** Workers that report when they start and end only when the test lets them. */
  workers: () => {
    process: JobProcessor;
    started: (runId: string) => Promise<unknown>;
    finish: (runId: string) => void;
  };
}

/** The part of the `JobQueue` contract for runs that a trigger starts. */
export function triggerContract(t: Test, { start, workers }: TriggerTools): void {
  t.test('one of many calls for a tick starts a run, and its record names the tick', async (t) => {
    const { queue } = await start();
    t.equal(await queue.triggers.last('maps', 'schedule'), null);
    const calls = Array.from({ length: 20 }, (_, index) =>
      queue.triggers.decide(tickJob(`maps.${index}`, 15)),
    );
    const decisions = await Promise.all(calls);
    const started = decisions.filter(({ outcome }) => outcome === 'started');
    t.equal(started.length, 1);
    t.equal(decisions.filter(({ outcome }) => outcome === 'known').length, 19);
    const { record, previous } = started[0] as Extract<Decision, { outcome: 'started' }>;
    t.equal(previous, null);
    t.match(record, { status: 'accepted', triggered_by: { kind: 'schedule', tick: tickAt(15) } });
    t.match(await queue.find(record.run_id), { status: 'queued', triggered_by: record.triggered_by });
    t.same(await queue.depth(), { reserved: 0, queued: 1, running: 0 });
    t.match(await queue.triggers.last('maps', 'schedule'), {
      tick: tickAt(15),
      schedule: '*/15 * * * * UTC',
    });
    t.same(await queue.triggers.decide(tickJob('maps.x', 0)), { outcome: 'known' }, 'an earlier tick');
    t.equal(await queue.triggers.last('docs', 'schedule'), null, 'pipelines have separate ticks');
    t.equal(await queue.triggers.last('maps', 'watch'), null);
  });

  t.test('ignores a tick that was decided by a clock that was ahead', async (t) => {
    const { queue } = await start();
    t.match(await queue.triggers.decide(tickJob('maps.1', 45), { passes: true }), { outcome: 'passed' });
    t.same(await queue.triggers.decide(tickJob('maps.2', 15)), { outcome: 'known' });
    t.same(await queue.triggers.decide(tickJob('maps.2', 15), { latest: tickAt(45) }), { outcome: 'known' });
    t.match(await queue.triggers.decide(tickJob('maps.3', 15), { latest: tickAt(30) }), {
      outcome: 'started',
    });
    t.match(await queue.triggers.last('maps', 'schedule'), { tick: tickAt(15) });
    t.same(await queue.triggers.decide(tickJob('maps.4', 15), { latest: tickAt(30) }), { outcome: 'known' });
  });

  t.test('starts no scheduled run while another run waits or runs', async (t) => {
    const { queue } = await start();
    const admission = await queue.reserve({ pipelineId: 'maps' });
    await admission.accept({ runId: 'maps.1', pipelineId: 'maps', staged: null }, digestOf('{}'));
    t.match(await queue.find('maps.1'), { triggered_by: { kind: 'request', tick: null } });
    t.same(await queue.triggers.decide(tickJob('maps.2', 0)), { outcome: 'coalesced', previous: null });
    const { process, started, finish } = workers();
    await queue.start(process);
    await started('maps.1');
    t.match(await queue.triggers.decide(tickJob('maps.3', 15)), { outcome: 'coalesced' });
    finish('maps.1');
    await ended(queue, 'maps.1');
    t.match(await queue.triggers.decide(tickJob('maps.4', 30)), {
      outcome: 'started',
      previous: { kind: 'schedule', tick: tickAt(15) },
    });
    finish('maps.4');
    await ended(queue, 'maps.4');
    t.equal(await queue.find('maps.2'), undefined);
    t.equal(await queue.find('maps.3'), undefined);
  });

  t.test('records a tick of a paused pipeline, and a skipped one, without a run', async (t) => {
    const { queue } = await start();
    await queue.pause('maps', null);
    t.same(await queue.triggers.decide(tickJob('maps.1', 0)), { outcome: 'paused', previous: null });
    await queue.resume('maps');
    t.same(await queue.triggers.decide(tickJob('maps.2', 0)), { outcome: 'known' });
    t.match(await queue.triggers.decide(tickJob('maps.3', 15), { passes: true }), { outcome: 'passed' });
    t.same(await queue.triggers.decide(tickJob('maps.4', 15)), { outcome: 'known' });
    t.same(await queue.depth(), { reserved: 0, queued: 0, running: 0 });
  });

  t.test('starts one more run for a change during a run, and none while one waits', async (t) => {
    const { queue } = await start();
    const { process, started, finish } = workers();
    await queue.start(process);
    t.match(await queue.triggers.decide(changeJob('maps.1', 'A')), {
      outcome: 'started',
      record: { triggered_by: { kind: 'watch', tick: null } },
    });
    await started('maps.1');
    t.same(await queue.triggers.decide(changeJob('maps.2', 'A')), { outcome: 'known' });
    t.match(await queue.triggers.decide(changeJob('maps.3', 'B')), { outcome: 'started' });
    t.match(await queue.triggers.decide(changeJob('maps.4', 'C')), {
      outcome: 'coalesced',
      previous: { kind: 'watch', state: 'B' },
    });
    t.match(await queue.triggers.decide(changeJob('maps.5', 'A')), { outcome: 'coalesced' }, 'back again');
    t.match(await queue.triggers.last('maps', 'watch'), { state: 'A' });
    finish('maps.1');
    await started('maps.3');
    finish('maps.3');
    await ended(queue, 'maps.3');
    await queue.pause('maps', null);
    t.match(
      await queue.triggers.decide(changeJob('maps.6', 'D')),
      { outcome: 'started' },
      'it waits until the pipeline is resumed',
    );
    t.match(await queue.find('maps.6'), { status: 'queued' });
    await queue.resume('maps');
    await started('maps.6');
    finish('maps.6');
    await ended(queue, 'maps.6');
  });

  t.test('triggered runs get no slot, and do not start while the queue closes', async (t) => {
    const { queue } = await start({ queueSize: 1 });
    const admission = await queue.reserve({ pipelineId: 'docs' });
    t.match(await queue.triggers.decide(tickJob('maps.1', 0)), { outcome: 'started' });
    await admission.release();
    queue.drain();
    await t.rejects(queue.triggers.decide(tickJob('a.1', 0)), { code: 'shutting_down' });
  });
}

const tickAt = (minute: number): string => new Date(Date.UTC(2026, 10, 22, 15, minute)).toISOString();

function tickJob(runId: string, minute: number): TriggeredJob {
  const trigger = { kind: 'schedule' as const, tick: tickAt(minute), schedule: '*/15 * * * * UTC' };
  return { runId, pipelineId: runId.split('.', 1)[0] ?? '', staged: null, trigger };
}

function changeJob(runId: string, state: string): TriggeredJob {
  const trigger = { kind: 'watch' as const, state };
  return { runId, pipelineId: runId.split('.', 1)[0] ?? '', staged: null, trigger };
}

async function ended(queue: JobQueue, runId: string): Promise<void> {
  await queue.untilFinished(runId, new AbortController().signal);
}
