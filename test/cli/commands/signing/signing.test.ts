import { execFileSync, spawn } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import t from 'tap';
import * as tar from 'tar';
import { parseSecretKeyFile, secretKeyFile } from '../../../../src/core/signing/secret-key.ts';
import { ensureInstalled } from '../../../services/debian.ts';
import { startDaemon } from '../../daemon.ts';
import { document, type Ended, manifest, program, waybill } from '../../process.ts';

t.setTimeout(0);
await ensureInstalled('minisign', 'script');

const canary = 'canary51c0ffee passphrase';
const env = { SOURCE_DATE_EPOCH: '1795136523' };
const site = { 'index.html': '<p>', sub: { a: 'A' } };

/** A key without a passphrase, as `key new` writes it. The public key is next to it. */
function newKey(cwd: string): void {
  const { status, stderr } = waybill(['key', 'new', 'site.key', '--no-passphrase'], { cwd });
  t.equal(status, 0, stderr);
}

/** The same key with the canary as its passphrase, with cheap key derivation. */
async function encrypt(cwd: string): Promise<void> {
  const parsed = parseSecretKeyFile(readFileSync(path.join(cwd, 'site.key')));
  const opened = parsed.ok ? await parsed.value.open('') : parsed;
  if (!opened.ok) throw new Error(opened.reason);
  const cheap = { ops: 1n << 19n, mem: 1n << 24n };
  writeFileSync(path.join(cwd, 'secret.key'), await secretKeyFile(opened.value, canary, cheap));
}

function minisign(cwd: string, file: string): string {
  return execFileSync('minisign', ['-Vm', file, '-p', 'site.key.pub'], { cwd, encoding: 'utf8' });
}

t.test('key new writes a private and a public file, and overwrites neither', (t) => {
  const place = t.testdir({});
  const ended = waybill(['key', 'new', 'k', '--no-passphrase', '--format', 'json'], { cwd: place });
  const made = document(t, ended) as { key_id: string; public_key: string };
  t.match(made, { kind: 'key_new', secret_key: 'k', public_key_file: 'k.pub', is_encrypted: false });
  t.equal(statSync(path.join(place, 'k')).mode & 0o777, 0o600);
  const pub = readFileSync(path.join(place, 'k.pub'), 'utf8');
  t.equal(pub, `untrusted comment: minisign public key ${made.key_id}\n${made.public_key}\n`);
  const secret = readFileSync(path.join(place, 'k'), 'utf8');
  t.notOk(ended.stdout.includes(secret.split('\n')[1] ?? ''), 'the secret key is not printed');
  t.match(waybill(['key', 'new', 'k', '--no-passphrase'], { cwd: place }), {
    status: 2,
    stderr: /^error {2}"k" exists, and no key is overwritten/m,
  });
  writeFileSync(path.join(place, 'l.pub'), 'kept');
  t.equal(waybill(['key', 'new', 'l', '--no-passphrase'], { cwd: place }).status, 2);
  t.match(waybill(['key', 'new', 'm'], { cwd: place, input: Buffer.from('') }), {
    status: 2,
    stderr: /there is no passphrase for the key\n.*WAYBILL_KEY_PASSPHRASE/,
  });
  t.same(readdirSync(place).sort(), ['k', 'k.pub', 'l.pub'], 'a failure leaves no file');
  t.end();
});

t.test('sign makes a manifest or adds digests to it, and minisign verifies the signature', (t) => {
  const place = t.testdir({ site });
  newKey(place);
  t.match(waybill(['sign', 'site', '--key', 'site.key'], { cwd: place }), {
    status: 0,
    stdout: /^signed {2}site\/manifest\.json\.minisig {2}2 files, 4 B {2}key [0-9A-F]{16}\n$/,
    stderr: /made site\/manifest\.json/,
  });
  t.match(minisign(place, 'site/manifest.json'), /timestamp:\d+\tfile:manifest\.json\thashed/);

  const file = path.join(place, 'site/manifest.json');
  writeFileSync(file, manifest(['index.html', { path: 'sub/a', kind: 'letter' }], undefined, { more: 1 }));
  const ended = waybill(['sign', 'site', '--key', 'site.key', '--format', 'json'], { cwd: place });
  t.match(document(t, ended), { kind: 'sign', written: { manifest: 'site/manifest.json' }, files: 2 });
  t.match(JSON.parse(readFileSync(file, 'utf8')), {
    more: 1,
    created: '2026-11-20T01:02:03.000Z',
    files: [
      { path: 'index.html', size: 3, digest: /^sha256:/ },
      { path: 'sub/a', size: 1, digest: /^sha256:/, kind: 'letter' },
    ],
  });
  t.match(minisign(place, 'site/manifest.json'), 'timestamp:1795136523\t');
  const before = readFileSync(`${file}.minisig`);
  const again = waybill(['sign', 'site', '--key', 'site.key', '--format', 'json'], { cwd: place });
  t.match(document(t, again), { written: { manifest: null } });
  t.ok(readFileSync(`${file}.minisig`).equals(before), 'an equal bundle gets an equal signature');

  writeFileSync(path.join(place, 'site/sub/a'), 'B');
  t.match(waybill(['sign', 'site', '--key', 'site.key'], { cwd: place }), {
    status: 1,
    stderr: /sub\/a.*should have the digest/,
  });
  t.end();
});

t.test('pack --sign puts the signature after the manifest, with the same bytes each time', (t) => {
  const place = t.testdir({ site });
  newKey(place);
  const pack = (name: string): Buffer => {
    const args = ['pack', 'site', '--sign', 'site.key', '-o', name, '--format', 'json'];
    t.match(document(t, waybill(args, { cwd: place, env })), { signature: { is_present: true }, files: 2 });
    return readFileSync(path.join(place, name));
  };
  t.ok(pack('one.tgz').equals(pack('two.tgz')));
  t.same(readdirSync(path.join(place, 'site')).sort(), ['index.html', 'sub'], 'the directory is unchanged');
  const names: string[] = [];
  tar.list({ file: path.join(place, 'one.tgz'), sync: true, onReadEntry: ({ path }) => names.push(path) });
  t.same(names, ['manifest.json', 'manifest.json.minisig', 'index.html', 'sub/a']);
  const out = path.join(place, 'out');
  mkdirSync(out);
  tar.extract({ file: path.join(place, 'one.tgz'), cwd: out, sync: true });
  execFileSync('minisign', ['-Vm', 'manifest.json', '-p', path.join(place, 'site.key.pub')], { cwd: out });

  const renewed = waybill(['pack', out, '--renew', '--manifest-only'], { cwd: place, env });
  t.match(renewed, { status: 0, stderr: /signs another manifest and is left out; sign the new one/ });
  t.end();
});

t.test(
  'the passphrase comes from a file, the environment or the terminal, and appears nowhere else',
  async (t) => {
    const place = t.testdir({ site, pass: `${canary}\n` });
    newKey(place);
    await encrypt(place);
    const sign = ['sign', 'site', '--key', 'secret.key'];
    const ended = [
      waybill([...sign, '--passphrase-file', 'pass'], { cwd: place }),
      waybill(sign, { cwd: place, env: { WAYBILL_KEY_PASSPHRASE: canary } }),
    ];
    t.same(
      ended.map(({ status }) => status),
      [0, 0],
    );
    const wrong = waybill(sign, { cwd: place, env: { WAYBILL_KEY_PASSPHRASE: `${canary}!` } });
    t.match(wrong, { status: 2, stderr: /the key "secret\.key" cannot be used: the passphrase is wrong/ });
    t.match(waybill([...sign, '--passphrase-file', 'none'], { cwd: place }), { status: 2 });
    t.match(waybill(['sign', 'site', '--key', 'pass'], { cwd: place }), {
      status: 2,
      stderr: /the key "pass" cannot be used: it does not begin with "untrusted comment: "/,
    });

    const command = `${process.execPath} ${program} ${sign.join(' ')}`;
    const child = spawn('script', ['-qec', command, '/dev/null'], {
      cwd: place,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    let screen = '';
    child.stdout.on('data', (chunk: Buffer) => {
      if (!screen.includes('Passphrase') && chunk.includes('Passphrase'))
        child.stdin.write(`${canary}x\u007f\r`);
      screen += chunk.toString();
    });
    const [, status] = await Promise.all([
      text(child.stderr),
      new Promise((done) => child.once('close', done)),
    ]);
    t.equal(status, 0, screen);
    t.match(screen, /Passphrase of secret\.key: [^]*signed/);

    const files = ['manifest.json', 'manifest.json.minisig'].map((name) =>
      readFileSync(path.join(place, 'site', name), 'utf8'),
    );
    const written = [...ended, wrong].flatMap(({ stdout, stderr }) => [stdout, stderr]).concat(files, screen);
    const secrets = ['site.key', 'secret.key'].map(
      (name) => readFileSync(path.join(place, name), 'utf8').split('\n')[1] ?? '',
    );
    for (const secret of ['canary51c0ffee', ...secrets])
      t.notOk(
        written.some((each) => each.includes(secret)),
        'no secret is printed or written',
      );
  },
);

t.test(
  'push --sign publishes to a pipeline that requires signatures, and minisign verifies the bundle',
  async (t) => {
    const place = t.testdir({ site });
    for (const name of ['theirs', 'bare', 'tampered'])
      cpSync(path.join(place, 'site'), path.join(place, name), { recursive: true });
    newKey(place);
    execFileSync('minisign', ['-GW', '-p', 'theirs.pub', '-s', 'theirs.key'], { cwd: place });
    const keys = ['site.key.pub', 'theirs.pub'].map((name) => readFileSync(path.join(place, name), 'utf8'));
    writeFileSync(path.join(place, 'trusted.pub'), keys.join(''));
    const destination = 'id: web, backend: local, path: ./web, outputs: {archive: true, checksums: true}';
    writeFileSync(
      path.join(place, 'c.yml'),
      `audit: {}
upload_tokens: [{id: ci, value_env: TOKEN_CI, pipelines: [site]}]
server: {http: {listen: "127.0.0.1:0"}, staging: {directory: ./staging}}
pipelines:
  - {id: site, source: {backend: http_upload}, signatures: {keys_file: ./trusted.pub}, destinations: [{${destination}}]}
`,
    );
    const token = 'a-token-of-all-producers';
    const { url } = await startDaemon(t, place, { TOKEN_CI: token, HOME: place });
    const push = (directory: string, ...args: string[]): Ended => {
      const to = ['push', directory, '--to', url, '-p', 'site', '--no-git'];
      return waybill([...to, ...args], { cwd: place, env: { WAYBILL_TOKEN: token } });
    };
    t.match(push('bare'), { status: 1, stderr: /manifest\.json\.minisig is missing/ });
    t.match(push('site', '--sign', 'site.key'), { status: 0, stdout: /^succeeded / });
    // A producer without waybill's key commands signs with minisign.
    t.match(waybill(['sign', 'theirs', '--key', 'site.key'], { cwd: place }), { status: 0 });
    execFileSync('minisign', ['-Sm', 'theirs/manifest.json', '-s', 'theirs.key'], { cwd: place });
    t.match(push('theirs'), { status: 0, stdout: /^succeeded / });
    const published = readdirSync(path.join(place, 'web')).sort();
    t.equal(published.length, 2);
    // A bundle without a name gets one that begins with its time.
    for (const [index, key] of ['theirs.pub', 'site.key.pub'].entries()) {
      const at = path.join(place, 'web', published[index] ?? '');
      const archive = readdirSync(at).find((name) => name.endsWith('.tar.gz')) ?? '';
      const cwd = path.join(place, 'out', key);
      mkdirSync(cwd, { recursive: true });
      tar.extract({ file: path.join(at, archive), cwd, sync: true });
      const verified = execFileSync('minisign', ['-Vm', 'manifest.json', '-p', path.join(place, key)], {
        cwd,
      });
      t.match(verified.toString(), 'Signature and comment signature verified');
      execFileSync('sha256sum', ['-c', 'SHA256SUMS'], { cwd: at });
    }
    t.match(waybill(['sign', 'tampered', '--key', 'site.key'], { cwd: place }), { status: 0 });
    writeFileSync(path.join(place, 'tampered/index.html'), '<b>');
    const tampered = push('tampered');
    t.match(tampered, { status: 1, stderr: /index\.html/ });
    t.same(readdirSync(path.join(place, 'web')).sort(), published, 'nothing else is published');
    const trail = waybill(['audit', 'show', '-c', 'c.yml', '--act', 'upload'], { cwd: place }).stdout;
    t.match(trail, /upload +refused +token ci .*signature_missing/);
    t.equal(trail.match(/upload +done +token ci /g)?.length, 2);
  },
);

t.test('verify --signatures checks a destination with only the public key', (t) => {
  const place = t.testdir({ source: site, web: {} });
  newKey(place);
  writeFileSync(
    path.join(place, 'c.yml'),
    `pipelines:
  - id: maps
    source: {backend: local, path: ./source, manifest: auto}
    destinations: [{id: web, backend: local, path: ./web, workflow: replacement, outputs: {signature: {key_env: KEY}}}]
`,
  );
  const run = ['run', '-c', 'c.yml'];
  t.match(waybill(run, { cwd: place }), {
    status: 2,
    stderr: /missing or empty: KEY \(needed by destination "web"/,
  });
  t.match(waybill(run, { cwd: place, env: { KEY: 'no key' } }), { status: 1, stdout: /signing_key_invalid/ });
  const key = readFileSync(path.join(place, 'site.key'), 'utf8');
  const done = waybill(run, { cwd: place, env: { KEY: key } });
  t.equal(done.status, 0, done.stdout + done.stderr);
  for (const from of [['web'], ['-c', 'c.yml']]) {
    const clean = waybill(['verify', '--signatures', 'site.key.pub', ...from, '--format', 'json'], {
      cwd: place,
    });
    t.match(document(t, clean), {
      kind: 'verify-signatures',
      trusted: true,
      destinations: [{ error: null }],
    });
    t.equal(clean.status, 0);
  }
  writeFileSync(path.join(place, 'web/sub/a'), 'X');
  t.match(waybill(['verify', '--signatures', 'site.key.pub', 'web'], { cwd: place }), {
    status: 1,
    stdout: /✗ sub\/a {2}differs from the signed content\nfailed/,
    stderr: '',
  });
  t.equal(
    waybill(['verify', '--signatures', 'site.key', 'web'], { cwd: place }).status,
    2,
    'not the secret key',
  );
  t.match(waybill(['verify', '--signatures', 'site.key.pub'], { cwd: place }), {
    status: 2,
    stderr: /needs destinations: --config/,
  });
  t.match(waybill(['verify', 'web'], { cwd: place }), {
    status: 2,
    stderr: /to check signatures: waybill verify PATH_OR_URL/,
  });
  t.end();
});
