import fc from 'fast-check';
import t from 'tap';
import { receivedTrace, traceOf } from '../../../src/core/tracing/trace-context.ts';

const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

t.test('passes on trace context as W3C Trace Context requires', async (t) => {
  const handedOn = (tracestate: string): string | undefined =>
    receivedTrace(traceparent, tracestate).tracestate;
  for (const list of [
    'rojo=00f067aa0ba902b7',
    'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE',
    'fw529a3039@dt=FfAAAA;b;c:d',
    '0tenant@vendor=1',
    'a_-*/9= b c',
    `${'a'.repeat(256)}=x`,
    `a=${'x'.repeat(256)}`,
    Array.from({ length: 32 }, (_, index) => `k${index}=v`).join(','),
  ])
    t.equal(handedOn(list), list, list);
  t.equal(handedOn(' a=1 ,, \tb=2,'), 'a=1,b=2', 'without blanks and empty members');
  for (const malformed of [
    '',
    ' , ',
    'a',
    'a=',
    '=1',
    'A=1',
    '0a=1',
    'a=1,b',
    'a=1,a=2',
    'a=b=c',
    'a=ü',
    'a=\x01',
    'a@b@c=1',
    'a@0=1',
    `${'a'.repeat(257)}=x`,
    `a=${'x'.repeat(257)}`,
    Array.from({ length: 33 }, (_, index) => `k${index}=v`).join(','),
  ])
    t.equal(handedOn(malformed), undefined, JSON.stringify(malformed));
});

t.test('drops long members of a long list first, and then the oldest', async (t) => {
  const long = `long=${'x'.repeat(200)}`;
  const short = Array.from({ length: 5 }, (_, index) => `k${index}=${'y'.repeat(80)}`);
  const of = (...members: string[]): string | undefined =>
    receivedTrace(traceparent, members.join(',')).tracestate;
  t.equal(of(long, ...short), short.join(','));
  t.equal(of(long, ...short.slice(0, 3)), [long, ...short.slice(0, 3)].join(','), 'it fits');
  const many = Array.from({ length: 9 }, (_, index) => `k${index}=${'y'.repeat(80)}`);
  t.equal(of(...many), many.slice(0, 6).join(','));
});

t.test('an invalid traceparent drops the whole trace', async (t) => {
  t.same(receivedTrace(undefined, 'a=1'), {});
  t.same(receivedTrace('nonsense', 'a=1'), {});
  t.same(receivedTrace(traceparent, undefined), { traceparent });
  t.same(
    receivedTrace(traceparent, 'no list'),
    { traceparent },
    'a traceparent without a valid tracestate stays',
  );
  fc.assert(
    fc.property(fc.string(), (text) => {
      const { tracestate = '' } = receivedTrace(traceparent, text);
      t.ok(tracestate.length <= 512);
      t.same(receivedTrace(traceparent, tracestate).tracestate ?? '', tracestate, 'is passed on unchanged');
    }),
  );
});

t.test('returns only the trace context of an object', async (t) => {
  const trace = { traceparent, tracestate: 'a=1' };
  t.same(traceOf({ ...trace, runId: 'maps.1' } as object), trace);
  t.same(traceOf({}), {});
});
