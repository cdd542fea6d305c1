import { getEventListeners } from 'node:events';
import t from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { deliver } from '../../../src/core/notify/deliver.ts';
import { eventOf } from '../../../src/core/notify/event.ts';
import { newEventId } from '../../../src/core/notify/event-id.ts';
import type { SendResult, Sink } from '../../../src/core/notify/sink.ts';
import { testOccurrence } from '../../../src/core/publish/results/occurrences.ts';

const event = eventOf(testOccurrence('n'), newEventId(), new Date());
const policy = { retries: 0, baseMs: 1, capMs: 1 };

t.test('a finished attempt leaves no listener on any signal', async (t) => {
  for (const [title, answer, timeoutMs] of [
    ['delivered', async (): Promise<SendResult> => ({ ok: true }), 60_000],
    ['failed', async (): Promise<SendResult> => Promise.reject(new Error('a bug')), 60_000],
    ['too slow', () => new Promise<SendResult>(() => undefined), 1],
  ] as const) {
    const [life, stopping] = [new AbortController().signal, new AbortController().signal];
    const signals = [life, stopping];
    const send: Sink['send'] = (_event, signal) => {
      signals.push(signal);
      return answer();
    };
    const sink: Sink = { concurrency: 1, timeoutMs, send, close: async () => undefined };
    const { delivered } = await deliver(sink, event, { clock: systemClock, signal: life, stopping, policy });
    t.equal(delivered, title === 'delivered', title);
    t.same(
      signals.map((signal) => getEventListeners(signal, 'abort').length),
      [0, 0, 0],
      title,
    );
  }
});

t.test('aborting the signal ends an attempt immediately, and the signal of the sink', async (t) => {
  const life = new AbortController();
  const stopping = new AbortController().signal;
  let received: AbortSignal | undefined;
  const send: Sink['send'] = (_event, signal) => {
    received = signal;
    return new Promise(() => undefined);
  };
  const sink: Sink = { concurrency: 1, timeoutMs: 60_000, send, close: async () => undefined };
  const sent = deliver(sink, event, { clock: systemClock, signal: life.signal, stopping, policy });
  life.abort();
  t.match(await sent, { delivered: false, reason: 'the notifier was stopping', isTemporary: true });
  t.ok(received?.aborted);
});
