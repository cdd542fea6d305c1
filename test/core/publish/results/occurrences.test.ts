import t from 'tap';
import { errorRecord, WaybillError } from '../../../../src/core/lib/errors.ts';
import { pruneOccurrence, runFailure } from '../../../../src/core/publish/results/occurrences.ts';
import { owner } from '../../../faults/world.ts';

t.test('a run that could not finish is a failure without a bundle and a destination', async (t) => {
  const error = errorRecord(new WaybillError('storage_transient', 'the upload is gone', { hint: 'send it' }));
  t.same(runFailure('maps', 'run-1', error), {
    type: 'bundle.publish_failed',
    data: {
      ...{ pipeline_id: 'maps', run_id: 'run-1', action: 'error' },
      ...{ destination_id: null, destination_path: null, bundle: null },
      error: { code: 'storage_transient', message: 'the upload is gone', hint: 'send it', retryable: true },
    },
  });
});

t.test('an event has at most a thousand characters of a message and of a hint', async (t) => {
  const textsOf = (text: string, hint?: string): unknown[] => {
    const error = errorRecord(new WaybillError('storage_full', text, hint === undefined ? {} : { hint }));
    const { type, data } = runFailure('maps', 'run-1', error);
    return type === 'bundle.publish_failed' ? [data.error.message, data.error.hint] : [];
  };
  const most = 'x'.repeat(1_000);
  t.strictSame(textsOf(most), [most, null]);
  t.strictSame(textsOf(`${most}y`, `${most}z`), [`${most}…`, `${most}…`]);
  t.strictSame(textsOf('short', most), ['short', most]);
});

t.test('an event lists outputs up to 16 KiB, and counts the others', async (t) => {
  const removed = Array.from({ length: 300 }, () => ({ destinationPath: 'd', path: 'x'.repeat(29) }));
  const { data } = pruneOccurrence(owner, removed, 0) as { data: { outputs: object[] } };
  t.equal(JSON.stringify(data.outputs[0]).length, 63, 'with a comma: 256 of them are 16 KiB');
  t.equal(data.outputs.length, 256);
  t.match(data, { outputs_omitted: 44, counts: { outputs_removed: 300 } });
});
