import t, { type Test } from 'tap';
import { silentLog } from '../../../src/core/lib/log.ts';
import type { DeliveryOutcome } from '../../../src/core/notify/delivery-queue.ts';
import { type Event, eventOf } from '../../../src/core/notify/event.ts';
import { Notifier } from '../../../src/core/notify/notifier.ts';
import { type Outbox, undeliveredInMemory } from '../../../src/core/notify/outbox.ts';
import type { SendResult, Sink } from '../../../src/core/notify/sink.ts';
import type { NotifierConfig } from '../../../src/core/notify/sink-kinds.ts';
import { pruneOccurrence } from '../../../src/core/publish/results/occurrences.ts';
import { impatientClock } from './receiver.ts';

const owner = { pipelineId: 'maps', destinationId: 'web' };
const occurrence = pruneOccurrence(owner, [{ destinationPath: '.', path: 'a.txt' }], 0)!;
const config = (id: string): NotifierConfig => ({
  id,
  kind: 'log',
  events: ['outputs.pruned'],
  acts: null,
  pipelines: null,
});
const away: SendResult = { ok: false, reason: 'answered 503', retry: true };
const refusing: SendResult = { ok: false, reason: 'answered 400', retry: false };

/** A notifier `n` whose receiver answers as configured by the test, and the events that it received. */
function open(more: { concurrency?: number; outbox?: Outbox; hurry?: AbortSignal } = {}) {
  const { concurrency = 1, ...options } = more;
  const undelivered = undeliveredInMemory();
  const received: Event[] = [];
  const outcomes: DeliveryOutcome[] = [];
  const world = {
    undelivered,
    received,
    outcomes,
    clock: impatientClock(),
    answer: (async () => away) as (event: Event) => Promise<SendResult>,
  };
  const sink: Sink = {
    concurrency,
    timeoutMs: 60_000,
    send: async (event) => {
      const answer = await world.answer(event);
      if (answer.ok) received.push(event);
      return answer;
    },
    close: async () => undefined,
  };
  const onOutcome = (outcome: DeliveryOutcome): void => void outcomes.push(outcome);
  const notifier = new Notifier({
    ...options,
    notifiers: [{ config: config('n'), sink }],
    clock: world.clock,
    log: silentLog,
    onOutcome,
    undelivered,
  });
  /** Makes the delivery of this many events fail, and returns them in order. */
  const giveUp = async (count: number): Promise<Event[]> => {
    const before = outcomes.length;
    for (let index = 0; index < count; index += 1) notifier.notify(occurrence);
    while (outcomes.length < before + count) await new Promise((resolve) => setImmediate(resolve));
    return outcomes.slice(before).map(({ event }) => event);
  };
  return { world, notifier, sink, giveUp };
}

const close = (t: Test, { notifier }: ReturnType<typeof open>): void =>
  t.teardown(() => notifier.close(60_000));
const idsOf = (events: readonly Event[]): string[] => events.map(({ id }) => id);

t.test('keeps undelivered events unchanged and redelivers them in order', async (t) => {
  const opened = open();
  close(t, opened);
  const { world, notifier, giveUp } = opened;
  const events = await giveUp(3);
  t.match(await notifier.undelivered('n'), [
    { event: events[0], tries: 4, reason: 'answered 503', givenUpAt: /Z$/ },
    { event: events[1] },
    { event: events[2] },
  ]);
  world.answer = async () => ({ ok: true });
  t.same(await notifier.redeliver('n'), { delivered: 3, failed: [], left: 0, ended: 'all_tried' });
  t.same(world.received, events, 'with the same ids and bodies');
  t.same(await notifier.undelivered('n'), []);
  t.same(await notifier.redeliver('n'), { delivered: 0, failed: [], left: 0, ended: 'all_tried' });
  t.same(
    world.outcomes.slice(3).map(({ delivered, isRedelivery }) => [delivered, isRedelivery]),
    [
      [true, true],
      [true, true],
      [true, true],
    ],
  );
});

t.test('keeps each event once while the receiver is unreachable', async (t) => {
  const opened = open();
  close(t, opened);
  const { world, notifier, giveUp } = opened;
  const events = await giveUp(3);
  for (let round = 1; round <= 2; round += 1) {
    t.match(await notifier.redeliver('n'), {
      delivered: 0,
      failed: [{ eventId: events[0]?.id, type: 'outputs.pruned', reason: 'answered 503' }],
      left: 3,
      ended: 'failing',
    });
    t.match(await notifier.undelivered('n'), [
      { event: { id: events[0]?.id }, tries: 4 + 4 * round },
      { event: { id: events[1]?.id }, tries: 4 },
      { event: { id: events[2]?.id }, tries: 4 },
    ]);
  }
  world.answer = async ({ id }) => (id === events[1]?.id ? away : { ok: true });
  t.match(await notifier.redeliver('n'), { delivered: 1, left: 2, ended: 'failing' });
  world.answer = async () => ({ ok: true });
  t.match(await notifier.redeliver('n'), { delivered: 2, left: 0 });
  t.same(idsOf(world.received), idsOf(events));
});

t.test('an event that the receiver rejects does not delay others', async (t) => {
  const opened = open();
  close(t, opened);
  const { world, notifier, giveUp } = opened;
  const events = await giveUp(3);
  world.answer = async ({ id }) => (id === events[0]?.id ? refusing : { ok: true });
  t.match(await notifier.redeliver('n'), {
    delivered: 2,
    failed: [{ eventId: events[0]?.id, reason: 'answered 400' }],
    left: 1,
    ended: 'all_tried',
  });
  t.same(idsOf(world.received), idsOf(events).slice(1));
});

t.test('redelivers events in chronological order, whatever the order of their failures', async (t) => {
  const opened = open({ concurrency: 3 });
  close(t, opened);
  const { world, notifier } = opened;
  const event = (id: string, ms: number): Event => eventOf(occurrence, id, new Date(ms));
  for (const one of [event('msg_c', 3), event('msg_a', 1), event('msg_b1', 2), event('msg_b2', 2)])
    await world.undelivered.store('n', { event: one, tries: 1, reason: 'x', givenUpAt: '' });
  world.answer = async () => ({ ok: true });
  await notifier.redeliver('n');
  t.same(idsOf(world.received), ['msg_a', 'msg_b1', 'msg_b2', 'msg_c']);
});

t.test('one of two concurrent redeliveries is rejected, and no event is sent twice', async (t) => {
  const opened = open();
  close(t, opened);
  const { world, notifier, giveUp } = opened;
  const events = await giveUp(3);
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  world.answer = async () => {
    await held;
    return { ok: true };
  };
  const first = notifier.redeliver('n');
  await t.rejects(notifier.redeliver('n'), { code: 'redelivery_running' });
  release();
  t.match(await first, { delivered: 3, left: 0 });
  t.same(idsOf(world.received), idsOf(events));
  t.match(await notifier.redeliver('n'), { delivered: 0 }, 'and may then begin again');
});

t.test('a receiver that was gone and accepts an event gets later ones, too', async (t) => {
  const opened = open();
  close(t, opened);
  const { world, notifier, giveUp } = opened;
  world.answer = async () => ({ ok: false, reason: 'answered 410', retry: false, gone: true });
  await giveUp(2);
  t.match(await notifier.redeliver('n'), { delivered: 0, left: 2, ended: 'failing' });
  world.answer = async () => ({ ok: true });
  t.match(await notifier.redeliver('n'), { delivered: 2, left: 0 });
  await giveUp(1);
  t.equal(world.received.length, 3);
});

t.test('keeps events of a removed notifier until it is configured again', async (t) => {
  const opened = open();
  close(t, opened);
  const { world, notifier, sink, giveUp } = opened;
  const events = await giveUp(2);
  notifier.replace([]);
  t.same(idsOf((await notifier.undelivered('n'))!.map(({ event }) => event)), idsOf(events), 'it is listed');
  await t.rejects(notifier.redeliver('n'), { code: 'notifier_not_found' });
  t.equal(await notifier.undelivered('none'), null);
  notifier.replace([{ config: config('n'), sink }]);
  world.answer = async () => ({ ok: true });
  t.match(await notifier.redeliver('n'), { delivered: 2, left: 0 });
  t.same(idsOf(world.received), idsOf(events));
});

t.test('a waiting event of a removed notifier is undelivered', async (t) => {
  let isEnded = false;
  const event = eventOf(occurrence, 'msg_1', new Date());
  const left = [{ notifierId: 'removed', event, onEnd: () => void (isEnded = true) }];
  const outbox: Outbox = { isDurable: true, open: (take) => left.forEach(take), store: () => undefined };
  const opened = open({ outbox });
  close(t, opened);
  t.match(await opened.notifier.undelivered('removed'), [
    { event, tries: 0, reason: /no longer configured/ },
  ]);
  t.equal(isEnded, true);
});

t.test('close waits for the event in flight, and for no other', async (t) => {
  const { world, notifier, giveUp } = open();
  const events = await giveUp(3);
  let arrived: () => void = () => undefined;
  const sending = new Promise<void>((resolve) => (arrived = resolve));
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  world.answer = async () => {
    arrived();
    await held;
    return { ok: true };
  };
  const redelivery = notifier.redeliver('n');
  await sending;
  const closing = notifier.close(60_000);
  release();
  await closing;
  t.match(await redelivery, { delivered: 1, left: 2, ended: 'stopping' });
  t.same(idsOf(world.received), idsOf(events).slice(0, 1));
});

t.test('a long redelivery ends at its time limit, and the next one continues', async (t) => {
  const opened = open();
  close(t, opened);
  const { world, notifier, giveUp } = opened;
  const events = await giveUp(3);
  let now = 0;
  world.clock.monotonic = () => now;
  world.answer = async () => {
    now += 15_000;
    return { ok: true };
  };
  t.match(await notifier.redeliver('n'), { delivered: 2, left: 1, ended: 'time_over' });
  t.match(await notifier.redeliver('n'), { delivered: 1, left: 0, ended: 'all_tried' });
  t.same(idsOf(world.received), idsOf(events));
});
