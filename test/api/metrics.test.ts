import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Registry } from 'prom-client';
import type { Test } from 'tap';
import t from 'tap';
import * as tar from 'tar';
import { definer } from '../../src/api/metrics/definer.ts';
import { createMetrics } from '../../src/api/metrics/metrics.ts';
import { RunMetrics } from '../../src/api/metrics/run-metrics.ts';
import { daemonRoutes as routes } from '../../src/cli/daemon/daemon-app.ts';
import { type RunningServer, serve } from '../../src/cli/daemon/serve.ts';
import { errorTable } from '../../src/core/lib/error-codes.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import type { RunRecord } from '../../src/workers/queue/run-record.ts';
import { startApi, tokens, upload } from './harness.ts';

interface Scrape {
  types: Map<string, string>;
  samples: { name: string; labels: Record<string, string>; value: number }[];
}

async function scrape(origin: string): Promise<Scrape> {
  const response = await fetch(`${origin.replace(/\/$/, '')}/metrics`);
  return parse(await response.text());
}

/** Parses the metrics. Throws if a line is not a comment or a sample. */
function parse(text: string): Scrape {
  const types = new Map<string, string>();
  const samples: Scrape['samples'] = [];
  for (const line of text.split('\n').filter((one) => one !== '')) {
    const [, metric, type] = /^# TYPE (\S+) (\w+)$/.exec(line) ?? [];
    if (metric !== undefined && type !== undefined) types.set(metric, type);
    if (line.startsWith('#')) continue;
    const [, name, labels = '', value] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    if (name === undefined) throw new Error(`not a sample: ${line}`);
    const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)];
    const byName = Object.fromEntries(pairs.map(([, label = '', text = '']) => [label, text]));
    samples.push({ name, labels: byName, value: Number(value) });
  }
  return { types, samples };
}

function valueOf({ samples }: Scrape, name: string, labels: Record<string, string> = {}): number | undefined {
  const found = samples.find(
    (one) => one.name === name && Object.entries(labels).every(([label, text]) => one.labels[label] === text),
  );
  return found?.value;
}

async function startDaemon(
  t: Test,
  metrics = '{}',
  env: Record<string, string> = {},
  queue = '{driver: memory}',
) {
  const root = t.testdir({ public: {}, bundle: { 'a.txt': 'hello' } });
  writeFileSync(
    path.join(root, 'bundle/manifest.json'),
    '{"schema_version":1,"name":"one","created":"2026-11-20T01:02:03Z","files":["a.txt"]}',
  );
  const configFile = path.join(root, 'waybill.yaml');
  writeFileSync(
    configFile,
    `
upload_tokens: [{id: ci, value_env: TOKEN, pipelines: [maps]}]
server: {http: {listen: "127.0.0.1:0"}, staging: {directory: ./staging}, metrics: ${metrics}, queue: ${queue}}
pipelines:
  - id: maps
    source: {backend: http_upload}
    destinations:
      - {id: web, backend: local, path: ./public, outputs: {checksums: true}}
      - {id: gone, backend: local, path: ./waybill.yaml}
`,
  );
  const start = async (): Promise<RunningServer> => {
    const served = await serve({
      configFile,
      log: silentLog,
      env: { TOKEN: tokens.maps, HOME: root, ...env },
    });
    t.teardown(() => served.close());
    return served;
  };
  const served = await start();
  const archive: Buffer[] = [];
  for await (const chunk of tar.create({ cwd: path.join(root, 'bundle'), portable: true }, ['.']))
    archive.push(chunk);
  return { served, start, root, origin: served.url.replace(/\/$/, ''), archive: Buffer.concat(archive) };
}

async function publish(served: RunningServer, archive: Buffer, headers = {}): Promise<RunRecord> {
  const response = await fetch(`${served.url}v1/pipelines/maps/upload`, {
    method: 'POST',
    headers: { authorization: `Bearer ${tokens.maps}`, 'content-type': 'application/x-tar', ...headers },
    body: new Uint8Array(archive),
  });
  const { run_id: id } = (await response.json()) as { run_id: string };
  for (;;) {
    const run = (await (await fetch(`${served.url}runs/${id}`)).json()) as RunRecord;
    if (run.finished_at !== null) return run;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

t.test('shows a real publication in a scrape, with every metric listed in docs/metrics.md', async (t) => {
  const { served, origin, archive } = await startDaemon(t);
  const start = await scrape(origin);
  t.equal(
    valueOf(start, 'waybill_runs_total', { pipeline: 'maps', status: 'succeeded' }),
    0,
    'begins at zero',
  );
  const key = { 'idempotency-key': 'k' };
  t.match(await publish(served, archive, key), { status: 'failed', summary: { publish_new: 1 } });
  await publish(served, archive, key);
  const seen = await scrape(origin);
  const maps = { pipeline: 'maps' };
  const web = { ...maps, destination: 'web', action: 'publish_new' };
  for (const [name, labels, value] of [
    ['waybill_uploads_total', { ...maps, result: 'accepted' }, 1],
    ['waybill_uploads_total', { ...maps, result: 'replayed' }, 1],
    ['waybill_upload_received_bytes_total', maps, 2 * archive.length],
    ['waybill_upload_extracted_bytes_total', maps, 10],
    ['waybill_runs_total', { ...maps, status: 'failed' }, 1],
    ['waybill_runs_total', { ...maps, status: 'succeeded' }, 0],
    ['waybill_runs_total', { ...maps, status: 'cancelled' }, 0],
    ['waybill_run_duration_seconds_count', maps, 1],
    ['waybill_run_queue_seconds_count', maps, 1],
    ['waybill_publications_total', web, 1],
    ['waybill_publications_total', { ...maps, destination: 'gone', action: 'error' }, 1],
    ['waybill_outputs_written_total', web, 2],
    ['waybill_outputs_kept_total', web, 0],
    ['waybill_kept_bytes_total', maps, 0],
    ['waybill_outputs_removed_total', web, 0],
    ['waybill_queue_depth', { state: 'running' }, 0],
    ['waybill_queue_oldest_seconds', maps, 0],
    ['waybill_ready', {}, 1],
    ['waybill_publications_total', { ...maps, destination: 'web', action: 'error' }, 0],
    ['waybill_check_up', { check: 'room' }, 1],
    ['waybill_last_success_timestamp_seconds', { ...maps, destination: 'gone' }, undefined],
    ['waybill_kept_bundles', {}, 1],
    ['waybill_worker_threads', {}, 1],
    ['waybill_worker_threads_busy', {}, 0],
    ['waybill_worker_threads_replaced_total', {}, 0],
    ['waybill_http_requests_total', { method: 'POST', status: '202' }, 2],
  ] as const)
    t.equal(valueOf(seen, name, labels), value, `${name} ${JSON.stringify(labels)}`);
  t.ok((valueOf(seen, 'waybill_published_bytes_total', maps) ?? 0) > 5);
  t.equal(valueOf(start, 'waybill_published_bytes_total', { ...maps, destination: 'gone' }), 0);
  const success =
    valueOf(seen, 'waybill_last_success_timestamp_seconds', { ...maps, destination: 'web' }) ?? 0;
  t.ok(success > Date.now() / 1000 - 600 && success <= Date.now() / 1000);
  t.ok((valueOf(seen, 'waybill_kept_bundles_bytes') ?? 0) >= 5, 'for the failed run');
  await publish(served, archive);
  const later = await scrape(origin);
  t.equal(valueOf(later, 'waybill_outputs_kept_total', { ...web, action: 'skip_same' }), 2);
  t.equal(
    valueOf(later, 'waybill_kept_bytes_total', maps),
    valueOf(seen, 'waybill_published_bytes_total', maps),
    'all published files are kept',
  );
  t.ok((valueOf(seen, 'waybill_run_duration_seconds_sum', maps) ?? 0) > 0);
  t.ok((valueOf(seen, 'process_resident_memory_bytes') ?? 0) > 1_000_000);

  // The daemon above has no weather database and no scheduled run.
  const api = await startApi(t);
  api.ports.metrics?.schedules.begun({ pipelineId: 'files', kind: 'schedule' });
  api.ports.metrics?.schedules.missed({ pipelineId: 'files', reason: 'down', count: 3 });
  api.ports.metrics?.schedules.decided({ pipelineId: 'files', kind: 'watch', outcome: 'coalesced' });
  api.ports.metrics?.schedules.polled('files', true);
  api.ports.metrics?.weatherRejected('alerts', 'bad_instant');
  api.ports.metrics?.weatherStoodIn('alerts');
  api.ports.metrics?.weatherAnswered('currentConditions', { stale: true, asOf: new Date(1_000_000) });
  const reads = await scrape(api.origin);
  const conditions = { family: 'current_conditions' };
  const ofSchedule = { pipeline: 'files', kind: 'schedule', outcome: 'started' };
  const changes = { pipeline: 'files', kind: 'watch', outcome: 'coalesced' };
  t.equal(valueOf(reads, 'waybill_triggers_total', ofSchedule), 0, 'present before the first tick');
  t.equal(valueOf(reads, 'waybill_triggers_total', changes), 1);
  t.equal(valueOf(reads, 'waybill_schedule_missed_total', { pipeline: 'files', reason: 'down' }), 3);
  t.equal(valueOf(reads, 'waybill_watch_polled', { pipeline: 'files' }), 1);
  t.equal(valueOf(reads, 'waybill_weather_rejected_total', { family: 'alerts', reason: 'bad_instant' }), 1);
  t.equal(valueOf(reads, 'waybill_weather_stale', conditions), 1);
  t.equal(valueOf(reads, 'waybill_weather_data_timestamp_seconds', conditions), 1000);
  t.equal(valueOf(reads, 'waybill_weather_database_up'), 1);
  const others = /^waybill_(weather|triggers|schedule|watch)_/;
  for (const [name, type] of reads.types) if (others.test(name)) seen.types.set(name, type);
  seen.samples.push(...reads.samples.filter(({ name }) => others.test(name)));

  const documented = rowsOf(readFileSync('docs/metrics.md', 'utf8'));
  const ours = [...seen.types].filter(([name]) => name.startsWith('waybill_'));
  t.same(Object.fromEntries(documented.map(({ name, type }) => [name, type])), Object.fromEntries(ours));
  for (const { name, labels } of documented) {
    const family = seen.samples.filter((one) => one.name.replace(/_(bucket|sum|count)$/, '') === name);
    if (!labels.includes('notifier')) t.ok(family.length > 0, `${name} was seen`);
    for (const one of family)
      t.same(
        Object.keys(one.labels)
          .filter((label) => label !== 'le')
          .sort(),
        labels,
        `${name} has its labels`,
      );
  }
  t.same(
    [...seen.types.keys()].filter((name) => !/^(waybill|process|nodejs)_/.test(name)),
    [],
  );
});

t.test('a success while the clock was ahead does not hide later ones', async (t) => {
  const registry = new Registry();
  const metrics = new RunMetrics(definer(registry));
  const place = { pipelineId: 'maps', destinationId: 'web' };
  const seconds = async (): Promise<number> =>
    Number(/^waybill_last_success.* (\S+)$/m.exec(await registry.metrics())?.[1]);
  const now = Math.floor(Date.now() / 1000);
  for (const [at, seen] of [
    [now + 365 * 86_400, now + 365 * 86_400],
    [now - 10, now - 10],
    [now - 20, now - 10],
  ] as const) {
    metrics.succeededAt(place, new Date(at * 1000));
    t.equal(await seconds(), seen);
  }
});

t.test('a restart takes the times of publication from catalogs or from kept records', async (t) => {
  const name = 'waybill_last_success_timestamp_seconds';
  const web = { pipeline: 'maps', destination: 'web' };
  for (const queue of ['{driver: memory}', '{driver: embedded, directory: ./queue}']) {
    const { served, start, root, archive } = await startDaemon(t, '{}', {}, queue);
    t.equal(valueOf(await scrape(served.url), name), undefined, 'nothing is known about new pipelines');
    const run = await publish(served, archive);
    await served.close();
    const state = path.join(root, 'public/one/.publisher.json');
    const { updated_at: committed } = JSON.parse(readFileSync(state, 'utf8')) as { updated_at: string };
    if (queue.includes('embedded')) rmSync(path.join(root, 'public'), { recursive: true });
    const again = await start();
    let seen = await scrape(again.url);
    while (valueOf(seen, name, web) === undefined) seen = await scrape(again.url);
    const expected = queue.includes('embedded') ? run.finished_at : committed;
    t.equal(valueOf(seen, name, web), Date.parse(expected ?? '') / 1000, queue);
    t.equal(valueOf(seen, name, { ...web, destination: 'gone' }), undefined, 'one cannot be reached');
    await again.close();
  }
});

t.test('measures event loop lag as long as the daemon runs', async (t) => {
  const { origin } = await startDaemon(t);
  const measured = async (): Promise<number> =>
    valueOf(await scrape(origin), 'waybill_event_loop_lag_seconds_count') ?? 0;
  // Checks ten times a second. The test's own timeout ends the loop.
  while ((await measured()) < 2) await new Promise((resolve) => setTimeout(resolve, 20));
  t.pass('more than once');
});

t.test('reports the age of the longest waiting run, by pipeline', async (t) => {
  const { origin } = await startApi(t);
  t.equal(valueOf(await scrape(origin), 'waybill_queue_oldest_seconds', { pipeline: 'maps' }), 0);
  await upload(origin);
  const age = async () =>
    valueOf(await scrape(origin), 'waybill_queue_oldest_seconds', { pipeline: 'maps' }) ?? 0;
  const first = await age();
  let second = await age();
  while (second <= first) second = await age();
  t.ok(second < 600);
  t.equal(valueOf(await scrape(origin), 'waybill_queue_oldest_seconds', { pipeline: 'docs' }), 0);
});

t.test('no label has a value from a client', async (t) => {
  const { origin } = await startApi(t);
  const canary = 'canary-4711';
  for (const [path, init] of [
    [`/${canary}`, {}],
    [`/runs/${canary}?${canary}`, {}],
    [`/v1/pipelines/${canary}/runs`, { headers: { authorization: `Bearer ${tokens.maps}` } }],
    ['/healthz', { method: 'REPORT' }],
    ['/nowhere', { method: 'PROPFIND' }],
  ] as const)
    await (await fetch(origin + path, init)).text();
  await upload(origin, { pipeline: canary });
  await upload(origin, { headers: { 'idempotency-key': canary, 'content-type': canary } });
  // A request with a rejected body ends only after the body was read to its end.
  const ofUploads = (seen: Scrape) => seen.samples.filter(({ name }) => name === 'waybill_uploads_total');
  let last = await scrape(origin);
  while (ofUploads(last).length < 2) last = await scrape(origin);
  const { samples } = last;
  t.notMatch(JSON.stringify(samples), canary);
  const paths = new Set<string | undefined>([...routes.map((route) => route.path), 'none']);
  const results = new Set<string | undefined>([...Object.keys(errorTable), 'accepted', 'replayed']);
  const methods = new Set<string | undefined>(['GET', 'HEAD', 'POST', 'other']);
  const ofRequests = samples.filter(({ name }) => name.startsWith('waybill_http_'));
  t.ok(ofRequests.length > 5);
  for (const { labels } of ofRequests) {
    t.ok(paths.has(labels['route']), `route ${labels['route'] ?? ''}`);
    t.ok(methods.has(labels['method']), `method ${labels['method'] ?? ''}`);
  }
  const uploads = ofUploads(last);
  t.same(
    uploads.map(({ labels }) => [labels['pipeline'], labels['result']]),
    [
      ['none', 'pipeline_not_found'],
      ['maps', 'unsupported_media_type'],
    ],
  );
  for (const { labels } of uploads) t.ok(results.has(labels['result']));
});

t.test('the answer has the Prometheus text format, for HEAD and below a base path too', async (t) => {
  const { origin } = await startApi(t, { http: { basePath: '/waybill/' } });
  const response = await fetch(`${origin}/waybill/metrics`);
  t.equal(response.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8');
  t.match(await response.text(), /^waybill_build_info\{version="1\.2\.3",node_version="v\d+/m);
  const head = await fetch(`${origin}/waybill/metrics`, { method: 'HEAD' });
  t.equal(head.status, 200);
  t.equal(await head.text(), '');
  t.equal((await fetch(`${origin}/metrics`)).status, 404);
});

t.test('leaves out only depth and retention of an unreachable queue', async (t) => {
  const { origin, ports } = await startApi(t);
  ports.queue.depth = () => Promise.reject(new Error('no connection'));
  ports.queue.bundleUsage = () => Promise.reject(new Error('no connection'));
  const seen = await scrape(origin);
  t.equal(valueOf(seen, 'waybill_queue_depth'), undefined);
  t.equal(valueOf(seen, 'waybill_kept_bundles'), undefined);
  t.equal(valueOf(seen, 'waybill_kept_bundles_bytes'), undefined);
  t.equal(valueOf(seen, 'waybill_worker_threads_replaced_total'), 3);
});

t.test('metrics can be protected by a token of their own, and switched off', async (t) => {
  const asked = await startDaemon(t, '{token_env: METRICS}', { METRICS: tokens.metrics });
  const status = async (token?: string) =>
    (
      await fetch(
        `${asked.origin}/metrics`,
        token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } },
      )
    ).status;
  t.equal(await status(), 401);
  t.equal(await status(tokens.maps), 401, 'an upload token is not a metrics token');
  t.equal(await status(tokens.metrics), 200);
  const list = await fetch(`${asked.origin}/v1/pipelines/maps/runs`, {
    headers: { authorization: `Bearer ${tokens.metrics}` },
  });
  t.equal(list.status, 401, 'and a metrics token is not an upload token');
  const off = await startDaemon(t, '{enabled: false}');
  t.equal((await fetch(`${off.origin}/metrics`)).status, 404);
  const { paths } = (await (await fetch(`${off.origin}/openapi.json`)).json()) as { paths: object };
  t.notOk('/metrics' in paths);
  await t.rejects(startDaemon(t, '{token_env: METRICS}'), { code: 'secrets_invalid', message: /METRICS/ });
});

t.test('two daemons of one process count separately, and deliveries are counted by outcome', async (t) => {
  const options = {
    version: '1',
    nodeVersion: 'v1',
    pipelineIds: [],
  };
  const [one, other] = [createMetrics(options), createMetrics(options)];
  for (const delivered of [true, true, false]) one.recordDelivery({ notifierId: 'hook', delivered });
  const seen = parse(await one.text());
  const name = 'waybill_event_deliveries_total';
  t.equal(valueOf(seen, name, { notifier: 'hook', result: 'delivered' }), 2);
  t.equal(valueOf(seen, name, { notifier: 'hook', result: 'failed' }), 1);
  t.equal(valueOf(parse(await other.text()), name), undefined);
});

t.test('counts the undelivered events, and those that were dropped', async (t) => {
  const { origin, ports } = await startApi(t);
  const scrape = async (): Promise<Scrape> => parse(await (await fetch(`${origin}/metrics`)).text());
  ports.metrics?.undeliveredDropped('hook', 2);
  const before = await scrape();
  t.equal(valueOf(before, 'waybill_undelivered_events', { notifier: 'hook' }), 1);
  t.equal(valueOf(before, 'waybill_undelivered_events_dropped_total', { notifier: 'hook' }), 2);
  await ports.notifier.redeliver('hook');
  t.equal(valueOf(await scrape(), 'waybill_undelivered_events', { notifier: 'hook' }), 0);
});

function rowsOf(markdown: string): { name: string; type: string; labels: string[] }[] {
  return [...markdown.matchAll(/^\| `(waybill_\w+)` +\| (\w+) +\| ([^|]*)\|/gm)].map(
    ([, name = '', type = '', labels = '']) => ({
      name,
      type,
      labels: [...labels.matchAll(/`(\w+)`/g)].map(([, label = '']) => label).sort(),
    }),
  );
}
