import t from 'tap';
import type { ErrorCode } from '../../../src/core/lib/error-codes.ts';
import { errorRecord, WaybillError } from '../../../src/core/lib/errors.ts';
import type { Occurrence } from '../../../src/core/notify/event.ts';
import { eventIdOf } from '../../../src/core/notify/event-id.ts';
import { destinationFailure } from '../../../src/core/publish/results/occurrences.ts';
import { RunEventBuffer } from '../../../src/workers/queue/run-events.ts';
import { retryOrFail, supersededRun } from '../../../src/workers/queue/run-retry.ts';
import { acceptedRun, failedRun, startedRun } from '../../../src/workers/queue/run-transitions.ts';

const at = new Date('2026-11-20T02:00:00.000Z');
const job = { runId: 'maps.1', pipelineId: 'maps', staged: '/staging/x', bundlePath: 'session-1' };
const error = (code: ErrorCode) => errorRecord(new WaybillError(code, 'the server is unreachable'));
const failed = failedRun(startedRun(acceptedRun(job, at), at), error('storage_transient'), at);
const waiting = retryOrFail(failed, at, { forMs: 60_000, whileRetrying: 'pass', hasSingleTarget: false });
const failure = (code: ErrorCode): Occurrence =>
  destinationFailure({ pipelineId: 'maps', destinationId: 'web' }, error(code), 'maps.1');

function newNews() {
  const seen: Occurrence[] = [];
  const news = new RunEventBuffer((occurrence) => void seen.push(occurrence));
  return { news, seen, types: () => seen.map(({ type }) => type) };
}

t.test('a failure with a retry is reported as such, once', async (t) => {
  const { news, seen, types } = newNews();
  news.begin('maps.1');
  news.add(failure('storage_transient'));
  news.add(failure('unmanaged_content'));
  t.same(types(), ['bundle.publish_failed'], 'a permanent failure is not held');
  news.decided(job, waiting);
  t.same(types(), ['bundle.publish_failed', 'run.retry_scheduled']);
  t.match(seen[1]?.data, {
    ...{ run_id: 'maps.1', attempt: 2, next_try_at: waiting.next_try_at, retry_until: waiting.retry_until },
    error: { code: 'storage_transient', retryable: true },
  });
  news.begin('maps.1');
  news.add(failure('storage_transient'));
  news.decided(job, failed);
  t.same(types().slice(2), ['bundle.publish_failed'], 'the last failure is reported');
});

t.test('a run that is replaced by a newer one is reported with that cause', async (t) => {
  const { news, seen } = newNews();
  news.add(failure('storage_transient'));
  news.decided(job, supersededRun(waiting, 'maps.2', at));
  t.match(seen, [
    { type: 'bundle.publish_failed', data: { error: { code: 'superseded', retryable: false } } },
  ]);
  t.equal(seen.length, 1);
});

t.test('each retry is a separate event, and the same one after a restart', async (t) => {
  const { news, seen } = newNews();
  news.decided(job, waiting);
  news.decided(job, waiting);
  news.decided(job, { ...waiting, attempt: 3 });
  const ids = seen.map(eventIdOf);
  t.equal(ids[0], ids[1]);
  t.not(ids[0], ids[2]);
});
