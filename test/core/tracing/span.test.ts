import fc from 'fast-check';
import t from 'tap';
import { type FinishedSpan, noTracer, recordingTracer, type Tracer } from '../../../src/core/tracing/span.ts';
import { formatTraceparent, parseTraceparent, traceFields } from '../../../src/core/tracing/trace-context.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const spanId = 'b7ad6b7169203331';
const parent = `00-${traceId}-${spanId}-01`;

/** A tracer with a fixed clock that the test advances. */
function tracerOf(samples: (traceId: string) => boolean = () => true): {
  tracer: Tracer;
  spans: FinishedSpan[];
  pass: (ms: number, wallMs?: number) => void;
} {
  const spans: FinishedSpan[] = [];
  const time = { wall: 1_000_000, monotonic: 5 };
  const clock = { now: () => new Date(time.wall), monotonic: () => time.monotonic };
  const pass = (ms: number, wallMs = ms): void => {
    time.monotonic += ms;
    time.wall += wallMs;
  };
  return {
    tracer: recordingTracer({ clock, report: (span) => void spans.push(span), samples }),
    spans,
    pass,
  };
}

t.test('parses a traceparent as in W3C Trace Context', async (t) => {
  t.same(parseTraceparent(parent), { traceId, spanId, isSampled: true });
  t.same(parseTraceparent(`00-${traceId}-${spanId}-00`), { traceId, spanId, isSampled: false });
  t.same(parseTraceparent(`00-${traceId}-${spanId}-03`), { traceId, spanId, isSampled: true }, 'other flags');
  t.same(parseTraceparent(`cc-${traceId}-${spanId}-01-more`), { traceId, spanId, isSampled: true }, 'newer');
  for (const text of [
    undefined,
    '',
    'nonsense',
    `00-${traceId}-${spanId}`,
    `00-${traceId}-${spanId}-01-more`,
    `00-${traceId.toUpperCase()}-${spanId}-01`,
    `00-${'0'.repeat(32)}-${spanId}-01`,
    `00-${traceId}-${'0'.repeat(16)}-01`,
    `ff-${traceId}-${spanId}-01`,
    ` ${parent}`,
    `${parent}\n`,
  ])
    t.equal(parseTraceparent(text), null, JSON.stringify(text));
});

t.test('parses what it formats, and never throws', async (t) => {
  const hex = (length: number): fc.Arbitrary<string> =>
    fc.stringMatching(new RegExp(`^[0-9a-f]{${length}}$`)).filter((text) => !/^0+$/.test(text));
  const context = fc.record({ traceId: hex(32), spanId: hex(16), isSampled: fc.boolean() });
  fc.assert(
    fc.property(context, (one) => {
      t.same(parseTraceparent(formatTraceparent(one)), one);
    }),
    { numRuns: 100 },
  );
  fc.assert(fc.property(fc.string(), (text) => void parseTraceparent(text)));
});

t.test('a span has the trace of its parent, or starts one', async (t) => {
  const { tracer, spans } = tracerOf();
  const first = tracer.start('first', {
    parent: { traceparent: parent },
    kind: 'server',
    attributes: { a: 1 },
  });
  tracer.start('second', { parent: first.trace, kind: 'internal' }).end();
  first.set({ b: true });
  first.end();
  const [second, ended] = spans;
  t.match(ended, { traceId, parent: { traceId, spanId }, attributes: { a: 1, b: true }, error: null });
  t.match(second, { traceId, parent: { spanId: ended?.spanId ?? '' } });
  for (const broken of [{}, { traceparent: 'nonsense', tracestate: 'a=1' }]) {
    tracer.start('alone', { parent: broken, kind: 'internal' }).end();
    const alone = spans.at(-1);
    t.equal(alone?.parent, null);
    t.match(alone?.traceId, /^[0-9a-f]{32}$/);
    t.not(alone?.traceId, traceId);
    t.notOk('tracestate' in (alone ?? {}), 'which belonged to another trace');
  }
});

t.test('every span of a trace has its trace state', async (t) => {
  const { tracer, spans } = tracerOf();
  const first = tracer.start('first', {
    parent: { traceparent: parent, tracestate: 'a=1,b=2' },
    kind: 'server',
  });
  const second = tracer.start('second', { parent: first.trace, kind: 'internal' });
  t.equal(second.trace.tracestate, 'a=1,b=2');
  second.end();
  first.end();
  t.same(
    spans.map(({ tracestate }) => tracestate),
    ['a=1,b=2', 'a=1,b=2'],
  );
});

t.test('a span is reported once, with its duration independent of the system clock', async (t) => {
  const { tracer, spans, pass } = tracerOf();
  const span = tracer.start('late', { kind: 'internal', agoMs: 400 });
  pass(100, -50_000);
  span.fail('aborted');
  span.end();
  span.set({ more: 1 });
  span.end();
  t.equal(spans.length, 1);
  t.match(spans[0], { startedAt: 999_600, endedAt: 1_000_100, error: 'aborted' });
});

t.test("keeps the sampling decision of the trace's first span", async (t) => {
  const { tracer, spans } = tracerOf(() => false);
  const mine = tracer.start('mine', { kind: 'server' });
  t.match(mine.trace.traceparent, /-00$/);
  tracer.start('below', { parent: mine.trace, kind: 'internal' }).end();
  mine.end();
  t.same(spans, []);
  tracer.start('theirs', { parent: { traceparent: parent }, kind: 'server' }).end();
  t.equal(spans.length, 1);
  const recording = tracerOf(() => true);
  recording.tracer
    .start('theirs', { parent: { traceparent: `00-${traceId}-${spanId}-00` }, kind: 'server' })
    .end();
  t.same(recording.spans, []);
});

t.test('without tracing, creates no spans and passes on the received context', async (t) => {
  t.same(noTracer.start('one', { kind: 'server' }).trace, {});
  t.equal(
    noTracer.start('one', { kind: 'server' }),
    noTracer.start('two', { kind: 'client' }),
    'no new object',
  );
  const theirs = { traceparent: parent, tracestate: 'a=1' };
  const passed = noTracer.start('one', { kind: 'server', parent: theirs });
  passed.set({ a: 1 });
  passed.fail('aborted');
  passed.end();
  t.same(passed.trace, theirs);
});

t.test('log lines have the id of the trace', async (t) => {
  t.same(traceFields({ traceparent: parent }), { trace_id: traceId });
  t.same(traceFields({}), {});
  t.same(traceFields({ traceparent: 'nonsense' }), {});
});
