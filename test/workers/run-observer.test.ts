import t from 'tap';
import type { JobResult, PublishJob } from '../../src/workers/job.ts';
import { observedProcessor, type RunObserver } from '../../src/workers/run-observer.ts';
import { acceptedRun, queuedRun } from '../../src/workers/run-transitions.ts';
import { runResult } from '../contract/queue.ts';
import { manualClock } from './manual-clock.ts';

const job: PublishJob = { runId: 'files.1', pipelineId: 'files', staged: null };
const context = { signal: new AbortController().signal, onProgress: () => undefined };

function observed(work: () => Promise<JobResult>, isAway = false) {
  const clock = manualClock();
  const told: unknown[] = [];
  const observer: RunObserver = {
    started: (run) => told.push(run),
    finished: ({ result, ...run }) => told.push({ ...run, hasResult: result !== null }),
  };
  const record = queuedRun(acceptedRun(job, clock.now()), clock.now());
  const find = async () => (isAway ? Promise.reject(new Error('no connection')) : record);
  const process = observedProcessor(work, { queue: { find }, clock, observer });
  return { clock, told, process };
}

t.test('a run tells how long it waited, how long it took and how it ended', async (t) => {
  for (const outcome of ['ok', 'failed'] as const) {
    const { clock, told, process } = observed(async () => {
      await clock.advance(1_500);
      return runResult(outcome);
    });
    await clock.advance(4_000);
    t.same(await process(job, context), runResult(outcome));
    t.same(told, [
      { pipelineId: 'files', waitedSeconds: 4 },
      { pipelineId: 'files', seconds: 1.5, succeeded: outcome === 'ok', hasResult: true },
    ]);
  }
});

t.test('a worker that breaks is told too, and its error goes on', async (t) => {
  const { told, process } = observed(() => Promise.reject(new Error('the thread broke')));
  await t.rejects(process(job, context), { message: 'the thread broke' });
  const end = { pipelineId: 'files', seconds: 0, succeeded: false, hasResult: false };
  t.strictSame(
    told.filter((one) => typeof one === 'object' && one !== null && 'succeeded' in one),
    [end],
  );
});

t.test('a queue that is away neither stops nor fails a run', async (t) => {
  const { told, process } = observed(async () => runResult('ok'), true);
  t.same(await process(job, context), runResult('ok'));
  t.match(told, [{ succeeded: true, hasResult: true }]);
});
