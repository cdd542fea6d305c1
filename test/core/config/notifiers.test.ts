import t from 'tap';
import { referencedSecrets } from '../../../src/core/config/secret-references.ts';
import { complaintsOf, parse, withDestination } from './parse.ts';

const withNotifiers = (...notifiers: string[]): string =>
  `${withDestination('backend: local, path: ./out')}\nnotifiers: [${notifiers.join(', ')}]`;
const hook = (more: string): string => `{id: hook, kind: webhook, secret_env: HOOK, ${more}}`;
const mail = (more: string): string => `{id: m, kind: email, host: smtp.example.org, from: a@x, ${more}}`;

t.test('each kind of notifier gets its defaults', async (t) => {
  const { config } = parse(
    withNotifiers(
      '{id: a, kind: log}',
      '{id: b, kind: file, path: events.jsonl, pipelines: [p]}',
      hook('url: "https://ops.example.org/x?channel=1"'),
      '{id: d, kind: redis, redis_url_env: REDIS, events: [outputs.pruned]}',
      '{id: e, kind: slack, url_env: SLACK}',
      '{id: f, kind: email, host: smtp.example.org, from: a@example.org, to: [b@example.org], console_url: "https://p.example.org"}',
    ),
  );
  const events = ['bundle.published'];
  t.strictSame(config.notifiers, [
    { id: 'a', events, acts: null, pipelines: null, kind: 'log' },
    { id: 'b', events, acts: null, pipelines: ['p'], kind: 'file', path: '/etc/waybill/events.jsonl' },
    {
      id: 'hook',
      events,
      acts: null,
      pipelines: null,
      kind: 'webhook',
      url: 'https://ops.example.org/x?channel=1',
      secretEnv: 'HOOK',
      timeoutMs: 5_000,
      allowAddresses: [],
    },
    {
      id: 'd',
      events: ['outputs.pruned'],
      acts: null,
      pipelines: null,
      kind: 'redis',
      redisUrlEnv: 'REDIS',
      channel: 'waybill.events',
      timeoutMs: 5_000,
    },
    {
      ...{ id: 'e', events, acts: null, pipelines: null, kind: 'slack', urlEnv: 'SLACK' },
      ...{ title: null, consoleUrl: null, timeoutMs: 5_000 },
    },
    {
      ...{
        id: 'f',
        events,
        acts: null,
        pipelines: null,
        kind: 'email',
        host: 'smtp.example.org',
        port: null,
      },
      ...{ tls: 'starttls', from: 'a@example.org', to: ['b@example.org'], user: null, passwordEnv: null },
      ...{ subject: null, consoleUrl: 'https://p.example.org/', timeoutMs: 30_000 },
    },
  ]);
});

t.test('names each invalid setting with its location', async (t) => {
  for (const [notifier, complaint] of [
    ['{id: a, kind: smoke}', /notifiers\[0\]\.kind/],
    ['{id: a, kind: log}, {id: a, kind: log}', /notifiers\[1\]\.id.*another notifier/],
    ['{id: a, kind: log, pipelines: [q]}', /notifiers\[0\]\.pipelines\[0\].*no pipeline "q"/],
    ['{id: a, kind: log, pipelines: [pp]}', /did you mean "p"|no pipeline "pp"/],
    ['{id: a, kind: log, events: [bundle.publishd]}', /notifiers\[0\]\.events\[0\]/],
    ['{id: a, kind: log, events: []}', /notifiers\[0\]\.events/],
    ['{id: a, kind: log, path: x}', /notifiers\[0\]\.path/],
    ['{id: a, kind: file}', /notifiers\[0\]\.path.*missing/],
    ['{id: a, kind: webhook, url: "https://x/"}', /secret_env.*missing/],
    [hook('url: "ftp://x/"'), /does not begin with https/],
    [hook('url: "https://x/#part"'), /fragment/],
    [hook('url: "https://user:pass@x/"'), /user name or password/],
    [hook('url: "https://x/", timeout: 5'), /timeout/],
    [hook('url: "https://x/", allow_addresses: [everything]'), /allow_addresses\[0\]/],
    ['{id: a, kind: redis, redis_url_env: "redis://u:secret@h"}', /never the secret value itself/],
    ['{id: a, kind: redis, redis_url_env: R, channel: "a b"}', /channel/],
    ['{id: a, kind: slack}', /url_env.*missing/],
    ['{id: a, kind: slack, url_env: "https://hooks.example.org/s3cret"}', /never the secret value itself/],
    [
      '{id: a, kind: discord, url_env: U, title: "{{bundel}}"}',
      /title.*unknown field "bundel"; did you mean "bundle"/,
    ],
    [mail('to: []'), /to.*at least one/],
    [mail('to: ["ops@example.org\\nBcc: x@example.org"]'), /to\[0\].*an e-mail address/],
    [mail('to: [b@x], user: u'), /only one of user and password_env/],
    [mail('to: [b@x], tls: none, user: u, password_env: P'), /would send the password unencrypted/],
    [mail('to: [b@x], password: p'), /password/],
    [mail('to: [b@x], subject: "{{cause"'), /subject.*outside of a field/],
    [
      '{id: a, kind: email, from: a@x, to: [b@x], host: 169.254.169.254}',
      /the mail server is a link-local address/,
    ],
  ] as const) {
    const complaints = complaintsOf(withNotifiers(notifier)).join('\n');
    t.match(complaints, complaint, notifier);
    t.notMatch(complaints, /pass@|u:secret/);
  }
});

t.test('a forbidden webhook address is rejected before anything is sent, in every spelling', async (t) => {
  for (const host of [
    '169.254.169.254',
    '2852039166',
    '0xa9.0xfe.0xa9.0xfe',
    '[fe80::1]',
    '[fd00:ec2::254]',
    '[::ffff:a9fe:a9fe]',
    '0.0.0.0',
  ])
    t.match(
      complaintsOf(withNotifiers(hook(`url: "http://${host}/"`))).join(),
      /the host of the webhook is/,
      host,
    );
  t.ok(parse(withNotifiers(hook('url: "http://169.254.10.1/", allow_addresses: [169.254.10.0/24]'))));
  for (const host of ['127.0.0.1:9000', 'localhost', '10.1.2.3', '[::1]:80', 'hooks.internal'])
    t.ok(parse(withNotifiers(hook(`url: "http://${host}/"`))), host);
});

t.test('only commands that use a secret require it', async (t) => {
  const { config } = parse(
    withNotifiers(
      hook('url: "https://x/", pipelines: [p]'),
      '{id: live, kind: redis, redis_url_env: REDIS}',
      '{id: said, kind: log}',
    ),
  );
  t.same(referencedSecrets(config), []);
  const names = (pipelineIds?: string[]): string[] =>
    referencedSecrets(config, { notifiers: true, ...(pipelineIds === undefined ? {} : { pipelineIds }) }).map(
      ({ name }) => name,
    );
  t.same(names(), ['HOOK', 'REDIS']);
  t.same(names(['p']), ['HOOK', 'REDIS']);
  t.same(names(['other']), ['REDIS']);
});
