import t from 'tap';
import { undeliveredInMemory } from '../../../src/core/notify/outbox.ts';
import { undeliveredContract } from '../../contract/undelivered.ts';

undeliveredContract(t, async () => {
  const dropped: [string, number][] = [];
  return {
    events: undeliveredInMemory({ onDropped: (id, count) => void dropped.push([id, count]) }),
    dropped,
  };
});
