import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { type Receiver, startReceiver } from '../core/notify/receiver.ts';
import { type CollectedSpan, type Collector, startCollector } from '../services/collector.ts';
import { startRedis } from '../services/redis.ts';
import {
  acceptedId,
  adminToken,
  bundle,
  follow,
  launchApi,
  launchWorker,
  layOut,
  type Place,
  type PlaceSettings,
  token,
  upload,
} from './processes.ts';

t.setTimeout(0);

/*
 * The built program in each queue mode, with real HTTP servers as collector and webhook: one trace from the
 * request through queue, host and thread to the destination and the webhook.
 */

const secret = `whsec_${Buffer.alloc(32, 'k').toString('base64')}`;
const uploadSpan = 'POST /v1/pipelines/{pipeline_id}/upload';
const quickExport = { OTEL_BSP_SCHEDULE_DELAY: '100' };

function placeFor(t: Test, settings: PlaceSettings, hook: Receiver): Place {
  const notifiers = `[{id: hook, kind: webhook, url: "${hook.url}", secret_env: HOOK, events: [bundle.published]}]`;
  return layOut(t, { notifiers, ...settings, env: { HOOK: secret, ...quickExport, ...settings.env } });
}

const modes = ['memory', 'embedded', 'bullmq'] as const;

async function queueOf(t: Test, mode: (typeof modes)[number]): Promise<PlaceSettings> {
  if (mode === 'memory') return {};
  if (mode === 'embedded') return { embedded: './queue' };
  const redis = await startRedis();
  t.teardown(() => redis.close());
  return { redisUrl: redis.url };
}

/** Each span by its name. Fails if a name occurs twice. */
function byName(t: Test, spans: readonly CollectedSpan[]): Record<string, CollectedSpan> {
  const names = spans.map(({ name }) => name);
  t.same(names.length, new Set(names).size, `each once: ${names.join(', ')}`);
  return Object.fromEntries(spans.map((span) => [span.name, span]));
}

for (const mode of modes)
  t.test(`one trace from the request to the webhook (${mode})`, async (t) => {
    const collector = await startCollector(t);
    const hook = await startReceiver(t);
    const place = placeFor(t, { ...(await queueOf(t, mode)), collector: collector.url }, hook);
    const api = await launchApi(t, place, mode === 'bullmq' ? undefined : ['serve']);
    const worker = mode === 'bullmq' ? await launchWorker(t, place) : api;

    const parent = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331' };
    const runId = await acceptedId(
      await upload(api.url, 'p1', bundle('one'), {
        traceparent: `00-${parent.traceId}-${parent.spanId}-01`,
        tracestate: 'rojo=00f067aa0ba902b7, congo=t61rcWkgMzE',
      }),
    );
    t.match(await follow(api.url, runId), { status: 'succeeded' });
    const found = await collector.until(uploadSpan, 'wait', 'run', 'destination', 'notify');
    const { [uploadSpan]: accept, wait, run, destination, notify } = byName(t, found);
    t.same(
      found.filter(({ traceId }) => traceId !== parent.traceId),
      [],
      'all in the trace of the client',
    );
    t.equal(accept?.parentSpanId, parent.spanId);
    t.equal(wait?.parentSpanId, accept?.spanId);
    t.equal(run?.parentSpanId, accept?.spanId);
    t.equal(destination?.parentSpanId, run?.spanId, 'from the thread');
    t.equal(notify?.parentSpanId, destination?.spanId);
    t.equal(
      hook.received[0]?.headers['traceparent'],
      `00-${parent.traceId}-${notify?.spanId}-01`,
      'the webhook is called',
    );
    const tracestate = 'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE';
    t.equal(hook.received[0]?.headers['tracestate'], tracestate, 'the trace state of others is passed on');
    for (const span of found) t.equal(span.traceState, tracestate, span.name);
    t.same(
      Object.keys(hook.received[0]?.event ?? {}),
      ['id', 'type', 'timestamp', 'data'],
      'in a header only',
    );
    t.match(accept?.attributes, {
      'http.response.status_code': 202,
      'http.route': '/v1/pipelines/{pipeline_id}/upload',
      'waybill.run_id': runId,
      'waybill.pipeline_id': 'p1',
    });
    for (const span of [wait, run, destination]) t.equal(span?.attributes['waybill.run_id'], runId);
    t.match(destination?.attributes, { 'waybill.destination_id': 'web', 'waybill.bundles': 1 });
    t.match(notify?.attributes, { 'waybill.notifier_id': 'hook', 'waybill.tries': 1 });
    for (const span of found) {
      t.ok(span.endedAt >= span.startedAt, `${span.name} ends after it began`);
      t.equal(span.service, 'waybill');
      t.equal(span.status, 0, `${span.name} has not failed`);
    }
    if (run === undefined || destination === undefined) return;
    t.ok(run.startedAt <= destination.startedAt && destination.endedAt <= run.endedAt, 'within the run');
    await api.until(({ msg, trace_id }) => msg === 'request' && trace_id === parent.traceId);
    if (mode === 'bullmq')
      await worker.until(({ msg, trace_id }) => msg === 'run finished' && trace_id === parent.traceId);
  });

for (const mode of modes)
  t.test(`a malformed or missing traceparent starts a new trace (${mode})`, async (t) => {
    const collector = await startCollector(t);
    const hook = await startReceiver(t);
    const place = placeFor(t, { ...(await queueOf(t, mode)), collector: collector.url }, hook);
    const api = await launchApi(t, place, ['serve']);
    const zero = `00-${'0'.repeat(32)}-b7ad6b7169203331-01`;
    const traced: Record<string, string>[] = [{}, { traceparent: 'nonsense' }, { traceparent: zero }];
    for (const [index, headers] of traced.entries())
      await follow(api.url, await acceptedId(await upload(api.url, 'p1', bundle(`b${index}`), headers)));
    const names = [uploadSpan, 'wait', 'run', 'destination', 'notify'];
    const found = await collector.until(...names, ...names, ...names);
    const accepts = found.filter(({ name }) => name === uploadSpan);
    t.same(
      accepts.map(({ parentSpanId }) => parentSpanId),
      ['', '', ''],
    );
    const traces = new Set(accepts.map(({ traceId }) => traceId));
    t.equal(traces.size, 3);
    for (const trace of traces) t.equal(found.filter(({ traceId }) => traceId === trace).length, 5);
  });

for (const mode of ['embedded', 'bullmq'] as const)
  t.test(`a waiting run continues its trace after a restart (${mode})`, async (t) => {
    const collector = await startCollector(t);
    const hook = await startReceiver(t);
    const place = placeFor(t, { ...(await queueOf(t, mode)), collector: collector.url }, hook);
    const first = await launchApi(t, place, ['serve']);
    const admin = { authorization: `Bearer ${adminToken}` };
    const paused = await fetch(`${first.url}v1/pipelines/p1/pause`, { method: 'POST', headers: admin });
    t.equal(paused.status, 200);
    const theirs = { traceparent: `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}-01`, tracestate: 'a=1' };
    const runId = await acceptedId(await upload(first.url, 'p1', bundle('one'), theirs));
    const [accept] = await collector.until(uploadSpan);
    await first.kill('SIGKILL');
    const second = await launchApi(t, place, ['serve']);
    await fetch(`${second.url}v1/pipelines/p1/resume`, { method: 'POST', headers: admin });
    t.match(await follow(second.url, runId), { status: 'succeeded' });
    const found = await collector.until('wait', 'run', 'destination', 'notify');
    t.same([...new Set(found.map(({ traceId }) => traceId))], [accept?.traceId]);
    t.equal(found.find(({ name }) => name === 'run')?.parentSpanId, accept?.spanId);
    t.same(new Set(found.map(({ traceState }) => traceState)), new Set(['a=1']));
    t.equal(hook.received[0]?.headers['tracestate'], 'a=1');
  });

for (const mode of modes)
  t.test(`a redelivered event stays in its trace (${mode})`, async (t) => {
    const collector = await startCollector(t);
    let status = 403;
    const hook = await startReceiver(t, (response) => void response.writeHead(status).end());
    const place = placeFor(t, { ...(await queueOf(t, mode)), collector: collector.url }, hook);
    const first = await launchApi(t, place, ['serve']);
    const theirs = { traceparent: `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}-01`, tracestate: 'a=1' };
    await follow(first.url, await acceptedId(await upload(first.url, 'p1', bundle('one'), theirs)));
    const before = byName(t, await collector.until('destination', 'notify'));
    t.match(before['notify'], { status: 2, attributes: { 'error.type': 'refused' } });
    // Data in memory is lost with the process.
    if (mode !== 'memory') await first.kill('SIGTERM');
    const second = mode === 'memory' ? first : await launchApi(t, place, ['serve']);
    status = 204;
    const answer = await fetch(`${second.url}v1/notifiers/hook/redeliver`, {
      method: 'POST',
      headers: { authorization: `Bearer ${adminToken}` },
    });
    t.match(await answer.json(), { delivered: 1, left: 0 });
    const again = (await collector.until('notify', 'notify')).filter(({ name }) => name === 'notify')[1];
    t.equal(again?.parentSpanId, before['destination']?.spanId);
    t.equal(again?.traceId, before['destination']?.traceId);
    t.equal(hook.received[1]?.headers['traceparent'], `00-${again?.traceId}-${again?.spanId}-01`);
    t.equal(hook.received[1]?.headers['tracestate'], 'a=1');
  });

t.test('a stopping daemon sends its recorded spans', async (t) => {
  const collector = await startCollector(t);
  const hook = await startReceiver(t);
  const place = placeFor(t, { collector: collector.url, env: { OTEL_BSP_SCHEDULE_DELAY: '600000' } }, hook);
  const api = await launchApi(t, place, ['serve']);
  await follow(api.url, await acceptedId(await upload(api.url, 'p1', bundle('one'))));
  t.same(collector.spans, []);
  t.equal(await api.kill('SIGTERM'), 0);
  t.same(collector.spans.map(({ name }) => name).sort(), [
    uploadSpan,
    'destination',
    'notify',
    'run',
    'wait',
  ]);
});

t.test('an unreachable collector affects no run and does not delay shutdown', async (t) => {
  const collector = await startCollector(t);
  const hook = await startReceiver(t);
  collector.answer(400);
  const place = placeFor(t, { collector: collector.url }, hook);
  const api = await launchApi(t, place, ['serve']);
  const publish = async (name: string): Promise<unknown> =>
    follow(api.url, await acceptedId(await upload(api.url, 'p1', bundle(name))));
  t.match(await publish('one'), { status: 'succeeded' });
  await api.until(({ msg }) => msg === 'span export failed; spans are lost until it works again');
  t.match(await publish('two'), { status: 'succeeded' });
  collector.answer(200);
  await collectorBack(collector, publish);
  await api.until(({ msg }) => msg === 'span export works again');
  t.equal(api.lines.filter(({ msg }) => msg.startsWith('span export failed')).length, 1, 'reported once');
  t.equal(await api.kill('SIGTERM'), 0);
});

async function collectorBack(
  { spans }: Collector,
  publish: (name: string) => Promise<unknown>,
): Promise<void> {
  for (let index = 0; spans.length === 0; index += 1) await publish(`again-${index}`);
}

t.test('a daemon ends before its shutdown_timeout even if its collector is unreachable', async (t) => {
  const hook = await startReceiver(t);
  const place = placeFor(t, { collector: 'http://127.0.0.1:1', http: 'shutdown_timeout: 1h' }, hook);
  const api = await launchApi(t, place, ['serve']);
  t.match(await follow(api.url, await acceptedId(await upload(api.url, 'p1', bundle('one')))), {
    status: 'succeeded',
  });
  t.equal(await api.kill('SIGTERM'), 0);
});

const hooks = `
import { register } from 'node:module';
register('data:text/javascript,' + encodeURIComponent(\`
import { appendFileSync } from 'node:fs';
export async function resolve(specifier, context, next) {
  appendFileSync(process.env.RESOLVED, specifier + '\\\\n');
  return next(specifier, context);
}\`));
`;

t.test('OpenTelemetry is loaded only if tracing is enabled', async (t) => {
  const collector = await startCollector(t);
  const hook = await startReceiver(t);
  const loadedWith = async (settings: PlaceSettings): Promise<string[]> => {
    const place = placeFor(t, settings, hook);
    const loader = path.join(place.root, 'hooks.mjs');
    const resolved = path.join(place.root, 'resolved.txt');
    writeFileSync(loader, hooks);
    Object.assign(place.env, { RESOLVED: resolved, NODE_OPTIONS: `--import=${loader}` });
    const api = await launchApi(t, place, ['serve']);
    await follow(api.url, await acceptedId(await upload(api.url, 'p1', bundle('one'))));
    await api.kill('SIGTERM');
    const lines = readFileSync(resolved, 'utf8').split('\n');
    t.ok(lines.length > 10, 'loaded programs are recorded');
    // It is a part of the bundle in a separate file.
    return lines.filter((specifier) => specifier.includes('open-telemetry'));
  };
  t.same(await loadedWith({}), []);
  t.same(await loadedWith({ collector: collector.url, env: { OTEL_SDK_DISABLED: 'true' } }), []);
  t.not((await loadedWith({ collector: collector.url })).length, 0);
  t.equal(hook.received.length, 3);
  t.equal(hook.received[0]?.headers['traceparent'], undefined);
});

t.test('traces runs of a source, runs after a change, and reruns', async (t) => {
  const collector = await startCollector(t);
  const hook = await startReceiver(t);
  const place = placeFor(t, { collector: collector.url }, hook);
  const source = path.join(place.root, 'source');
  const settle = 'watch: true, settle: 100ms';
  const yaml = readFileSync(place.config, 'utf8').replace('pipelines: [p1]', 'pipelines: [p1, files]');
  writeFileSync(
    place.config,
    `${yaml}  - {id: files, source: {backend: local, path: ./source}, ${settle}, destinations: [{id: web, backend: local, path: ./public/files}]}\n`,
  );
  mkdirSync(source);
  const api = await launchApi(t, place, ['serve']);
  const post = async (route: string, headers: Record<string, string> = {}): Promise<string> =>
    acceptedId(
      await fetch(`${api.url}v1/pipelines/${route}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, ...headers },
      }),
    );
  const traceOf = async (runId: string): Promise<CollectedSpan[]> => {
    await follow(api.url, runId);
    const isOfRun = ({ attributes }: CollectedSpan): boolean => attributes['waybill.run_id'] === runId;
    for (;;) {
      const run = collector.spans.find((span) => span.name === 'run' && isOfRun(span));
      if (run !== undefined) return collector.spans.filter(({ traceId }) => traceId === run.traceId);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  const roots = (spans: readonly CollectedSpan[]): string[] =>
    spans.filter(({ parentSpanId }) => parentSpanId === '').map(({ name }) => name);

  const first = await acceptedId(await upload(api.url, 'p1', bundle('one')));
  const uploaded = await traceOf(first);
  t.same(roots(uploaded), [uploadSpan]);
  const repeated = await traceOf(await post(`p1/runs/${first}/rerun`));
  t.same(roots(repeated), ['POST /v1/pipelines/{pipeline_id}/runs/{run_id}/rerun']);
  t.not(repeated[0]?.traceId, uploaded[0]?.traceId, 'a manual run starts a trace');

  const asked = await traceOf(await post('files/runs'));
  t.same(roots(asked), ['POST /v1/pipelines/{pipeline_id}/runs']);

  mkdirSync(path.join(source, 'new'));
  writeFileSync(path.join(source, 'new', 'a.txt'), 'a');
  writeFileSync(
    path.join(source, 'new', 'manifest.json'),
    '{"schema_version": 1, "created": "2026-11-20T01:02:03Z", "files": ["a.txt"]}',
  );
  const { run_id: watched = '' } = await api.until(
    ({ msg }) => msg === 'run started by a change of its source',
  );
  const changed = await traceOf(watched);
  t.same(roots(changed), ['watch']);
  t.ok(
    changed.some(({ name }) => name === 'destination'),
    'including its destination',
  );
});

t.test('a worker without tracing passes the trace on unchanged', async (t) => {
  const collector = await startCollector(t);
  const hook = await startReceiver(t);
  const queue = await queueOf(t, 'bullmq');
  const place = placeFor(t, { ...queue, collector: collector.url }, hook);
  const api = await launchApi(t, place);
  const untraced = { ...place, env: { ...place.env, OTEL_SDK_DISABLED: 'true' } };
  await launchWorker(t, untraced);
  await follow(api.url, await acceptedId(await upload(api.url, 'p1', bundle('one'))));
  while (hook.received.length === 0) await new Promise((resolve) => setTimeout(resolve, 50));
  const [accept] = await collector.until(uploadSpan);
  t.equal(hook.received[0]?.headers['traceparent'], `00-${accept?.traceId}-${accept?.spanId}-01`);
  t.equal(collector.spans.length, 1);
});

t.test('reports rejected requests, except those with a bad token', async (t) => {
  const collector = await startCollector(t);
  const hook = await startReceiver(t);
  const place = placeFor(t, { collector: collector.url }, hook);
  const api = await launchApi(t, place, ['serve']);
  const refused = await upload(api.url, 'p1', bundle('one'), { authorization: 'Bearer wrong' });
  t.equal(refused.status, 401);
  const malformed = await upload(api.url, 'p1', Buffer.alloc(2_000, 'x'));
  t.equal(malformed.status, 400);
  const found = await collector.until(uploadSpan);
  t.equal(await api.kill('SIGTERM'), 0);
  t.match(found, [{ name: uploadSpan, attributes: { 'http.response.status_code': 400 } }]);
  t.equal(collector.spans.length, 1);
});
