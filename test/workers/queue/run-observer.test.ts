import t from 'tap';
import { digestOf } from '../../../src/core/lib/digest.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { memoryQueue } from '../../../src/workers/memory/memory-queue.ts';
import type { JobResult, PublishJob } from '../../../src/workers/queue/job.ts';
import { type RunObserver, waitedSeconds } from '../../../src/workers/queue/run-observer.ts';
import { acceptedRun, queuedRun, startedRun } from '../../../src/workers/queue/run-transitions.ts';
import { runResult } from '../../contract/queue.ts';
import { manualClock } from '../manual-clock.ts';

const job: PublishJob = { runId: 'files.1', pipelineId: 'files', staged: null };

/** A run that waits for four seconds, and the calls to its observer. */
async function observed(work: (clock: ReturnType<typeof manualClock>) => Promise<JobResult>) {
  const clock = manualClock();
  const calls: unknown[] = [];
  const observer: RunObserver = {
    started: ({ pipelineId, waitedSeconds }) => calls.push({ pipelineId, waitedSeconds }),
    retried: () => undefined,
    superseded: () => undefined,
    rejected: () => undefined,
    finished: ({ result, ...run }) => calls.push({ ...run, hasResult: result !== null }),
  };
  const queue = memoryQueue({
    clock,
    log: silentLog,
    queueSize: 10,
    maxConcurrency: 1,
    retentionMs: 60_000,
    onExpire: async () => undefined,
  });
  t.teardown(() => queue.close(0));
  await (await queue.reserve({ pipelineId: 'files' })).accept(job, digestOf('{}'));
  await clock.advance(4_000);
  await queue.start(() => work(clock), observer);
  for (let run = await queue.find(job.runId); run?.finished_at == null; run = await queue.find(job.runId))
    await new Promise((resolve) => setImmediate(resolve));
  return { calls, record: await queue.find(job.runId) };
}

t.test('reports the wait, the duration and the result of a run', async (t) => {
  for (const outcome of ['ok', 'failed'] as const) {
    const { calls, record } = await observed(async (clock) => {
      await clock.advance(1_500);
      return runResult(outcome);
    });
    t.match(record, { status: outcome === 'ok' ? 'succeeded' : 'failed' });
    t.strictSame(calls, [
      { pipelineId: 'files', waitedSeconds: 4 },
      { pipelineId: 'files', seconds: 1.5, succeeded: outcome === 'ok', cancelled: false, hasResult: true },
    ]);
  }
});

t.test('reports a crashed worker', async (t) => {
  const { calls, record } = await observed(() => Promise.reject(new Error('the thread broke')));
  t.match(record, { status: 'failed' });
  t.strictSame(calls, [
    { pipelineId: 'files', waitedSeconds: 4 },
    { pipelineId: 'files', seconds: 0, succeeded: false, cancelled: false, hasResult: false },
  ]);
});

t.test('the record has the time that a run waited', async (t) => {
  const accepted = acceptedRun(job, new Date(1_000));
  const queued = queuedRun(accepted, new Date(2_000));
  t.equal(waitedSeconds(startedRun(queued, new Date(5_500))), 3.5);
  t.equal(waitedSeconds(startedRun(queued, new Date(1_500))), 0, 'on hosts whose clocks differ');
  t.equal(waitedSeconds(queued), 0);
  t.equal(waitedSeconds(startedRun(accepted, new Date(5_500))), 0);
});
