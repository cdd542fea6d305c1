import t from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import type { Log } from '../../../src/core/lib/log.ts';
import { loadSecrets } from '../../../src/core/lib/secrets.ts';
import {
  batchLimitsOf,
  parseExportHeaders,
  samplingOf,
  type TracingSettings,
} from '../../../src/core/tracing/environment.ts';
import { noTracing, openTracing, type Tracing } from '../../../src/core/tracing/open-tracing.ts';
import { startCollector } from '../../services/collector.ts';

t.setTimeout(0);

const unset: TracingSettings = { endpoint: null, headersEnv: null, serviceName: null, sampleRatio: null };

interface Line {
  level: string;
  message: string;
  fields: object;
}

async function open(
  settings: Partial<TracingSettings> | null,
  { env = {}, sendAtMostMs }: { env?: Record<string, string>; sendAtMostMs?: number } = {},
): Promise<Tracing & { lines: Line[] }> {
  const lines: Line[] = [];
  const line =
    (level: string) =>
    (fields: object, message: string): void =>
      void lines.push({ level, fields, message });
  const log: Log = { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') };
  const secrets = await loadSecrets({ directory: null, env });
  const tracing = await openTracing(settings === null ? null : { ...unset, ...settings }, {
    ...{ clock: systemClock, log, secrets, env, version: '1.2.3' },
    ...(sendAtMostMs === undefined ? {} : { sendAtMostMs }),
  });
  return Object.assign({ ...tracing }, { lines });
}

t.test('spans reach a collector unchanged, with the headers of the secret', async (t) => {
  const collector = await startCollector(t);
  const tracing = await open(
    { endpoint: collector.url, headersEnv: 'HEADERS', serviceName: 'maps' },
    { env: { HEADERS: 'Authorization=Bearer%20a-token, x-tenant=one' } },
  );
  const { tracer } = tracing;
  const first = tracer.start('first', { kind: 'server', attributes: { text: 'a', count: 2, yes: true } });
  const theirs = { traceparent: `00-${'c'.repeat(32)}-${'d'.repeat(16)}-01`, tracestate: 'a=1,b=2' };
  tracer.start('fourth', { kind: 'server', parent: theirs }).end();
  const second = tracer.start('second', { kind: 'client', parent: first.trace, agoMs: 1_500 });
  second.fail('storage_full');
  second.end();
  first.end();
  tracing.report({
    ...{ name: 'third', kind: 'internal', parent: null, attributes: {}, error: null },
    ...{ traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), isSampled: true },
    ...{ startedAt: 1_000.25, endedAt: 2_000.5 },
  });
  await tracing.close(10_000);
  t.match(collector.requests, [
    { path: '/v1/traces', headers: { authorization: 'Bearer a-token', 'x-tenant': 'one' } },
  ]);
  const spans = new Map(collector.spans.map((span) => [span.name, span]));
  t.match(spans.get('first'), {
    ...{ parentSpanId: '', kind: 2, status: 0, service: 'maps' },
    attributes: { text: 'a', count: 2, yes: true },
  });
  t.match(spans.get('second'), {
    ...{ kind: 3, status: 2, traceId: spans.get('first')?.traceId, parentSpanId: spans.get('first')?.spanId },
    attributes: { 'error.type': 'storage_full' },
  });
  const second_ = spans.get('second');
  t.ok(second_ !== undefined && second_.endedAt - second_.startedAt >= 1_500_000_000n);
  t.equal(spans.get('first')?.traceState, '');
  t.match(spans.get('fourth'), { traceId: 'c'.repeat(32), traceState: 'a=1,b=2' });
  t.match(spans.get('third'), { startedAt: 1_000_250_000n, endedAt: 2_000_500_000n });
  t.same(tracing.lines, []);
});

t.test('is off unless it is configured, and with OTEL_SDK_DISABLED', async (t) => {
  const off = await open(null);
  t.equal(off.tracer, noTracing.tracer);
  await off.close(0);
  t.equal((await open({}, { env: { OTEL_SDK_DISABLED: 'true' } })).tracer.isOn, false);
  const on = await open({}, { env: { OTEL_SDK_DISABLED: 'false' } });
  t.equal(on.tracer.isOn, true);
  await on.close(0);
});

t.test('rejects invalid settings by name, and never shows secret ones', async (t) => {
  const refused = async (
    env: Record<string, string>,
    expected: { code: string; message?: RegExp },
  ): Promise<void> => {
    await t.rejects(open({ headersEnv: 'HEADERS' }, { env: { HEADERS: 'a=b', ...env } }), expected);
  };
  await refused({ HEADERS: '' }, { code: 'secrets_invalid', message: /HEADERS/ });
  await refused({ HEADERS: 'Bearer the-value' }, { code: 'secrets_invalid', message: /^(?!.*the-value)/ });
  await refused({ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, { code: 'config_invalid', message: /over HTTP/ });
  await refused({ OTEL_TRACES_SAMPLER: 'jaeger_remote' }, { code: 'config_invalid' });
  await refused(
    { OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '2' },
    { code: 'config_invalid', message: /OTEL_TRACES_SAMPLER_ARG/ },
  );
  await refused({ OTEL_BSP_MAX_QUEUE_SIZE: 'many' }, { code: 'config_invalid' });
  const on = await open({}, { env: { OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf' } });
  await on.close(0);
});

t.test('parses headers of a secret', async (t) => {
  t.same(parseExportHeaders('a=b', 'H'), { a: 'b' });
  t.same(parseExportHeaders(' A = b%2Cc== , ,x-y=', 'H'), { a: 'b,c==', 'x-y': '' });
  for (const text of ['', ',', 'a', '=b', 'a b=c', 'a=%zz', 'a=%0d%0ax: y', 'a=ü'])
    t.throws(() => parseExportHeaders(text, 'H'), { code: 'secrets_invalid' }, text);
});

t.test('the sampling ratio comes from the configuration, else the environment, else all', async (t) => {
  const half = '7fffffff'.padEnd(32, '0');
  const last = 'f'.repeat(32);
  const decided = (sampleRatio: number | null, env: Record<string, string> = {}): boolean[] =>
    [half, last].map(samplingOf({ sampleRatio }, env));
  t.same(decided(null), [true, true]);
  t.same(decided(0.5), [true, false]);
  t.same(decided(0), [false, false]);
  t.same(decided(1, { OTEL_TRACES_SAMPLER: 'always_off' }), [true, true]);
  t.same(decided(null, { OTEL_TRACES_SAMPLER: 'always_off' }), [false, false]);
  t.same(decided(null, { OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.5' }), [
    true,
    false,
  ]);
});

t.test('limits batches', async (t) => {
  t.same(batchLimitsOf({ OTEL_BSP_SCHEDULE_DELAY: '', OTEL_BSP_MAX_QUEUE_SIZE: '10' }), { maxQueueSize: 10 });
  for (const text of ['0', '-1', '1.5', 'x'])
    t.throws(() => batchLimitsOf({ OTEL_BSP_EXPORT_TIMEOUT: text }), { code: 'config_invalid' });
});

t.test('logs once when a collector rejects spans, and once when it accepts them again', async (t) => {
  const collector = await startCollector(t);
  const tracing = await open({ endpoint: collector.url }, { env: { OTEL_BSP_SCHEDULE_DELAY: '20' } });
  const until = async (done: () => boolean): Promise<void> => {
    while (!done()) {
      tracing.tracer.start('one', { kind: 'internal' }).end();
      await systemClock.sleep(20);
    }
  };
  collector.answer(400);
  await until(() => collector.requests.length >= 3);
  collector.answer(200);
  await until(() => collector.spans.length > 0);
  await tracing.close(10_000);
  t.match(tracing.lines, [
    { level: 'warn', message: /^span export failed/, fields: { reason: 'the collector answered 400' } },
    { level: 'info', message: 'span export works again' },
  ]);
  t.equal(tracing.lines.length, 2);
});

t.test('the queue of spans is limited, and close does not wait for an unreachable collector', async (t) => {
  const collector = await startCollector(t);
  const tracing = await open(
    { endpoint: collector.url },
    { env: { OTEL_BSP_MAX_QUEUE_SIZE: '8', OTEL_BSP_SCHEDULE_DELAY: '600000' } },
  );
  for (let count = 0; count < 50; count += 1) tracing.tracer.start('one', { kind: 'internal' }).end();
  await tracing.close(10_000);
  t.ok(collector.spans.length > 0 && collector.spans.length <= 16, String(collector.spans.length));
  const unreachable = await open({ endpoint: 'http://127.0.0.1:1' }, { sendAtMostMs: 3_600_000 });
  unreachable.tracer.start('one', { kind: 'internal' }).end();
  await unreachable.close(300);
});
