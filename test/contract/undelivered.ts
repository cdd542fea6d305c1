import type { Test } from 'tap';
import { type Event, eventOf } from '../../src/core/notify/event.ts';
import { maxUndelivered, type Undelivered, type UndeliveredEvents } from '../../src/core/notify/outbox.ts';
import { testOccurrence } from '../../src/core/publish/results/occurrences.ts';

/** An event at this time, given in milliseconds, which could not be delivered. */
export const givenUp = (id: string, happened: number, reason = 'away'): Undelivered => ({
  event: eventOf(testOccurrence('n'), id, new Date(happened)),
  tries: 4,
  reason,
  givenUpAt: new Date(happened + 5_000).toISOString(),
});

export const idsOf = (list: readonly { event: Pick<Event, 'id'> }[]): string[] =>
  list.map(({ event }) => event.id);

interface Opened {
  events: UndeliveredEvents;
  /** Notifier and count of each removal. */
  dropped: [string, number][];
}

/** The contract of stores for undelivered events. `open` returns an empty one. */
export function undeliveredContract(t: Test, open: (t: Test) => Promise<Opened>): void {
  t.test('lists complete events in chronological order, by notifier', async (t) => {
    const { events } = await open(t);
    const trace = {
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      tracestate: 'a=1',
    };
    const all = [
      { ...givenUp('msg_c', 3), ...trace },
      givenUp('msg_a', 1),
      givenUp('msg_z', 2),
      givenUp('msg_b', 2),
    ];
    for (const one of all) await events.store('n', one);
    await events.store('other', givenUp('msg_a', 1));
    t.same(await events.list('n'), [all[1], all[2], all[3], all[0]]);
    t.same(idsOf(await events.list('other')), ['msg_a']);
    t.same(await events.list('none'), []);
    t.same([...(await events.counts())].sort(), [
      ['n', 4],
      ['other', 1],
    ]);
    await events.remove('n', 'msg_z');
    await events.remove('n', 'msg_z');
    t.same(idsOf(await events.list('n')), ['msg_a', 'msg_b', 'msg_c']);
    await events.remove('other', 'msg_a');
    t.same([...(await events.counts())], [['n', 3]]);
  });

  t.test('an event that is stored again keeps its position', async (t) => {
    const { events } = await open(t);
    for (const id of ['msg_b', 'msg_a', 'msg_c']) await events.store('n', givenUp(id, 1));
    const again = { ...givenUp('msg_a', 1, 'still away'), tries: 8 };
    await events.store('n', again);
    const list = await events.list('n');
    t.same(idsOf(list), ['msg_b', 'msg_a', 'msg_c']);
    t.same(list[1], again);
  });

  t.test('removes the oldest events above the limit, and counts them', async (t) => {
    const { events, dropped } = await open(t);
    await events.store('other', givenUp('msg_0', 0));
    const kept: Promise<void>[] = [];
    // The newest first: which events are removed does not depend on when their delivery failed.
    for (let at = maxUndelivered + 3; at > 0; at -= 1) kept.push(events.store('n', givenUp(`msg_${at}`, at)));
    await Promise.all(kept);
    const list = await events.list('n');
    t.equal(list.length, maxUndelivered);
    t.equal(list[0]?.event.id, 'msg_4');
    t.same(dropped, [
      ['n', 1],
      ['n', 1],
      ['n', 1],
    ]);
    t.same(idsOf(await events.list('other')), ['msg_0']);
  });

  t.test('only one client at a time can redeliver to a notifier', async (t) => {
    const { events } = await open(t);
    const claim = await events.claim('n');
    await t.rejects(events.claim('n'), { code: 'redelivery_running' });
    const other = await events.claim('other');
    await claim.release();
    await (await events.claim('n')).release();
    await other.release();
  });
}
