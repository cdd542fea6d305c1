import t from 'tap';
import { retryForOf, retryPublish } from '../../../../src/cli/commands/publish/retries.ts';
import type { ErrorCode } from '../../../../src/core/lib/error-codes.ts';
import { errorRecord, WaybillError } from '../../../../src/core/lib/errors.ts';
import type { DestinationResult, PipelineResult } from '../../../../src/core/publish/results/result.ts';
import { manualClock } from '../../../workers/manual-clock.ts';

/** @param failures The error codes by destination. */
function resultOf(failures: Record<string, ErrorCode | null>): PipelineResult {
  const destinations = Object.entries(failures).map(([destinationId, code]): DestinationResult => {
    const error =
      code === null ? null : errorRecord(new WaybillError(code, `${destinationId} is unreachable`));
    const status = code === null ? 'ok' : 'failed';
    return { destinationId, location: 'memory', status, actions: [], orphans: [], warnings: [], error };
  });
  const hasFailed = Object.values(failures).some((code) => code !== null);
  return {
    ...{ pipelineId: 'maps', status: hasFailed ? 'failed' : 'ok', bundles: 1, invalidBundles: [] },
    ...{ destinations, warnings: [], error: null },
  };
}

/** Publishes with these results in turn, and repeats the last one. */
function publishing(results: Record<string, ErrorCode | null>[]) {
  const clock = manualClock();
  const asked: (readonly string[])[] = [];
  const notes: string[] = [];
  const abort = new AbortController();
  const options = {
    clock,
    signal: abort.signal,
    random: () => 0.5,
    note: (text: string) => void notes.push(text),
  };
  const done = (forMs: number) =>
    retryPublish(['web', 'mirror'], { forMs, ...options }, async (ids) => {
      asked.push(ids);
      return resultOf(results[Math.min(asked.length, results.length) - 1] ?? {});
    });
  return { clock, asked, notes, abort, done };
}

t.test('retries only destinations that failed for a temporary cause', async (t) => {
  const { clock, asked, notes, done } = publishing([
    { web: 'storage_transient', mirror: null },
    { web: 'destination_busy' },
    { web: null },
  ]);
  const result = done(60_000);
  await clock.advance(15_000);
  t.match(await result, {
    status: 'ok',
    destinations: [{ destinationId: 'web' }, { destinationId: 'mirror' }],
  });
  t.same(asked, [['web', 'mirror'], ['web'], ['web']]);
  t.same(notes, [
    'web: storage_transient: web is unreachable; try 2 in 5 s',
    'web: destination_busy: web is unreachable; try 3 in 10 s',
  ]);
});

t.test('a permanent failure ends the retries, and a destination that succeeds later counts', async (t) => {
  const { clock, asked, done } = publishing([
    { web: 'storage_transient', mirror: 'unmanaged_content' },
    { web: null },
  ]);
  const result = done(60_000);
  await clock.advance(5_000);
  t.match(await result, {
    status: 'failed',
    destinations: [{ status: 'ok' }, { error: { code: 'unmanaged_content' } }],
  });
  t.same(asked, [['web', 'mirror'], ['web']]);
});

t.test('retries end with the last cause, and the last one is at the deadline', async (t) => {
  const { clock, asked, done } = publishing([{ web: 'storage_transient', mirror: null }]);
  const result = done(12_000);
  await clock.advance(12_000);
  t.match(await result, { status: 'failed', destinations: [{ error: { code: 'storage_transient' } }, {}] });
  t.equal(asked.length, 3, 'at 0, 5 and 12 seconds');
});

t.test('a signal ends the pause with the last result', async (t) => {
  const { clock, asked, abort, done } = publishing([{ web: 'storage_transient', mirror: null }]);
  const result = done(60_000);
  await clock.advance(1_000);
  abort.abort(new WaybillError('aborted', 'stopped'));
  t.match(await result, { status: 'failed' });
  t.equal(asked.length, 1);
});

t.test('the time for retries is a duration', async (t) => {
  t.equal(retryForOf(undefined), 0);
  t.equal(retryForOf('30m'), 1_800_000);
  t.throws(() => retryForOf('soon'), { code: 'usage' });
});
