import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import t from 'tap';
import { serve } from '../../../src/cli/daemon/serve.ts';
import { readPage } from '../../../src/core/audit/read-trail.ts';
import type { Act, AuditRecord } from '../../../src/core/audit/record.ts';
import { packDirectory } from '../../../src/core/bundle/pack/pack-directory.ts';
import { stageUpload } from '../../../src/core/bundle/stage-upload.ts';
import { parseConfig } from '../../../src/core/config/load-config.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { dateOf, type Instant } from '../../../src/core/lib/instant.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import type { RelativePath } from '../../../src/core/lib/paths.ts';
import { loadSecrets } from '../../../src/core/lib/secrets.ts';
import { publicKeyFile, publicKeyLine } from '../../../src/core/signing/public-key.ts';
import { newSecretKey, type SecretKey } from '../../../src/core/signing/secret-key.ts';
import { signatureFile, trustedCommentOf } from '../../../src/core/signing/signature.ts';
import { storageOpener } from '../../../src/core/storage/open-storage.ts';
import { processJob } from '../../../src/workers/threads/publish-task.ts';

const token = 'a-token-of-this-test-alone';
const place = t.testdir({ site: {}, 'other.pub': '' });
const [ours, theirs] = [newSecretKey(), newSecretKey()];
const configuration = path.join(place, 'waybill.yml');
const yaml = (keys: readonly SecretKey[]): string => `
audit: {}
upload_tokens: [{id: ci, value_env: TOKEN, pipelines: [strict, lenient, file]}]
server: {http: {listen: "127.0.0.1:0"}, staging: {directory: ./staging}}
pipelines:
  - id: strict
    source: {backend: http_upload, manifest: auto}
    signatures: {keys: [${keys.map(({ publicKey }) => publicKeyLine(publicKey)).join(', ')}]}
    destinations: [{id: web, backend: local, path: ./strict, outputs: {archive: true}}]
  - id: lenient
    source: {backend: http_upload}
    signatures: {required: false, keys: [${publicKeyLine(ours.publicKey)}]}
    destinations: [{id: web, backend: local, path: ./lenient}]
  - id: file
    source: {backend: http_upload}
    signatures: {keys_file: ./trusted.pub}
    destinations: [{id: web, backend: local, path: ./file, mapping: fixed, stale: publish}]
`;
const trusted = path.join(place, 'trusted.pub');
writeFileSync(trusted, publicKeyFile(ours.publicKey) + publicKeyFile(theirs.publicKey));
writeFileSync(configuration, yaml([ours]));
const served = await serve({ configFile: configuration, log: silentLog, env: { TOKEN: token, HOME: place } });
t.teardown(() => served.close());

const oldest = '2026-11-01T00:00:00.000Z' as Instant;
const newer = '2026-11-02T00:00:00.000Z' as Instant;

const signer =
  (secret: SecretKey) =>
  (manifest: Uint8Array, created: Instant): Buffer =>
    Buffer.from(signatureFile(manifest, secret, trustedCommentOf(dateOf(created), 'manifest.json')));

interface Made {
  text: string;
  created?: Instant;
  sign?: (manifest: Uint8Array, created: Instant) => Buffer;
}

async function archive({ text, created = oldest, sign }: Made): Promise<Buffer> {
  const directory = path.join(place, 'site');
  rmSync(directory, { recursive: true });
  mkdirSync(directory);
  writeFileSync(path.join(directory, 'a.txt'), text);
  const name = 'site' as RelativePath;
  const bundle = await packDirectory(directory, { created, name, ...(sign === undefined ? {} : { sign }) });
  return buffer(bundle.open());
}

async function upload(pipeline: string, body: Buffer): Promise<{ status: number; document: unknown }> {
  const response = await fetch(`${served.url}v1/pipelines/${pipeline}/upload`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/gzip' },
    body: new Uint8Array(body),
  });
  return { status: response.status, document: await response.json() };
}

/** The record of the run for an accepted upload, as text. */
async function published(pipeline: string, made: Made): Promise<string> {
  const { status, document } = await upload(pipeline, await archive(made));
  t.equal(status, 202, JSON.stringify(document));
  const { run_id: id } = document as { run_id: string };
  return (await fetch(`${served.url}runs/${id}?wait=60`)).text();
}

async function lastRecord(act: Act): Promise<AuditRecord | undefined> {
  return (await readPage(path.join(place, 'audit'), { limit: 1, act })).records[0];
}

const read = (name: string): string => readFileSync(path.join(place, name), 'utf8');

t.test('an upload without a signature by a trusted key is rejected before it is accepted', async (t) => {
  const id = theirs.publicKey.id;
  const over = (other: string) => (): Buffer => signer(ours)(Buffer.from(other), oldest);
  const cases: [string, Made['sign'] | undefined, string, RegExp][] = [
    ['unsigned', undefined, 'signature_missing', /manifest\.json\.minisig is missing/],
    ['unknown key', signer(theirs), 'signing_key_untrusted', new RegExp(`is by key ${id}, which is not`)],
    ['of another manifest', over('{}'), 'signature_invalid', /by key [0-9A-F]{16}: it was made for other/],
    ['malformed', () => Buffer.from('x'), 'signature_invalid', /is not a signature of minisign/],
    ['too large', () => Buffer.alloc(20_000, 'x'), 'invalid_bundle', /20000 bytes/],
  ];
  for (const [name, sign, code, detail] of cases) {
    const refused = await upload('strict', await archive({ text: '1', ...(sign && { sign }) }));
    t.match(refused, { status: 422, document: { code, detail, retryable: false } }, name);
    t.match(
      await lastRecord('upload'),
      { result: 'refused', code, actor: { type: 'token', id: 'ci' } },
      name,
    );
  }
  t.match(await published('strict', { text: '1', sign: signer(ours) }), /"publish_new"/);
  t.equal(read('strict/site/a.txt'), '1');
  t.throws(() => read('strict/site/manifest.json.minisig'), 'the signature is not an output');
});

t.test('the generated archive has the signature, and can be uploaded again', async (t) => {
  const body = readFileSync(path.join(place, 'strict/site/site.tar.gz'));
  t.match(await upload('strict', body), { status: 202 });
});

t.test(
  'an older signed bundle is rejected whatever stale is set to, and the same one is unchanged',
  async (t) => {
    const [one, two] = [signer(ours), signer(theirs)];
    t.match(await published('file', { text: 'old', sign: one }), /"publish_new"/);
    t.match(await published('file', { text: 'new', created: newer, sign: two }), /"upsert_additive"/);
    const replayed = await published('file', { text: 'old too', sign: one });
    t.match(replayed, /"signature_replayed"/);
    for (let failed: AuditRecord | undefined; failed?.code !== 'signature_replayed';)
      failed = await lastRecord('publish');
    t.match(replayed, new RegExp(`signed by key ${ours.publicKey.id}`));
    t.equal(read('file/a.txt'), 'new');
    t.match(await published('file', { text: 'new', created: newer, sign: one }), /"skip_same"|"publish/);
  },
);

t.test('publications of a daemon without notifiers are in the audit trail', async (t) => {
  const published = async (): Promise<AuditRecord[]> =>
    (await readPage(path.join(place, 'audit'), { limit: 100, act: 'publish' })).records;
  const actor = { type: 'daemon', id: null };
  t.match((await published()).at(-1), {
    result: 'done',
    actor,
    pipeline_id: 'strict',
    destination_id: 'web',
  });
});

t.test('required: false accepts an unsigned bundle, but no invalid signature', async (t) => {
  t.match(await published('lenient', { text: '1' }), /"unsigned_bundle"/);
  const refused = await upload('lenient', await archive({ text: '2', sign: signer(theirs) }));
  t.match(refused, { status: 422, document: { code: 'signing_key_untrusted' } });
});

t.test('a reload revokes a key, and rejects an invalid key file', async (t) => {
  writeFileSync(configuration, yaml([theirs]));
  await served.reload();
  const refused = await upload('strict', await archive({ text: '3', created: newer, sign: signer(ours) }));
  t.match(refused, { document: { code: 'signing_key_untrusted' } });
  writeFileSync(trusted, 'RWQ!');
  await t.rejects(served.reload(), { code: 'reload_refused', message: /a line is not a public key/ });
  writeFileSync(trusted, publicKeyFile(theirs.publicKey));
  const removed = await upload('file', await archive({ text: '3', created: newer, sign: signer(ours) }));
  t.match(removed, { document: { code: 'signing_key_untrusted' } }, 'removed from the file');
});

t.test('a staged bundle is checked again before it is published', async (t) => {
  const configOf = (...keys: SecretKey[]): ReturnType<typeof parseConfig>['config'] =>
    parseConfig(Buffer.from(yaml(keys)), configuration, { home: place }).config;
  const directory = path.join(place, 'staged');
  const stage = async (): Promise<void> => {
    rmSync(directory, { recursive: true, force: true });
    const body = await archive({ text: '4', created: newer, sign: signer(ours) });
    await stageUpload({
      input: Readable.from([body]),
      directory,
      limits: { maxUploadSize: 2 ** 20, maxFiles: 10 },
      signal: new AbortController().signal,
      signatures: configOf(ours).pipelines[0]?.signatures ?? null,
    });
  };
  const secrets = await loadSecrets({ directory: null, env: {} });
  const openStorage = storageOpener({ clock: systemClock, log: silentLog, secrets });
  const context = { clock: systemClock, log: silentLog, secrets, openStorage };
  const job = { runId: 'strict.1', pipelineId: 'strict', staged: directory, bundlePath: 'site' };
  const publish = (key: SecretKey): Promise<unknown> =>
    processJob(job, configOf(key), context, { dryRun: false, onProgress: () => undefined });
  const change = (name: string, from: string | RegExp, to: string): void =>
    writeFileSync(
      path.join(directory, name),
      readFileSync(path.join(directory, name), 'utf8').replace(from, to),
    );

  await stage();
  await t.rejects(publish(theirs), { code: 'signing_key_untrusted' }, 'a key that was revoked since');
  change('files/manifest.json', newer, '2026-11-03T00:00:00.000Z');
  await t.rejects(publish(ours), { code: 'signature_invalid' }, 'another manifest');
  await stage();
  change('staged.json', /sha256:.{64}/, `sha256:${'0'.repeat(64)}`);
  await t.rejects(publish(ours), { code: 'signature_invalid', message: /covers other files/ });
  await stage();
  rmSync(path.join(directory, 'files/manifest.json.minisig'));
  await t.rejects(publish(ours), { code: 'signature_missing' }, 'a stripped signature');
  await stage();
  t.match(await publish(ours), { run: { counters: { failed_destinations: 0 } } });
});
