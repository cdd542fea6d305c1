import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { parse } from 'yaml';
import { serve } from '../src/cli/daemon/serve.ts';
import { systemClock } from '../src/core/lib/clock.ts';
import { silentLog } from '../src/core/lib/log.ts';
import { startApi } from './api/harness.ts';
import { bundleTar } from './fixtures/tar.ts';
import { ensureInstalled } from './services/debian.ts';
import { type Prometheus, promtool, startPrometheus } from './services/prometheus.ts';

const rulesFile = 'deploy/prometheus/waybill.rules.yml';

interface Rule {
  alert: string;
  expr: string;
  annotations: { summary: string };
}

const rules = (parse(readFileSync(rulesFile, 'utf8')) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  (group) => group.rules,
);

interface Panel {
  title: string;
  targets?: { expr: string }[];
}

const dashboard = JSON.parse(readFileSync('deploy/grafana/waybill.json', 'utf8')) as {
  panels: Panel[];
  templating: { list: { name: string; definition?: string }[] };
};

/** The values of Grafana's variables while everything is selected. */
const asAsked = (expr: string): string =>
  expr.replaceAll('$__rate_interval', '1m').replaceAll(/\$(pipeline|instance)\b/g, '.*');

const panelQueries = dashboard.panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => ({ title, expr: asAsked(expr) })),
);

t.test('alert rules pass the validation of Prometheus, and each fires on its condition', async (t) => {
  await ensureInstalled('prometheus');
  t.match(await promtool('check', 'rules', rulesFile), `${rules.length} rules found`);
  await t.resolves(promtool('test', 'rules', 'deploy/prometheus/waybill.rules.test.yml'));
  const tested = readFileSync('deploy/prometheus/waybill.rules.test.yml', 'utf8');
  for (const { alert } of rules) t.match(tested, new RegExp(`\\b${alert}\\b`), `${alert} is tested`);
});

t.test('every query of rules and dashboard matches series of a daemon', async (t) => {
  await ensureInstalled('prometheus');
  const targets = [await daemon(t), await weatherApi(t)];
  const prometheus = await startPrometheus(t, { targets, rules: rulesFile });
  await untilScraped(prometheus, targets.length);

  for (const { title, expr } of panelQueries)
    t.not((await valuesOf(prometheus, expr)).length, 0, `${title}: ${expr}`);
  const { groups } = (await prometheus.ask('rules')) as {
    groups: { rules: { name: string; health: string; lastError?: string }[] }[];
  };
  t.same(
    groups.flatMap((group) => group.rules).map(({ name, health }) => [name, health]),
    rules.map(({ alert }) => [alert, 'ok']),
  );

  const names = new Set((await prometheus.ask('label/__name__/values')) as string[]);
  for (const { alert, expr } of rules)
    for (const [, name = '', matchers = ''] of expr.matchAll(/\b(up|waybill_\w+)(?:\{([^}]*)\})?/g)) {
      t.ok(names.has(name), `${alert}: ${name}`);
      for (const [, label = ''] of matchers.matchAll(/(\w+)(?:=~|!=|=)/g)) {
        const labels = (await prometheus.ask('labels', { 'match[]': name })) as string[];
        t.ok(labels.includes(label), `${alert}: ${name} has ${label}`);
      }
    }
  for (const { definition } of dashboard.templating.list) {
    const [, name = '', label = ''] = /^label_values\((\w+), (\w+)\)$/.exec(definition ?? '') ?? [];
    if (definition !== undefined)
      t.ok(((await prometheus.ask('labels', { 'match[]': name })) as string[]).includes(label), definition);
  }
});

async function valuesOf(prometheus: Prometheus, query: string): Promise<unknown[]> {
  return ((await prometheus.ask('query', { query })) as { result: unknown[] }).result;
}

/** Rates need two scrapes of each daemon, and alerts need one evaluation. */
async function untilScraped(prometheus: Prometheus, targets: number): Promise<void> {
  const isDone = async (): Promise<boolean> => {
    const scraped = await valuesOf(prometheus, 'count_over_time(process_cpu_seconds_total[1m]) >= 3');
    const { groups } = (await prometheus.ask('rules')) as { groups: { rules: { health: string }[] }[] };
    const isEvaluated = groups.every((group) => group.rules.every(({ health }) => health !== 'unknown'));
    return scraped.length === targets && groups.length > 0 && isEvaluated;
  };
  while (!(await isDone())) await systemClock.sleep(100);
}

/** A daemon with a publication and a notifier. */
async function daemon(t: Test): Promise<string> {
  const root = t.testdir({});
  mkdirSync(path.join(root, 'public'));
  const configFile = path.join(root, 'waybill.yaml');
  writeFileSync(
    configFile,
    `
upload_tokens: [{id: ci, value_env: TOKEN, pipelines: [maps]}]
server: {http: {listen: "127.0.0.1:0"}, staging: {directory: ./staging}}
notifiers: [{id: journal, kind: log}]
pipelines:
  - id: maps
    source: {backend: http_upload}
    destinations: [{id: web, backend: local, path: ./public}]
  - id: yearly
    source: {backend: local, path: ./public}
    schedule: '@yearly'
    destinations: [{id: web, backend: local, path: ./copy}]
`,
  );
  const served = await serve({
    configFile,
    log: silentLog,
    env: { TOKEN: 'secret-of-an-unknown-client', HOME: root },
  });
  t.teardown(() => served.close());
  const response = await fetch(`${served.url}v1/pipelines/maps/upload`, {
    method: 'POST',
    headers: { authorization: 'Bearer secret-of-an-unknown-client', 'content-type': 'application/x-tar' },
    body: bundleTar({ 'index.html': 'x' }, { name: 'session-1' }),
  });
  const run = new URL(response.headers.get('location') ?? '', served.url);
  const { status } = (await (await fetch(`${run.href}?wait=60`)).json()) as { status: string };
  t.equal(status, 'succeeded');
  return new URL(served.url).host;
}

/** Weather metrics, which the daemon above does not have. */
async function weatherApi(t: Test): Promise<string> {
  const { origin, ports } = await startApi(t);
  ports.metrics?.weatherAnswered('alerts', { stale: false, asOf: new Date() });
  return new URL(origin).host;
}
