import t from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import type { DeliveryOutcome } from '../../../src/core/notify/delivery-queue.ts';
import { eventOf } from '../../../src/core/notify/event.ts';
import { Notifier } from '../../../src/core/notify/notifier.ts';
import { type OutboxEvent, undeliveredInMemory } from '../../../src/core/notify/outbox.ts';
import type { SendResult, Sink } from '../../../src/core/notify/sink.ts';
import { testOccurrence } from '../../../src/core/publish/results/occurrences.ts';
import { type FinishedSpan, recordingTracer } from '../../../src/core/tracing/span.ts';
import { parseTraceparent, type TraceContext } from '../../../src/core/tracing/trace-context.ts';

const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const trace: TraceContext = { traceparent, tracestate: 'rojo=00f067aa0ba902b7,t@vendor=x' };
const parent = parseTraceparent(traceparent);
const occurrence = testOccurrence('n');

function open({ left = [], answer }: { left?: OutboxEvent[]; answer: () => SendResult }) {
  const spans: FinishedSpan[] = [];
  const sent: (TraceContext | undefined)[] = [];
  const kept: OutboxEvent[] = [];
  const undelivered = undeliveredInMemory();
  const outcomes: DeliveryOutcome[] = [];
  const sink: Sink = {
    concurrency: 1,
    timeoutMs: 10_000,
    send: async (_event, _signal, traced) => {
      sent.push(traced);
      return answer();
    },
    close: async () => undefined,
  };
  const notifier = new Notifier({
    notifiers: [
      // The schema has no subscription to test events; a notifier only requests events that it supports.
      {
        config: { id: 'n', kind: 'log', events: [occurrence.type as never], acts: null, pipelines: null },
        sink,
      },
    ],
    clock: systemClock,
    log: silentLog,
    tracer: recordingTracer({
      clock: systemClock,
      report: (span) => void spans.push(span),
      samples: () => true,
    }),
    onOutcome: (outcome) => void outcomes.push(outcome),
    undelivered,
    outbox: {
      isDurable: true,
      open: (take) => left.forEach((one) => take({ ...one, onEnd: () => undefined })),
      store: (traced, notifierIds, deliver) => {
        for (const notifierId of notifierIds) {
          kept.push({ ...traced, notifierId });
          deliver(notifierId, () => undefined);
        }
      },
    },
  });
  const ended = async (count: number): Promise<void> => {
    while (outcomes.length < count) await new Promise((resolve) => setImmediate(resolve));
  };
  return { notifier, spans, sent, kept, undelivered, ended };
}

const refusing: SendResult = { ok: false, reason: 'answered 400', retry: false };

t.test('an event that is rejected several times stays in its trace', async (t) => {
  const { notifier, spans, sent, kept, undelivered, ended } = open({ answer: () => refusing });
  notifier.notify(occurrence, trace);
  await ended(1);
  t.match(kept, [{ notifierId: 'n', ...trace }]);
  t.match(await undelivered.list('n'), [{ ...trace, tries: 1 }]);
  for (const tries of [2, 3]) {
    t.match(await notifier.redeliver('n'), { delivered: 0, left: 1 });
    t.match(await undelivered.list('n'), [{ ...trace, tries }]);
  }
  t.equal(spans.length, 3);
  for (const [index, span] of spans.entries()) {
    t.match(span, { name: 'notify', parent, error: 'refused', attributes: { 'waybill.tries': 1 } });
    t.equal(span.tracestate, trace.tracestate);
    t.same(
      sent[index],
      { ...trace, traceparent: `00-${span.traceId}-${span.spanId}-01` },
      'the receiver gets the span of the delivery',
    );
  }
  await notifier.close(1_000);
});

t.test('an event of an earlier process continues its trace, or starts its own', async (t) => {
  const eventFor = (id: string): OutboxEvent => ({
    notifierId: 'n',
    event: eventOf(occurrence, id, new Date(0)),
  });
  const left = [{ ...eventFor('msg_1'), ...trace }, eventFor('msg_2')];
  const { notifier, spans, ended } = open({ left, answer: () => ({ ok: true }) });
  await ended(2);
  t.match(spans, [
    { parent, error: null },
    { parent: null, error: null },
  ]);
  t.not(spans[1]?.traceId, parent?.traceId);
  await notifier.close(1_000);
});
