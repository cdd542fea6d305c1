import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { parseConfig } from '../../../src/core/config/load-config.ts';
import type { CoreContext } from '../../../src/core/context.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { loadSecrets } from '../../../src/core/lib/secrets.ts';
import { verifySignatures } from '../../../src/core/maintain/verify-signatures.ts';
import { publishPipeline } from '../../../src/core/publish/publish.ts';
import { rollBack } from '../../../src/core/releases/switch.ts';
import { publicKeyFile } from '../../../src/core/signing/public-key.ts';
import { newSecretKey, type SecretKey, secretKeyFile } from '../../../src/core/signing/secret-key.ts';
import { localStorage } from '../../../src/core/storage/local/local-storage.ts';
import { storageOpener } from '../../../src/core/storage/open-storage.ts';
import { ensureInstalled } from '../../services/debian.ts';
import { generator } from '../../support/sampling.ts';

await ensureInstalled('minisign');

const secret = newSecretKey();
const created = '2026-11-20T01:02:03Z';

/** A source with one bundle and a signed destination. */
class Signed {
  readonly place: string;
  readonly #settings: string;

  constructor(t: Test, settings = 'outputs: {signature: {key_env: KEY}, index: true}') {
    this.#settings = settings;
    this.place = t.testdir({ source: { site: { 'a.txt': 'A', sub: { 'b c.txt': 'B' } } }, web: {} });
    this.bundle(['a.txt', 'sub/b c.txt'], created);
    writeFileSync(path.join(this.place, 'site.key.pub'), publicKeyFile(secret.publicKey));
  }

  bundle(files: string[], time: string): void {
    const text = JSON.stringify({ created: time, files });
    writeFileSync(path.join(this.place, 'source/site/manifest.json'), text);
  }

  /** The action of the run, or the code of its error. */
  async run(runId: string, key: SecretKey = secret): Promise<string> {
    const yaml = `pipelines: [{id: maps, source: {backend: local, path: ./source}, destinations: [{id: web, backend: local, path: ./web, workflow: replacement, ${this.#settings}}]}]`;
    const { config } = parseConfig(Buffer.from(yaml), path.join(this.place, 'c.yml'), { home: this.place });
    const context = await this.context(key);
    const [pipeline] = config.pipelines;
    if (pipeline === undefined) throw new Error('no pipeline');
    const result = await publishPipeline(context, pipeline, {
      dryRun: false,
      force: false,
      runId,
      publisher: { token_id: 'ci' },
    });
    const [action] = result.destinations[0]?.actions ?? [];
    return action?.error?.code ?? action?.action ?? JSON.stringify(result);
  }

  async context(key: SecretKey = secret): Promise<CoreContext> {
    const env = { KEY: (await secretKeyFile(key, null)).trim() };
    const secrets = await loadSecrets({ directory: null, env });
    const openStorage = storageOpener({ clock: systemClock, log: silentLog, secrets });
    return { clock: systemClock, log: silentLog, secrets, openStorage };
  }

  read(name: string): Buffer {
    return readFileSync(path.join(this.place, 'web/site', name));
  }

  write(name: string, bytes: Buffer | string): void {
    writeFileSync(path.join(this.place, 'web/site', name), bytes);
  }

  /** The distrusted paths of all bundle paths. For an error, its message. */
  async distrusted(): Promise<string[]> {
    const root = await localStorage(path.join(this.place, 'web'), { readOnly: true });
    const reports = await verifySignatures(root, secret.publicKey, { concurrency: 4 });
    return reports.flatMap(({ distrusted, error }) =>
      error === null ? distrusted.map((each) => each.path) : [error.message],
    );
  }
}

t.test('a signed publication is verified by waybill, minisign and sha256sum', async (t) => {
  const signed = new Signed(t);
  t.equal(await signed.run('maps.1'), 'publish_new');
  t.same(await signed.distrusted(), []);
  const page = readFileSync('docs/how-to/verify-as-a-reader.md', 'utf8');
  const blocks = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block = '']) => block);
  t.equal(blocks.length, 3);
  // The reader has a copy, with the key next to it.
  cpSync(path.join(signed.place, 'web/site'), path.join(signed.place, 'copy'), { recursive: true });
  const read = (): { status: number | null; stdout: string } =>
    spawnSync('bash', ['-e', '-o', 'pipefail', '-c', blocks.join('\n')], {
      cwd: path.join(signed.place, 'copy'),
      encoding: 'utf8',
    });
  const { status, stdout } = read();
  t.equal(status, 0);
  t.match(stdout, /^Signature and comment signature verified\nTrusted comment: timestamp:1795136523\t.*\n$/);
  writeFileSync(path.join(signed.place, 'copy/more.txt'), 'x');
  t.match(read(), { status: 0, stdout: /\nmore\.txt\n$/ }, 'names an unsigned file');
  writeFileSync(path.join(signed.place, 'copy/a.txt'), 'X');
  t.match(read(), { status: 1, stdout: /a\.txt: FAILED/ });
});

t.test(
  'the statement names each output, the source, the publisher, the run and the version, but no secret',
  async (t) => {
    const signed = new Signed(t);
    await signed.run('maps.1');
    const envelope = JSON.parse(signed.read('attestation.json').toString()) as { payload: string };
    const statement = JSON.parse(Buffer.from(envelope.payload, 'base64').toString()) as {
      subject: { name: string; digest: { sha256: string } }[];
      predicate: object;
    };
    t.same(
      statement.subject.map(({ name }) => name),
      ['SHA256SUMS', 'SHA256SUMS.minisig', 'a.txt', 'index.html', 'sub/b c.txt'],
    );
    for (const { name, digest } of statement.subject) {
      const args = [path.join(signed.place, 'web/site', name)];
      t.equal(execFileSync('sha256sum', args, { encoding: 'utf8' }).slice(0, 64), digest.sha256, name);
    }
    t.match(statement, {
      _type: 'https://in-toto.io/Statement/v1',
      predicateType: 'urn:waybill:publication:1',
      predicate: {
        pipeline: 'maps',
        destination: 'web',
        source: { backend: 'local', path: 'site' },
        created: '2026-11-20T01:02:03.000Z',
        manifest: { sha256: /^[0-9a-f]{64}$/ },
        signedBy: null,
        publisher: { token_id: 'ci' },
        run: { id: 'maps.1' },
        waybill: { version: /^\d+\.\d+\.\d+/ },
      },
    });
    const [, key = ''] = (await secretKeyFile(secret, null)).split('\n');
    const seed = String(secret.key.export({ format: 'jwk' }).d);
    for (const name of readdirSync(path.join(signed.place, 'web/site'), {
      recursive: true,
      encoding: 'utf8',
    }))
      if (/\.(json|html|minisig)$/.test(name))
        for (const canary of [key, seed, Buffer.from(seed, 'base64url').toString('base64')])
          t.notOk(signed.read(name).includes(canary), name);
  },
);

t.test('a run without changes keeps the bytes, and any change creates a new signature', async (t) => {
  const signed = new Signed(t);
  const names = ['SHA256SUMS', 'SHA256SUMS.minisig', 'attestation.json'];
  const bytes = (): string[] => names.map((name) => signed.read(name).toString());
  t.equal(await signed.run('maps.1'), 'publish_new');
  const before = bytes();
  t.equal(await signed.run('maps.2'), 'skip_same');
  t.same(bytes(), before);

  rmSync(path.join(signed.place, 'web/site/attestation.json'));
  t.equal(await signed.run('maps.3'), 'replace_catalog', 'a lost statement is created again');
  t.not(bytes()[2], before[2], 'it names its own run');
  t.same(await signed.distrusted(), []);

  signed.bundle(['a.txt'], '2026-11-21T00:00:00Z');
  t.equal(await signed.run('maps.4'), 'replace_catalog');
  t.same(await signed.distrusted(), []);
  const other = newSecretKey();
  t.equal(await signed.run('maps.5', other), 'replace_catalog', 'another key');
  t.same(await signed.distrusted(), ['SHA256SUMS.minisig', 'attestation.json']);
});

t.test('names a link in place of a file, and goes on with the other files', async (t) => {
  const signed = new Signed(t);
  await signed.run('maps.1');
  for (const name of ['a.txt', 'sub/b c.txt']) {
    rmSync(path.join(signed.place, 'web/site', name));
    symlinkSync('/etc/hostname', path.join(signed.place, 'web/site', name));
  }
  rmSync(path.join(signed.place, 'web/site/index.html'));
  t.same(await signed.distrusted(), ['a.txt', 'index.html', 'sub/b c.txt']);
  rmSync(path.join(signed.place, 'web/site/sub'), { recursive: true });
  symlinkSync('/etc', path.join(signed.place, 'web/site/sub'));
  t.same(await signed.distrusted(), ['a.txt', 'index.html', 'sub/b c.txt']);
  for (const name of ['SHA256SUMS', 'attestation.json']) {
    rmSync(path.join(signed.place, 'web/site', name));
    symlinkSync('/etc/hostname', path.join(signed.place, 'web/site', name));
  }
  t.same(await signed.distrusted(), ['SHA256SUMS', 'attestation.json']);
});

t.test('each release is signed, and a rollback stays valid although another run made it', async (t) => {
  const signed = new Signed(t, 'layout: releases, outputs: {signature: {key_env: KEY}}');
  t.equal(await signed.run('maps.1'), 'publish_new');
  writeFileSync(path.join(signed.place, 'source/site/a.txt'), 'A2');
  signed.bundle(['a.txt', 'sub/b c.txt'], '2026-11-21T00:00:00Z');
  t.equal(await signed.run('maps.2'), 'replace_catalog');
  t.same(await signed.distrusted(), []);
  const site = await localStorage(path.join(signed.place, 'web/site'), { readOnly: false });
  t.match(await rollBack(await signed.context(), site, null, { dryRun: false }), { outcome: 'switched' });
  t.equal(await signed.run('maps.3'), 'skip_same');
  t.equal(readFileSync(path.join(signed.place, 'web/site/current/a.txt'), 'utf8'), 'A');
  t.same(await signed.distrusted(), []);
});

t.test('names a flipped bit in a file, the sums, a signature, the statement or the catalog', async (t) => {
  const signed = new Signed(t);
  await signed.run('maps.1');
  const random = generator('bits of a signed destination');
  const flipped = (bytes: Buffer, start: number, end: number): Buffer => {
    const at = start + Math.floor(random() * (end - start));
    const bad = Buffer.from(bytes);
    bad[at] = (bad[at] ?? 0) ^ (1 << Math.floor(random() * 8));
    return bad;
  };
  for (const name of ['a.txt', 'sub/b c.txt', 'index.html', 'SHA256SUMS', 'SHA256SUMS.minisig']) {
    const good = signed.read(name);
    const start = name.endsWith('.minisig') ? good.indexOf('\n') + 1 : 0;
    for (let tries = 0; tries < 10; tries += 1) {
      signed.write(name, flipped(good, start, good.length - (name.endsWith('.minisig') ? 1 : 0)));
      t.ok((await signed.distrusted()).includes(name), name);
    }
    signed.write(name, good);
  }
  const statement = signed.read('attestation.json');
  const payload = statement.indexOf('"payload": "') + 12;
  for (let tries = 0; tries < 10; tries += 1) {
    signed.write('attestation.json', flipped(statement, payload, statement.indexOf('"', payload)));
    t.ok((await signed.distrusted()).includes('attestation.json'), 'attestation.json');
  }
  signed.write('attestation.json', statement);
  const catalog = signed.read('.publisher.json').toString();
  for (const [from, to] of [
    [/"digest":"sha256:./, '"digest":"sha256:x'],
    [/("digest":"sha256:)(.)(.)/, '$1$3$2'],
    ['"path":"a.txt"', '"path":"b.txt"'],
    ['"pipeline_id":"maps"', '"pipeline_id":"mapz"'],
    ['"path":"site"', '"path":"sitf"'],
  ] as [string | RegExp, string][]) {
    const bad = catalog.replace(from, to);
    if (bad === catalog) continue;
    signed.write('.publisher.json', bad);
    const found = await signed.distrusted();
    t.ok(
      found.some((each) => /catalog|publisher\.json|state/.test(each)),
      `${String(from)}: ${found.join()}`,
    );
  }
  signed.write('.publisher.json', catalog);
  rmSync(path.join(signed.place, 'web/site/a.txt'));
  t.same(await signed.distrusted(), ['a.txt'], 'a missing file');
});
