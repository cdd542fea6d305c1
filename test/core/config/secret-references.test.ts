import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { referencedSecrets, requireSecrets } from '../../../src/core/config/secret-references.ts';
import { hasCode, type WaybillError } from '../../../src/core/lib/errors.ts';
import { loadSecrets, type SecretsOptions } from '../../../src/core/lib/secrets.ts';
import { parse } from './parse.ts';

async function refusal(options: SecretsOptions): Promise<WaybillError> {
  try {
    await loadSecrets(options);
  } catch (error) {
    if (hasCode(error, 'secrets_invalid')) return error as WaybillError;
    throw error;
  }
  throw new Error('the secrets were accepted');
}

/** A mounted Kubernetes secret: each name is a link into a directory that is also a link. */
function mounted(t: Test, files: Record<string, string>): string {
  const directory = t.testdir({});
  mkdirSync(join(directory, '..2026_11_20_01_02_03.123'));
  symlinkSync('..2026_11_20_01_02_03.123', join(directory, '..data'));
  for (const [name, value] of Object.entries(files)) {
    writeFileSync(join(directory, '..2026_11_20_01_02_03.123', name), value);
    symlinkSync(join('..data', name), join(directory, name));
  }
  return directory;
}

t.test('values come from the environment and from files, without one trailing newline', async (t) => {
  const directory = t.testdir({
    A: 'one\n',
    B: 'two\r\n',
    C: 'three\n\n',
    D: ' four ',
    EMPTY: '',
    NEWLINE: '\n',
    _e1: 'müde\nwach',
  });
  const secrets = await loadSecrets({ directory, env: { X: 'env', A: '', NOTHING: undefined } });
  t.equal(secrets.get('X'), 'env');
  t.equal(secrets.get('A'), 'one', 'an empty environment value does not count');
  t.equal(secrets.get('B'), 'two');
  t.equal(secrets.get('C'), 'three\n');
  t.equal(secrets.get('D'), ' four ');
  t.equal(secrets.get('_e1'), 'müde\nwach');
  for (const name of ['EMPTY', 'NEWLINE', 'NOTHING', 'toString', '__proto__'])
    t.equal(secrets.get(name), undefined, name);
  t.same(secrets.warnings, []);
});

t.test(
  'the environment takes precedence, and one warning names the variable without its value',
  async (t) => {
    const directory = t.testdir({ SAME: 'equal\n', OTHER: 'from-the-file\n' });
    const env = Object.freeze({ SAME: 'equal', OTHER: 'from-the-environment' });
    const secrets = await loadSecrets({ directory, env });
    t.equal(secrets.get('OTHER'), 'from-the-environment');
    t.match(secrets.warnings, [
      { severity: 'warning', code: 'secret_file_ignored', message: /OTHER/, file: join(directory, 'OTHER') },
    ]);
    t.equal(secrets.warnings.length, 1);
    t.notMatch(JSON.stringify(secrets.warnings), 'from-the');
  },
);

t.test('supports the layout of a mounted Kubernetes secret', async (t) => {
  const secrets = await loadSecrets({ directory: mounted(t, { TOKEN: 'abc' }), env: {} });
  t.equal(secrets.get('TOKEN'), 'abc');
});

t.test('credentials of a systemd service are secrets if no directory is set', async (t) => {
  const given = t.testdir({ TOKEN: 'abc\n', 'tls.crt': 'owned by another user', BOTH: 'file' });
  const env = { CREDENTIALS_DIRECTORY: given, BOTH: 'environment' };
  const secrets = await loadSecrets({ directory: null, env });
  t.equal(secrets.get('TOKEN'), 'abc');
  t.equal(secrets.get('BOTH'), 'environment');
  t.match(secrets.warnings, [{ code: 'secret_file_ignored', file: join(given, 'BOTH') }]);
  const own = t.testdir({ other: {} });
  const configured = await loadSecrets({ directory: join(own, 'other'), env });
  t.equal(configured.get('TOKEN'), undefined, 'only the configured directory is read');
});

t.test('ignores a directory of credentials for another process', async (t) => {
  for (const directory of [join(t.testdir(), 'gone'), 'relative'])
    t.equal(
      (await loadSecrets({ directory: null, env: { CREDENTIALS_DIRECTORY: directory } })).get('TOKEN'),
      undefined,
    );
});

t.test('without a directory, reads only the environment', async (t) => {
  const secrets = await loadSecrets({ directory: null, env: { A: '1' } });
  t.equal(secrets.require('A', 'a test'), '1');
  t.throws(() => secrets.require('B', 'destination "cdn" of pipeline "maps"'), {
    code: 'secrets_invalid',
    message: 'the secret B, needed by destination "cdn" of pipeline "maps", is missing or empty',
    hint: /environment variable B.*secrets\.directory/,
  });
});

t.test('a missing directory, or a file instead of it, is fatal', async (t) => {
  const directory = t.testdir({ FILE: 'x' });
  t.match(await refusal({ directory: join(directory, 'none'), env: {} }), {
    message: /none does not exist/,
    hint: /create it/,
  });
  t.match(await refusal({ directory: join(directory, 'FILE'), env: {} }), {
    message: /FILE is not a directory/,
  });
});

t.test('names every invalid entry, and no content', async (t) => {
  const directory = t.testdir({
    GOOD: 'geheim',
    'bad-name': 'geheim',
    '1ST': 'geheim',
    '.hidden': 'geheim',
    SUB: { X: 'geheim' },
    LATIN: Buffer.from('geheim\xe9', 'latin1'),
    LARGE: 'g'.repeat(64 * 1024 + 1),
    DANGLING: t.fixture('symlink', 'nowhere'),
    LOOP: t.fixture('symlink', 'LOOP'),
    FOLDER_LINK: t.fixture('symlink', 'SUB'),
  });
  execFileSync('mkfifo', [join(directory, 'PIPE')]);
  const error = await refusal({ directory, env: {} });
  const reasons = Object.fromEntries(
    error.findings.map(({ file, message }) => [file?.slice(directory.length + 1) ?? '', message]),
  );
  t.match(reasons, {
    'bad-name': /environment variable/,
    '1ST': /environment variable/,
    '.hidden': /environment variable/,
    SUB: /not a file/,
    LATIN: /not UTF-8/,
    LARGE: /larger than 64 KiB/,
    DANGLING: /does not exist/,
    LOOP: /leads to itself/,
    FOLDER_LINK: /not a file/,
    PIPE: /not a file/,
  });
  t.equal(error.findings.length, 10);
  t.match(error.message, /has 10 invalid files/);
  t.notMatch(JSON.stringify([error.message, error.hint, error.findings]), 'geheim');
});

t.test('accepts a file of exactly 64 KiB', async (t) => {
  const directory = t.testdir({ LARGE: 'g'.repeat(64 * 1024) });
  t.equal((await loadSecrets({ directory, env: {} })).get('LARGE')?.length, 65_536);
});

t.test('determines the secrets that pipelines need before any work', async (t) => {
  const { config } = parse(`
upload_tokens:
  - {id: ci, value_env: T1, pipelines: [maps]}
  - {id: other, value_env: T2, pipelines: [more]}
server: {queue: {driver: bullmq, redis_url_env: REDIS}}
pipelines:
  - id: maps
    source: {backend: http_upload}
    destinations:
      - {id: web, backend: local, path: a}
      - {id: cdn, backend: s3, bucket: b, access_key_id_env: K, secret_access_key_env: S}
      - {id: own, backend: s3, bucket: c}
  - id: more
    source: {backend: http_upload}
    destinations: [{id: mirror, backend: sftp, host: h, user: u, path: x, ssh_key_file: k, ssh_key_passphrase_env: P}]
  - id: copy
    source: {backend: s3, bucket: d, access_key_id_env: K, secret_access_key_env: S}
    destinations: [{id: web, backend: local, path: b}]
`);
  const names = (options = {}) => referencedSecrets(config, options).map(({ name }) => name);
  t.same(names(), ['K', 'S', 'P', 'K', 'S']);
  t.same(referencedSecrets(config, { pipelineIds: ['more'] }), [
    { name: 'P', neededBy: 'destination "mirror" of pipeline "more"' },
  ]);
  t.same(names({ pipelineIds: ['maps'], uploadTokens: true }), ['K', 'S', 'T1']);
  t.same(names({ pipelineIds: [], uploadTokens: true, queue: true }), ['REDIS']);

  const secrets = await loadSecrets({ directory: null, env: { K: 'k', P: 'p' } });
  t.doesNotThrow(() => requireSecrets(secrets, referencedSecrets(config, { pipelineIds: ['more'] })));
  t.throws(() => requireSecrets(secrets, referencedSecrets(config)), {
    code: 'secrets_invalid',
    message:
      'a secret is missing or empty: S (needed by destination "cdn" of pipeline "maps"), S (needed by the source of pipeline "copy")',
    findings: [{ code: 'secret_missing' }, { code: 'secret_missing' }],
  });
});
