import t from 'tap';
import type { EventData, Occurrence } from '../../../src/core/notify/event.ts';
import { eventIdOf } from '../../../src/core/notify/event-id.ts';
import { testOccurrence } from '../../../src/core/publish/results/occurrences.ts';

const failed = (over: Partial<EventData['bundle.publish_failed']> = {}): Occurrence => ({
  type: 'bundle.publish_failed',
  data: {
    pipeline_id: 'maps',
    destination_id: null,
    destination_path: null,
    run_id: 'maps.20261120T020434Z.0123456789',
    bundle: { path: 'a', name: null, created: null },
    action: 'error',
    error: { code: 'invalid_bundle', message: 'm', hint: null, retryable: false },
    ...over,
  },
});

t.test('gives an event of a run the same id on each delivery; all other events get a new one', async (t) => {
  t.match(eventIdOf(failed()), /^msg_[0-9A-Za-z]{27}$/);
  t.equal(eventIdOf(failed()), eventIdOf(failed()));
  t.equal(eventIdOf(failed({ action: 'skip_same' })), eventIdOf(failed()), 'the id from the next process');
  const others = [
    failed({ run_id: 'maps.20261120T020434Z.0123456780' }),
    failed({ destination_id: 'web' }),
    failed({ destination_path: 'a' }),
    failed({ bundle: { path: 'b', name: null, created: null } }),
    failed({ error: { code: 'storage_denied', message: 'm', hint: null, retryable: false } }),
  ];
  const ids = [failed(), ...others].map(eventIdOf);
  t.equal(new Set(ids).size, ids.length, 'a different id for other events of the run');
  t.not(eventIdOf(failed({ run_id: null })), eventIdOf(failed({ run_id: null })));
  t.not(eventIdOf(testOccurrence('n')), eventIdOf(testOccurrence('n')));
});
