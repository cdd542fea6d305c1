import t from 'tap';
import { parseRunRecord } from '../../src/client/runs.ts';

const error = { code: 'invalid_bundle', message: 'is invalid', hint: null, findings: [] };
const record = {
  run_id: 'maps.1',
  pipeline_id: 'maps',
  status: 'failed',
  accepted_at: '2026-11-20T00:00:00Z',
  finished_at: '2026-11-20T00:00:01Z',
  progress: null,
  error,
  destinations: [{ destination_id: 'web', action: 'error', error: null }],
};

t.test('an invalid run record from a hostile daemon is a clear error', (t) => {
  t.equal(parseRunRecord(record), record);
  const withoutFindings = { ...error, findings: undefined };
  for (const [wrong, field] of [
    [{ ...record, error: withoutFindings }, 'error'],
    [{ ...record, error: { ...error, findings: [null] } }, 'error'],
    [{ ...record, error: undefined }, 'error'],
    [{ ...record, destinations: undefined }, 'destinations'],
    [{ ...record, destinations: [{ error: withoutFindings }] }, 'destinations/0'],
    [{ ...record, run_id: 7 }, 'run_id'],
    [{ ...record, finished_at: undefined }, 'finished_at'],
    [[record], 'the answer'],
    [null, 'the answer'],
  ] as const)
    t.throws(() => parseRunRecord(wrong), { code: 'unexpected_answer', message: `not valid: ${field}` });
  t.end();
});
