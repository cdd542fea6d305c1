import { mkdirSync, mkdtempSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { openQueueStore, type QueueStore } from '../../../src/workers/embedded/queue-store.ts';
import { givenUp, idsOf, undeliveredContract } from '../../contract/undelivered.ts';

const storeIn = (root: string, dropped: [string, number][] = []): Promise<QueueStore> => {
  const staging = path.join(root, 'staging');
  mkdirSync(staging, { recursive: true });
  const onDropped = (id: string, count: number): void => void dropped.push([id, count]);
  const directory = path.join(root, 'queue');
  return openQueueStore({ directory, staging, clock: systemClock, log: silentLog, onDropped });
};

const root = t.testdir();
undeliveredContract(t, async (t) => {
  const dropped: [string, number][] = [];
  const store = await storeIn(mkdtempSync(path.join(root, 'contract-')), dropped);
  t.teardown(() => store.close());
  return { events: store.undelivered, dropped };
});

t.test('undelivered events survive the process, in order', async (t) => {
  const root = t.testdir();
  const before = await storeIn(root);
  for (const id of ['msg_9', 'msg_b', 'msg_a']) await before.undelivered.store('n', givenUp(id, 7));
  await before.undelivered.store('n', givenUp('msg_first', 6));
  await before.undelivered.remove('n', 'msg_9');
  const list = await before.undelivered.list('n');
  before.outbox.store({ event: list[0]!.event }, ['n'], (_notifierId, ended) =>
    ended(before.undelivered.store('n', givenUp('msg_last', 9))),
  );
  await before.close();

  const after = await storeIn(root);
  t.teardown(() => after.close());
  t.same(idsOf(await after.undelivered.list('n')), ['msg_first', 'msg_b', 'msg_a', 'msg_last']);
  t.same((await after.undelivered.list('n')).slice(0, 3), list);
  after.outbox.open(({ event }) => t.fail(`${event.id} is still to be delivered`));
  await after.undelivered.store('n', givenUp('msg_later', 7));
  t.same(
    idsOf(await after.undelivered.list('n')),
    ['msg_first', 'msg_b', 'msg_a', 'msg_later', 'msg_last'],
    'events that fail later come later',
  );
});
