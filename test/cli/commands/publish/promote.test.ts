import { mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { startRadosgw } from '../../../services/radosgw.ts';
import { startSshd } from '../../../services/sshd.ts';
import { document, type Ended, errorDocument, fingerprint, waybill } from '../../process.ts';

/** `waybill promote` between two destinations of a configuration, or two directories. */

interface Site {
  cwd: string;
  run: (...args: string[]) => Ended;
}

function layOut(t: Test, env: Record<string, string> = {}): Site {
  const cwd = t.testdir({
    home: {},
    site: { 'page.html': '<p>home</p>', css: { 'style.css': 'p {}' } },
    'waybill.yml': `
pipelines:
  - id: web
    source: { backend: local, path: ./site, manifest: auto }
    destinations:
      - { id: staging, backend: local, path: ./staging, mapping: fixed, workflow: replacement }
      - { id: live, backend: local, path: ./live, mapping: fixed, workflow: replacement, layout: releases,
          public_base_url: 'https://www.example.org/', outputs: { index: true, archive: true } }
`,
  });
  const run = (...args: string[]): Ended =>
    waybill(args, { cwd, env: { HOME: path.join(cwd, 'home'), ...env } });
  return { cwd, run };
}

const read = (...parts: string[]): string => readFileSync(path.join(...parts), 'utf8');

const configured = ['--config', 'waybill.yml'];

t.test(
  'promotes between destinations of a pipeline, with the layout and outputs of the target',
  async (t) => {
    const { cwd, run } = layOut(t);
    const promote = (...more: string[]): Ended => run('promote', 'staging', 'live', ...configured, ...more);
    t.match(promote(), { status: 2, stderr: /"staging" has no files that web\/staging published/ });
    t.match(run('run', ...configured, '-d', 'staging'), { status: 0 });
    t.match(promote('--dry-run'), { status: 0, stdout: /publish_new[^]*dry run/ });
    t.notOk(readdirSync(cwd).includes('live'));
    const first = promote();
    t.match(first, { status: 0, stdout: /publish_new .*\n {6}https:\/\/www\.example\.org\/\n/ });
    t.notMatch(first.stderr, /was selected/, 'there was only one bundle');
    t.same(readdirSync(path.join(cwd, 'live/current')).sort(), [
      '.publisher.json',
      'css',
      'index.html',
      'page.html',
      'web.tar.gz',
    ]);
    const before = fingerprint(path.join(cwd, 'live'));
    const again = document(t, promote('--format', 'json'));
    t.match(again, { kind: 'run', counters: { skip_same: 1 }, pipelines: [{ pipeline_id: 'web' }] });
    t.match(run('run', ...configured, '-d', 'live'), { status: 0, stdout: /skip_same=1/ });
    t.same(fingerprint(path.join(cwd, 'live')), before);

    writeFileSync(path.join(cwd, 'site/page.html'), '<p>edited</p>');
    run('run', ...configured, '-d', 'staging');
    t.match(promote(), { status: 0, stdout: /replace_catalog/ });
    t.equal(read(cwd, 'live/current/page.html'), '<p>edited</p>');
    const old = readdirSync(path.join(cwd, 'live/releases')).find(
      (id) => !readlinkSync(path.join(cwd, 'live/current')).endsWith(id),
    );
    const back = run('promote', 'live', 'staging', ...configured, '--release', String(old));
    t.match(back, { status: 0, stdout: /replace_catalog/ }, 'an earlier release of the first destination');
    t.equal(read(cwd, 'staging/page.html'), '<p>home</p>');
    run('releases', 'rollback', ...configured, '-p', 'web', '-d', 'live');
    run('run', ...configured, '-d', 'staging');
    t.match(promote(), { status: 3, stderr: /waybill releases promote .* --config waybill\.yml/ });
  },
);

t.test('promotes between two directories, each with its layout', async (t) => {
  const { cwd, run } = layOut(t);
  run('publish', 'site', 'staging', '--pipeline', 'atlas');
  t.match(run('promote', 'staging', 'www', '--releases', '--url', 'https://www.example.org'), {
    status: 0,
    stdout: /^atlas\n[^]*publish_new .*\n {6}https:\/\/www\.example\.org\/\n/,
  });
  t.equal(read(cwd, 'www/current/css/style.css'), 'p {}');
  t.match(run('promote', 'www', 'mirror'), { status: 0, stdout: /publish_new=1/ });
  t.equal(read(cwd, 'mirror/page.html'), '<p>home</p>');
  t.match(run('promote', 'www', 'mirror'), { status: 0, stdout: /skip_same=1/ });
  run('publish', 'site', 'www', '--pipeline', 'other');
  const several = run('promote', 'www', 'else', '--pipeline', 'none');
  t.match(several, { status: 2, stderr: /pipeline "none" published\nnext {3}known: atlas\// });
});

t.test('promotes to a channel and leaves the current release', async (t) => {
  const { cwd, run } = layOut(t);
  const file = path.join(cwd, 'waybill.yml');
  const channels =
    "layout: releases, releases: { channels: { preview: { public_base_url: 'https://p.example.org/' } } }";
  writeFileSync(file, read(file).replace('layout: releases', channels));
  run('run', ...configured);
  const current = readlinkSync(path.join(cwd, 'live/current'));
  writeFileSync(path.join(cwd, 'site/page.html'), '<p>edited</p>');
  run('run', ...configured, '-d', 'staging');
  const promote = (...more: string[]): Ended => run('promote', 'staging', 'live', ...configured, ...more);
  t.match(promote('--channel', 'preview'), { status: 0, stdout: /https:\/\/p\.example\.org\// });
  t.equal(readlinkSync(path.join(cwd, 'live/current')), current);
  t.equal(read(cwd, 'live/preview/page.html'), '<p>edited</p>');
  t.match(promote('--channel', 'previw'), { status: 2, stderr: /did you mean "preview"/ });

  const places = ['promote', 'staging', 'www', '--channel', 'pr-12'];
  t.match(run(...places), { status: 2, stderr: /--channel needs --releases\nnext {3}add --releases/ });
  const url = ['--releases', '--channel-url', 'https://pr-12.example.org'];
  t.match(run(...places, ...url), { status: 0, stdout: /https:\/\/pr-12\.example\.org\// });
  t.equal(read(cwd, 'www/pr-12/page.html'), '<p>edited</p>');
  t.notOk(readdirSync(path.join(cwd, 'www')).includes('current'));
});

t.test('promotes to a destination of another pipeline, with its records and layout', async (t) => {
  const { cwd, run } = layOut(t);
  const file = path.join(cwd, 'waybill.yml');
  writeFileSync(
    file,
    `${read(file)}  - id: archive
    source: { backend: http_upload }
    destinations: [{ id: live, backend: local, path: ./archive, mapping: fixed, workflow: replacement }]
`.replace('pipelines:', 'server: { staging: { directory: ./staged } }\npipelines:'),
  );
  run('run', ...configured, '-d', 'staging');
  const promote = (from: string, to: string): Ended => run('promote', from, to, ...configured);
  t.match(promote('web/staging', 'archive/live'), { status: 0, stdout: /^archive\n[^]*publish_new=1/ });
  t.equal(read(cwd, 'archive/page.html'), '<p>home</p>');
  t.match(JSON.parse(read(cwd, 'archive/.publisher.json')), {
    outputs: [{ owner: { pipeline_id: 'archive', destination_id: 'live' } }],
  });
  t.match(promote('web/staging', 'archive/live'), { status: 0, stdout: /skip_same=1/ });
  t.match(promote('archive/live', 'web/live'), { status: 0, stdout: /^web\n[^]*publish_new=1/ });
  t.match(promote('web/staging', 'archiv/live'), { status: 2, stderr: /did you mean "archive"/ });
  t.match(promote('staging', 'archive/live'), { status: 2, stderr: /several pipelines: name one/ });
});

t.test('rejects invalid promotions before it writes anything', async (t) => {
  const { cwd, run } = layOut(t);
  run('publish', 'site', 'staging');
  for (const to of ['staging', './staging/', 'staging/sub', '.'])
    t.match(
      run('promote', 'staging', to),
      { status: 2, stderr: /lies inside the other\nnext {3}name two/ },
      to,
    );
  t.match(run('promote', 'staging', 'staging', ...configured), { status: 2, stderr: /the same place/ });
  t.match(run('promote', 'stagin', 'live', ...configured), { status: 2, stderr: /did you mean "staging"/ });
  t.match(run('promote', 'staging', 'live', ...configured, '--releases'), {
    status: 2,
    stderr: /--releases is for places; with --config, the configuration decides it/,
  });
  t.match(run('promote', 'staging', 'www', '--force'), { status: 2, stderr: /--yes/ });
  t.match(run('promote', 'site', 'www'), { status: 2, stderr: /"site" has no files that waybill published/ });
  t.match(run('promote', 'staging', 'www', '--path', '../up'), { status: 2, stderr: /not a bundle path/ });
  t.match(run('promote', 'staging', 'www', '--release', 'current'), {
    status: 2,
    stderr: /^error {2}"staging" has no releases\nnext {3}leave out --release/,
  });
  writeFileSync(path.join(cwd, 'staging/page.html'), '<p>h0me</p>');
  const damaged = run('promote', 'staging', 'www', '--format', 'json');
  t.match(document(t, damaged), {
    pipelines: [{ destinations: [{ actions: [{ error: { code: 'verification_failed' } }] }] }],
  });
  t.equal(damaged.status, 1);
  writeFileSync(path.join(cwd, 'staging/page.html'), '');
  const cut = errorDocument(t, run('promote', 'staging', 'www', '--format', 'json'));
  t.match(cut, { error: { code: 'verification_failed', message: /"page\.html" has 0 bytes, .*sha256:/ } });
  t.same(
    readdirSync(cwd).includes('www') ? readdirSync(path.join(cwd, 'www')) : [],
    [],
    'nothing is published',
  );
});

t.test('promotes from SFTP to a bucket, and from bucket to bucket', async (t) => {
  const [sshd, s3] = await Promise.all([startSshd(t), startRadosgw(t)]);
  const { cwd, run } = layOut(t, {
    AWS_ACCESS_KEY_ID: s3.user.accessKeyId,
    AWS_SECRET_ACCESS_KEY: s3.user.secretAccessKey,
    AWS_REGION: 'us-east-1',
  });
  mkdirSync(path.join(cwd, 'home/.ssh'), { mode: 0o700 });
  writeFileSync(path.join(cwd, 'home/.ssh/id_ed25519'), readFileSync(sshd.clientKeyFile), { mode: 0o600 });
  const sftp = `sftp://${sshd.user}@${sshd.host}:${sshd.port}${sshd.root}/www`;
  const at = async (): Promise<string> =>
    `s3://${await s3.newBucket()}/site?endpoint=${encodeURIComponent(s3.endpoint)}`;
  const [one, two] = [await at(), await at()];
  t.match(run('publish', 'site', sftp), { status: 0 });
  t.match(run('promote', sftp, one), { status: 0, stdout: /publish_new=1/ });
  t.match(run('promote', one, two), { status: 0, stdout: /publish_new=1/ });
  t.match(run('promote', one, two), { status: 0, stdout: /skip_same=1/ });
  t.match(run('promote', two, 'copy'), { status: 0, stdout: /publish_new=1/ });
  t.equal(read(cwd, 'copy/page.html'), '<p>home</p>');
});
