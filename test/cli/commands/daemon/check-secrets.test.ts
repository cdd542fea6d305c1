import t from 'tap';
import { waybill } from '../../process.ts';

const config = `server:
  http: { listen: '127.0.0.1:0' }
  staging: { directory: staging }
  token_keys_env: TOKEN_KEYS
  admin_token_env: ADMIN
  metrics: { token_env: METRICS }
  console: { session_key_env: SESSION_KEY }
tracing: { endpoint: 'http://127.0.0.1:4318/v1/traces', headers_env: HEADERS }
upload_tokens:
  - { id: ci, value_env: CI, pipelines: [maps] }
  - { id: cron, value_env: CRON, pipelines: [maps] }
trusted_publishers:
  - id: github
    issuer: https://token.actions.githubusercontent.com
    audience: waybill
    claims: { repository: a/b, repository_id: '1' }
    pipelines: [maps]
notifiers:
  - { id: hook, kind: webhook, url: 'https://ops.example.org/waybill', secret_env: HOOK }
  - { id: chat, kind: slack, url_env: CHAT }
  - { id: channel, kind: redis, redis_url_env: REDIS }
databases: [{ name: weather, driver: postgres, url_env: DATABASE }]
pipelines:
  - id: maps
    source: { backend: http_upload }
    destinations:
      - { id: web, backend: local, path: www, workflow: replacement, outputs: { signature: { key_env: KEY } } }
`;

const long = 'a-value-that-is-longer-than-32-characters';
const good = {
  TOKEN_KEYS: long,
  ADMIN: `${long}-1`,
  METRICS: `${long}-2`,
  SESSION_KEY: long,
  HEADERS: 'authorization=token',
  CI: `${long}-3`,
  CRON: `${long}-4`,
  HOOK: long,
  CHAT: 'https://hooks.slack.com/services/1',
  REDIS: 'redis://127.0.0.1',
  DATABASE: 'postgres://reader:secret@127.0.0.1:1/weather',
};

/** A value for a secret that the start refuses, and the message. */
const bad: [name: keyof typeof good, value: string, message: string][] = [
  ['TOKEN_KEYS', 'short', 'the value of TOKEN_KEYS is not one or two keys of 32 characters or more'],
  ['SESSION_KEY', 'short', 'the value of SESSION_KEY has fewer than 32 characters'],
  ['CRON', good.CI, 'the upload tokens "ci" (CI) and "cron" (CRON) have the same value'],
  ['ADMIN', good.CI, 'the upload tokens "ci" (CI) and "server.admin_token_env" (ADMIN) have the same value'],
  ['METRICS', 'two words', 'the value of METRICS cannot be sent as a bearer token (server.metrics)'],
  ['HEADERS', 'none', 'the secret HEADERS, needed by tracing, is not a list of headers'],
  ['HOOK', 'short', 'the signing secret HOOK is shorter than 24 bytes'],
  ['CHAT', 'none', 'the secret CHAT, needed by notifier "chat", is not usable'],
  ['REDIS', 'none', 'the secret REDIS, needed by notifier "channel", is not a Redis URL'],
  ['DATABASE', 'none', 'the secret DATABASE is not the URL of a database'],
];

t.test('config check refuses the secrets that the start refuses, and accepts the others', async (t) => {
  const cwd = t.testdir({ 'c.yml': config });
  const run = (command: string[], env: Record<string, string>): ReturnType<typeof waybill> =>
    waybill([...command, '--config', 'c.yml'], { cwd, env });
  t.equal(run(['config', 'check'], good).status, 0);
  t.equal(run(['config', 'check'], {}).status, 0, 'no secret is set');
  for (const [name, value, message] of bad)
    for (const command of [['config', 'check'], ['serve']]) {
      const { status, stderr } = run(command, { ...good, [name]: value });
      t.equal(status, 2, `${command.join(' ')} with ${name}`);
      t.ok(stderr.includes(message), stderr);
    }
});

t.test('config check lists all secrets that cannot be used', async (t) => {
  const cwd = t.testdir({ 'c.yml': config });
  const env = { ...good, KEY: 'none', HOOK: 'short', CRON: good.CI };
  const { status, stderr } = waybill(['config', 'check', '--config', 'c.yml'], { cwd, env });
  t.equal(status, 2);
  t.match(stderr, '3 secrets cannot be used');
  t.match(stderr, 'the key in KEY cannot be used: it does not begin with "untrusted comment: "');
});
