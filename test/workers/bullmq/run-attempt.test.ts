import t from 'tap';
import type { ErrorCode } from '../../../src/core/lib/error-codes.ts';
import { errorRecord, WaybillError } from '../../../src/core/lib/errors.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { type AttemptOutcome, runAttempt } from '../../../src/workers/bullmq/run-attempt.ts';
import type { ClaimedRun } from '../../../src/workers/bullmq/run-claims.ts';
import type { JobResult } from '../../../src/workers/queue/job.ts';
import { acceptedRun } from '../../../src/workers/queue/run-transitions.ts';
import { runResult } from '../../contract/queue.ts';
import { manualClock } from '../manual-clock.ts';

const job = { runId: 'maps.1', pipelineId: 'maps', staged: null };
const taken = (claimCount: number): ClaimedRun => ({
  outcome: 'claimed',
  job,
  claimCount,
  begunAt: null,
  isCancelled: false,
  record: acceptedRun(job, new Date(0)),
});

/** A result with one destination for each code, with which an action failed. */
function failedWith(...codes: ErrorCode[]): JobResult {
  const result = runResult('failed');
  for (const pipeline of result.run.pipelines)
    pipeline.destinations = pipeline.destinations.flatMap((destination) =>
      codes.map((code) => ({
        ...destination,
        actions: destination.actions.map((action) => ({
          ...action,
          error: errorRecord(new WaybillError(code, code)),
        })),
      })),
    );
  return result;
}

function begin(takes: number, results: JobResult[]) {
  const clock = manualClock();
  let attempts = 0;
  let outcome: AttemptOutcome | undefined;
  const done = runAttempt(taken(takes), {
    clock,
    log: silentLog,
    signal: new AbortController().signal,
    onProgress: () => undefined,
    process: async () => results[attempts++] ?? runResult('ok'),
  }).then((answer) => (outcome = answer));
  return { clock, done, attempts: () => attempts, outcome: () => outcome };
}

t.test('a run that was taken over waits for a busy destination, whatever failed at others', async (t) => {
  const run = begin(2, [failedWith('storage_denied', 'destination_busy'), failedWith('destination_busy')]);
  await run.clock.advance(4_999);
  t.equal(run.attempts(), 1);
  t.equal(run.outcome(), undefined);
  await run.clock.advance(1);
  t.equal(run.attempts(), 2);
  await run.clock.advance(5_000);
  t.match(await run.done, { result: runResult('ok') });
});

t.test('it waits no longer than a lease can be stale', async (t) => {
  const run = begin(
    2,
    Array.from({ length: 100 }, () => failedWith('destination_busy')),
  );
  await run.clock.advance(179_999);
  t.equal(run.outcome(), undefined);
  await run.clock.advance(1);
  t.match(await run.done, { result: failedWith('destination_busy') });
});

t.test('ends after a failure that a retry cannot fix, and after a first attempt', async (t) => {
  const denied = begin(2, [failedWith('storage_denied')]);
  t.match(await denied.done, { result: failedWith('storage_denied') });
  const first = begin(1, [failedWith('destination_busy')]);
  t.match(await first.done, { result: failedWith('destination_busy') });
  t.equal(first.attempts(), 1);
});

t.test('a run that crashed five workers is not started again', async (t) => {
  const run = begin(6, []);
  t.match(await run.done, { error: { code: 'worker_failed' } });
  t.equal(run.attempts(), 0);
});
