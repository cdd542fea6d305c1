import t from 'tap';
import { undeliveredBook } from '../../../src/core/notify/outbox.ts';
import { undeliveredContract } from '../../contract/undelivered.ts';

undeliveredContract(t, async () => {
  const dropped: [string, number][] = [];
  return { events: undeliveredBook({ onDropped: (id, count) => void dropped.push([id, count]) }), dropped };
});
