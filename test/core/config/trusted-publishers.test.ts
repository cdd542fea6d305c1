import t from 'tap';
import { applyReloadable, changesBetween } from '../../../src/core/config/config-changes.ts';
import { parseConfig } from '../../../src/core/config/load-config.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';

const pipelines = `pipelines: [{id: site, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: /srv/web}]}]`;
const publisher = {
  id: 'site-ci',
  issuer: 'https://token.actions.githubusercontent.com',
  audience: 'https://publish.example.org',
  claims: {
    repository_id: '12345',
    ref: ['refs/heads/main', 'refs/heads/next'],
    environment: { glob: 'prod-*' },
  },
  pipelines: ['site'],
};
const textOf = (publishers: readonly object[], rest = ''): string =>
  `trusted_publishers: ${JSON.stringify(publishers)}\n${rest}\n${pipelines}\n`;
const parsed = (publishers: readonly object[], rest = '') =>
  parseConfig(Buffer.from(textOf(publishers, rest)), '/etc/waybill/c.yml', { home: '/' });

const faults = (change: object, rest = ''): string[] => faultsOf([{ ...publisher, ...change }], rest);

function faultsOf(publishers: readonly object[], rest = ''): string[] {
  try {
    parsed(publishers, rest);
    return [];
  } catch (error) {
    if (!(error instanceof WaybillError)) throw error;
    return error.findings.map(({ code, pointer, message }) => `${code} ${pointer ?? ''} ${message}`);
  }
}

t.test('a trusted publisher is resolved with its defaults', (t) => {
  const { config, warnings } = parsed([publisher]);
  t.same(config.trustedPublishers, [
    { ...publisher, jwksFile: null, scopes: ['upload', 'read'], maxLifetimeMs: 900_000 },
  ]);
  t.same(warnings, [], 'the pipeline has a client that can upload');
  const file = parsed([{ ...publisher, jwks_file: './keys.json' }]).config.trustedPublishers[0]?.jwksFile;
  t.equal(file, '/etc/waybill/keys.json');
  t.end();
});

t.test('rejects a publisher identified by name only, or by an unsafe claim, with the fix', (t) => {
  for (const [change, wanted] of [
    [
      { claims: { repository: 'octo-org/site' } },
      /a name, which another owner can register.*expected an exact value of repository_id/,
    ],
    [{ claims: { repository_id: 12345 } }, /repository_id.*number.*expected text \(numbers in quotes\)/],
    [
      { claims: { repository_id: '1', ref: { globb: 'x' } } },
      /claims\.ref.*expected text \(numbers in quotes\), a list of texts, or \{glob: PATTERN\}/,
    ],
    [{ claims: { repository_id: '1', ref: [] } }, /expected text/],
    [{ claims: {} }, /every token of the issuer would match/],
    [{ issuer: 'http://ci.example.org' }, /plain http is accepted on loopback/],
    [{ issuer: 'ftp://ci.example.org' }, /does not begin with https/],
    [{ pipelines: ['sitee'] }, /unknown_pipeline.*did you mean "site"/],
    [{ max_lifetime: '13h' }, /more than 12h/],
    [{ scopes: ['admin'] }, /expected one of upload, run/],
    [{ audience: undefined }, /missing_key .*audience/],
  ] as const)
    t.match(faults(change).join('\n'), wanted, JSON.stringify(change));
  const both = 'upload_tokens: [{id: site-ci, value_env: A, pipelines: [site]}]';
  t.match(faults({}, both).join('\n'), /duplicate_id .*upload token or trusted publisher/);
  t.end();
});

t.test('publishers of one issuer have the same keys', (t) => {
  const second = { ...publisher, id: 'docs-ci' };
  t.equal(parsed([publisher, second]).config.trustedPublishers.length, 2);
  const rest = [publisher, { ...second, jwks_file: './keys.json' }];
  t.match(faultsOf(rest).join('\n'), /trusted_publishers\[1\]\.issuer .*the same jwks_file in both/);
  t.end();
});

t.test('hosts that share a queue need a shared key', (t) => {
  const queue = 'queue: {driver: bullmq, redis_url_env: R}, staging: {directory: /srv/staging}';
  t.match(faults({}, `server: {${queue}}`).join('\n'), /missing_key server.token_keys_env/);
  t.same(faults({}, `server: {${queue}, token_keys_env: KEYS}`), []);
  t.end();
});

t.test('a reload replaces publishers and the key', (t) => {
  const before = parsed([publisher]).config;
  const after = parsed([{ ...publisher, id: 'other' }], 'server: {token_keys_env: KEYS}').config;
  const { config, restartNeeded } = applyReloadable(before, after);
  t.same(restartNeeded, []);
  t.same(changesBetween(before, config), {
    added: ['server.token_keys_env', 'trusted_publishers.other'],
    changed: [],
    removed: ['trusted_publishers.site-ci'],
  });
  t.end();
});
