import t from 'tap';
import { requireShape, runRecord } from '../../src/client/answers.ts';
import { acceptedRun, failedRun, startedRun } from '../../src/workers/queue/run-transitions.ts';

const at = new Date('2026-11-20T00:00:00Z');
const error = { code: 'invalid_bundle', message: 'is invalid', hint: null, retryable: false, findings: [] };
const job = { runId: 'maps.1', pipelineId: 'maps', staged: null };
const record = { ...failedRun(startedRun(acceptedRun(job, at), at), error as never, at), destinations: [] };
const url = new URL('https://publish.example.org/runs/maps.1?wait=1');

t.test('an invalid run record from a hostile daemon is a clear error that names the URL', (t) => {
  t.equal(requireShape({ body: record, url }, runRecord), record);
  const withoutFindings = { ...error, findings: undefined };
  for (const [wrong, fault] of [
    [{ ...record, error: withoutFindings }, 'has no valid error/findings'],
    [{ ...record, error: { ...error, findings: [null] } }, 'has no valid error/findings/0'],
    [{ ...record, error: undefined }, 'has no valid error'],
    [{ ...record, destinations: undefined }, 'has no valid destinations'],
    [{ ...record, destinations: [{}] }, 'has no valid destinations/0/destination_id'],
    [{ ...record, run_id: 7 }, 'has no valid run_id'],
    [{ ...record, finished_at: undefined }, 'has no valid finished_at'],
    [[record], 'is not the expected JSON document'],
    [null, 'is not the expected JSON document'],
  ] as const)
    t.throws(() => requireShape({ body: wrong, url }, runRecord), {
      code: 'unexpected_answer',
      message: `https://publish.example.org does not answer like a waybill daemon: the answer of /runs/maps.1 ${fault}`,
    });
  t.end();
});
