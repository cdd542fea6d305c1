import t from 'tap';
import { referencedSecrets } from '../../../src/core/config/secret-references.ts';
import { complaintsOf, parse, withDestination } from './parse.ts';

const withNotifiers = (...notifiers: string[]): string =>
  `${withDestination('backend: local, path: ./out')}\nnotifiers: [${notifiers.join(', ')}]`;
const hook = (more: string): string => `{id: hook, kind: webhook, secret_env: HOOK, ${more}}`;

t.test('each kind gets its defaults', async (t) => {
  const { config } = parse(
    withNotifiers(
      '{id: a, kind: log}',
      '{id: b, kind: file, path: events.jsonl, pipelines: [p]}',
      hook('url: "https://ops.example.org/x?channel=1"'),
      '{id: d, kind: redis, redis_url_env: REDIS, events: [outputs.pruned]}',
    ),
  );
  const events = ['bundle.published'];
  t.strictSame(config.notifiers, [
    { id: 'a', events, pipelines: null, kind: 'log' },
    { id: 'b', events, pipelines: ['p'], kind: 'file', path: '/etc/waybill/events.jsonl' },
    {
      id: 'hook',
      events,
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
      pipelines: null,
      kind: 'redis',
      redisUrlEnv: 'REDIS',
      channel: 'waybill.events',
      timeoutMs: 5_000,
    },
  ]);
});

t.test('what is wrong is named, with its place', async (t) => {
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
  ] as const) {
    const told = complaintsOf(withNotifiers(notifier)).join('\n');
    t.match(told, complaint, notifier);
    t.notMatch(told, /pass@|u:secret/);
  }
});

t.test(
  'a webhook at an address that is refused is found before anything is sent, in every spelling',
  async (t) => {
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
  },
);

t.test('secrets are asked for by who needs them only', async (t) => {
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
