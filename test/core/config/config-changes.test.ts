import t from 'tap';
import type { Config } from '../../../src/core/config/config.ts';
import { applyReloadable, changesBetween } from '../../../src/core/config/config-changes.ts';
import { parseConfig } from '../../../src/core/config/load-config.ts';

function configOf(yaml: string): Config {
  return parseConfig(Buffer.from(yaml), '/etc/waybill/waybill.yml', { home: '/root' }).config;
}

const pipeline = (id: string, to: string): string =>
  `  - {id: ${id}, source: {backend: local, path: ./in}, destinations: [{id: web, backend: local, path: ./${to}}]}`;
const started = configOf(`
log: {level: info}
pipelines:
${pipeline('maps', 'public')}
${pipeline('docs', 'docs')}
`);

t.test('keeps settings that cannot change at runtime, and names them as in the file', async (t) => {
  const newer = configOf(`
log: {level: warn}
server:
  http: {listen: '127.0.0.1:9000', queue_size: 64, upload_timeout: 1m, protect_runs: true, cors: {origins: ['*']}}
  metrics: {enabled: false, token_env: METRICS}
  worker: {listen: '127.0.0.1:9090'}
  admin_token_env: ADMIN
  staging: {directory: ./elsewhere}
  queue: {driver: embedded, directory: ./queue}
databases: [{name: weather, driver: postgres, url_env: DATABASE_URL}]
weather: {cache: 1m}
tracing: {sample_ratio: 0.5}
templates: {base_dir: ./templates}
pipelines:
${pipeline('maps', 'public')}
`);
  const { config, restartNeeded } = applyReloadable(started, newer);
  t.same(restartNeeded.sort(), [
    'databases',
    'server.http.cors',
    'server.http.listen',
    'server.http.protect_runs',
    'server.http.queue_size',
    'server.http.upload_timeout',
    'server.metrics.enabled',
    'server.queue',
    'server.staging',
    'server.worker',
    'templates',
    'tracing',
    'weather',
  ]);
  t.same(config, {
    ...started,
    log: newer.log,
    pipelines: newer.pipelines,
    server: { ...started.server, adminTokenEnv: 'ADMIN', metrics: { enabled: true, tokenEnv: 'METRICS' } },
  });
  t.same(applyReloadable(started, started), { config: started, restartNeeded: [] });
});

t.test('names new, changed and removed entries by id', async (t) => {
  t.same(changesBetween(started, started), { added: [], changed: [], removed: [] });
  const newer = configOf(`
log: {level: warn}
secrets: {directory: ./secrets}
upload_tokens: [{id: ci, value_env: CI, pipelines: [maps]}]
notifiers: [{id: log, kind: log}]
pipelines:
${pipeline('maps', 'mirror')}
${pipeline('images', 'images')}
`);
  t.same(changesBetween(started, newer), {
    added: ['secrets.directory', 'upload_tokens.ci', 'pipelines.images', 'notifiers.log'],
    changed: ['log', 'pipelines.maps'],
    removed: ['pipelines.docs'],
  });
});
