import t from 'tap';
import type { Config } from '../../../src/core/config/config.ts';
import type { ErrorCode } from '../../../src/core/lib/error-codes.ts';
import { errorRecord, WaybillError } from '../../../src/core/lib/errors.ts';
import type { PublishJob } from '../../../src/workers/queue/job.ts';
import type { RunRecord } from '../../../src/workers/queue/run-record.ts';
import {
  hasSameTarget,
  isRetrying,
  maxPauseMs,
  retryDelayMs,
  retryOrFail,
  type RetrySettings,
  retrySettingsOf,
} from '../../../src/workers/queue/run-retry.ts';
import {
  acceptedRun,
  failedRun,
  finishedRun,
  startedRun,
} from '../../../src/workers/queue/run-transitions.ts';
import { runResult } from '../../contract/queue.ts';

const start = Date.parse('2026-11-20T02:00:00.000Z');
const at = (seconds: number): Date => new Date(start + seconds * 1000);
const job = { runId: 'maps.1', pipelineId: 'maps', staged: '/staging/x', bundlePath: 'session-1' };
const settings: RetrySettings = { forMs: 1_800_000, whileRetrying: 'pass', hasSingleTarget: false };
const withJitter = (random: number): RetrySettings => ({
  ...settings,
  pauses: { baseMs: 10_000, capMs: 300_000, random: () => random },
});

const failed = (code: ErrorCode, record: RunRecord = acceptedRun(job, at(0)), now = at(1)): RunRecord =>
  failedRun(startedRun(record, now), errorRecord(new WaybillError(code, 'the server is unreachable')), now);

t.test('pauses double up to five minutes, with full jitter', async (t) => {
  const pauses = (random: number): number[] => {
    let record = failed('storage_transient');
    return Array.from({ length: 7 }, () => {
      const next = retryOrFail(record, at(1), withJitter(random));
      record = failed('storage_transient', next);
      return (Date.parse(next.next_try_at ?? '') - at(1).getTime()) / 1000;
    });
  };
  t.same(pauses(0), [0, 0, 0, 0, 0, 0, 0]);
  t.same(pauses(0.5), [5, 10, 20, 40, 80, 150, 150]);
});

t.test('the retry time begins with the first attempt, and the last attempt is at its end', async (t) => {
  const first = retryOrFail(failed('storage_transient'), at(10), withJitter(0.5));
  t.equal(first.retry_until, at(1_801).toISOString());
  const late = failed('destination_busy', first, at(1_800));
  const second = retryOrFail(late, at(1_800), withJitter(0.99));
  t.match(second, { next_try_at: at(1_801).toISOString(), retry_until: first.retry_until, attempt: 3 });
  const last = failed('destination_busy', second, at(1_801));
  t.equal(retryOrFail(last, at(1_801), withJitter(0.5)), last);
  t.match(last, { status: 'failed', error: { code: 'destination_busy' }, attempt: 3 });
});

t.test('a permanent cause is not retried, nor anything if retries are disabled', async (t) => {
  const denied = failed('storage_denied');
  t.equal(retryOrFail(denied, at(1), settings), denied);
  const away = failed('storage_transient');
  t.equal(retryOrFail(away, at(1), { ...settings, forMs: 0 }), away);
  t.ok(isRetrying(retryOrFail(away, at(1), settings)));
});

t.test('one destination with a temporary cause is enough for a retry', async (t) => {
  const { run } = runResult('failed');
  const [pipeline] = run.pipelines;
  const [permanent] = pipeline?.destinations ?? [];
  if (pipeline === undefined || permanent === undefined) throw new TypeError('a destination failed');
  const error = errorRecord(new WaybillError('storage_transient', 'cannot open /srv/mirror'));
  const passing = {
    ...permanent,
    destinationId: 'mirror',
    actions: permanent.actions.map((action) => ({ ...action, action: 'error' as const, error })),
  };
  const running = startedRun(acceptedRun(job, at(0)), at(1));
  const only = finishedRun(running, run, at(2));
  t.equal(retryOrFail(only, at(2), settings), only);
  const result = { ...run, pipelines: [{ ...pipeline, destinations: [permanent, passing] }] };
  const next = retryOrFail(finishedRun(running, result, at(2)), at(2), settings);
  t.match(next, {
    ...{ status: 'queued', error: null, last_error: { code: 'storage_transient' } },
    destinations: [{ error: { code: 'unmanaged_content' } }, { destination_id: 'mirror' }],
  });
  t.match(next.last_error, { message: 'cannot open <path>' }, 'without local paths');
  t.same(startedRun(next, at(3)).destinations, [], 'the next attempt begins without a cause');
});

t.test('a clock that was set back does not delay a retry for hours', async (t) => {
  const next = retryOrFail(failed('storage_transient'), at(1), settings);
  t.equal(retryDelayMs(next, at(-86_400)), maxPauseMs);
  t.equal(retryDelayMs(next, at(86_400)), 0);
});

t.test('a clock that was ahead at the first failure does not extend the retry time', async (t) => {
  const year = 365 * 86_400;
  const ahead = retryOrFail(failed('storage_transient'), at(year), settings);
  const next = retryOrFail(
    { ...failed('storage_transient'), retry_until: ahead.retry_until },
    at(0),
    settings,
  );
  t.equal(next.retry_until, at(settings.forMs / 1000).toISOString());
});

t.test('two runs have the same target if they publish the same paths to the same readers', async (t) => {
  const same = (a: Partial<PublishJob>, b: Partial<PublishJob>, hasSingleTarget = false): boolean =>
    hasSameTarget(
      { ...job, ...a },
      { ...job, ...b },
      {
        ...settings,
        hasSingleTarget,
      },
    );
  t.ok(same({}, { runId: 'maps.2' }));
  t.notOk(same({}, { bundlePath: 'session-2' }));
  t.ok(same({}, { bundlePath: 'session-2' }, true));
  t.notOk(same({}, { channel: 'preview' }, true));
  t.ok(same({ staged: null }, { staged: null }), 'a source is read again');
  t.notOk(same({}, { staged: null }));
});

t.test('uploads stay in order if they share only some destinations', async (t) => {
  const of = (mappings: string[], more: object = {}): RetrySettings => {
    const destinations = mappings.map((mapping) => ({ mapping }));
    const pipeline = { id: 'maps', destinations, retryForMs: null, whileRetrying: 'pass', ...more };
    const config = { pipelines: [pipeline], server: { retryForMs: 7 } } as unknown as Config;
    return retrySettingsOf({ get: () => config })('maps');
  };
  t.same(of(['preserve_relative']), { forMs: 7, whileRetrying: 'pass', hasSingleTarget: false });
  t.same(of(['fixed', 'fixed']), { forMs: 7, whileRetrying: 'pass', hasSingleTarget: true });
  t.same(of(['fixed', 'preserve_relative']), { forMs: 7, whileRetrying: 'wait', hasSingleTarget: false });
  t.match(of(['preserve_relative'], { whileRetrying: 'wait', retryForMs: 0 }), {
    forMs: 0,
    whileRetrying: 'wait',
  });
});
