import t from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { errorRecord, WaybillError } from '../../../../src/core/lib/errors.ts';
import { failedResult, plannedResult } from '../../../../src/core/publish/results/action-result.ts';
import type { ActionResult, DestinationResult } from '../../../../src/core/publish/results/result.ts';
import { destinationSpan, endSpan } from '../../../../src/core/publish/results/spans.ts';
import { type FinishedSpan, noTracer, recordingTracer } from '../../../../src/core/tracing/span.ts';
import { owner } from '../../../faults/world.ts';
import { planOf } from '../../../support/decisions.ts';

const parent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

function published(outputsWritten: number, bytesWritten: number): ActionResult {
  const others = { outputsLinked: 7, outputsKept: 7, outputsRemoved: 7, bytesLinked: 7, bytesKept: 7 };
  const applied = { outputsWritten, bytesWritten, ...others };
  return { ...plannedResult('b', planOf('upsert_additive'), [], null), ...applied };
}

const failed = (code: 'stale_bundle' | 'storage_full'): ActionResult =>
  failedResult('b', 'b', [], new WaybillError(code, 'no'));

function spanOf(
  result: Pick<DestinationResult, 'actions' | 'error'>,
  request: Partial<Parameters<typeof destinationSpan>[2]> = {},
): FinishedSpan[] {
  const spans: FinishedSpan[] = [];
  const report = (span: FinishedSpan): void => void spans.push(span);
  const tracer = recordingTracer({ clock: systemClock, report, samples: () => true });
  const span = destinationSpan({ tracer }, owner, { dryRun: false, ...request });
  endSpan(span, { destinationId: 'web', location: '', status: 'ok', orphans: [], warnings: [], ...result });
  return spans;
}

t.test('the span of a destination is a child of the run and describes its outcome', async (t) => {
  const [span, ...others] = spanOf(
    { actions: [published(2, 20), published(3, 30)], error: null },
    { runId: 'run-1', trace: { traceparent: parent } },
  );
  t.same(others, []);
  t.match(span, { name: 'destination', kind: 'client', error: null });
  t.equal(span?.parent?.spanId, 'b7ad6b7169203331');
  t.strictSame(span?.attributes, {
    'waybill.pipeline_id': 'maps',
    'waybill.destination_id': 'web',
    'waybill.run_id': 'run-1',
    'waybill.bundles': 2,
    'waybill.outputs_written': 5,
    'waybill.outputs_linked': 14,
    'waybill.bytes_written': 50,
  });
});

t.test('without a run, the span names none, and a single bundle has its action', async (t) => {
  const [span] = spanOf({ actions: [published(1, 10)], error: null });
  t.equal(span?.parent, null);
  t.strictSame(span?.attributes, {
    'waybill.pipeline_id': 'maps',
    'waybill.destination_id': 'web',
    'waybill.action': 'upsert_additive',
    'waybill.bundles': 1,
    'waybill.outputs_written': 1,
    'waybill.outputs_linked': 7,
    'waybill.bytes_written': 10,
  });
  const [none] = spanOf({ actions: [], error: null });
  t.match(none, { error: null, attributes: { 'waybill.bundles': 0, 'waybill.bytes_written': 0 } });
  t.notOk(Object.hasOwn(none?.attributes ?? {}, 'waybill.action'));
});

t.test('fails with the error of the destination, or of its first failed bundle', async (t) => {
  const full = errorRecord(new WaybillError('storage_full', 'no'));
  for (const [actions, error, code] of [
    [[failed('stale_bundle')], full, 'storage_full'],
    [[published(1, 1), failed('stale_bundle'), failed('storage_full')], null, 'stale_bundle'],
    [[published(1, 1)], null, null],
  ] as const)
    t.equal(spanOf({ actions: [...actions], error })[0]?.error, code);
});

t.test('there is no span in a dry run, or without tracing', async (t) => {
  t.same(spanOf({ actions: [], error: null }, { dryRun: true }), []);
  t.equal(destinationSpan({ tracer: noTracer }, owner, { dryRun: false }), null);
  t.equal(destinationSpan({}, owner, { dryRun: false }), null);
});
