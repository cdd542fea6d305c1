import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { packDirectory } from '../../../src/core/bundle/pack/pack-directory.ts';
import { parseConfig } from '../../../src/core/config/load-config.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { errorRecord } from '../../../src/core/lib/errors.ts';
import { dateOf } from '../../../src/core/lib/instant.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { loadSecrets } from '../../../src/core/lib/secrets.ts';
import { publishPipeline } from '../../../src/core/publish/publish.ts';
import type { PipelineResult } from '../../../src/core/publish/results/result.ts';
import { publicKeyLine } from '../../../src/core/signing/public-key.ts';
import { newSecretKey } from '../../../src/core/signing/secret-key.ts';
import { signatureFile, trustedCommentOf } from '../../../src/core/signing/signature.ts';
import { storageOpener } from '../../../src/core/storage/open-storage.ts';
import { generator } from '../../support/sampling.ts';

/** Signed bundles in a directory that is used as a source. */

const secret = newSecretKey();
const sign = (manifest: Uint8Array, created: Parameters<typeof dateOf>[0]): Buffer =>
  Buffer.from(signatureFile(manifest, secret, trustedCommentOf(dateOf(created), 'manifest.json')));

async function signDirectory(directory: string): Promise<void> {
  const { manifest, signature } = await packDirectory(directory, { sign });
  writeFileSync(path.join(directory, 'manifest.json'), manifest);
  writeFileSync(path.join(directory, 'manifest.json.minisig'), signature ?? '');
}

async function run(place: string): Promise<PipelineResult> {
  const yaml = `pipelines: [{id: maps, source: {backend: local, path: ./source}, signatures: {keys: [${publicKeyLine(secret.publicKey)}]}, destinations: [{id: web, backend: local, path: ./web}]}]`;
  const { config } = parseConfig(Buffer.from(yaml), path.join(place, 'c.yml'), { home: place });
  const secrets = await loadSecrets({ directory: null, env: {} });
  const openStorage = storageOpener({ clock: systemClock, log: silentLog, secrets });
  const context = { clock: systemClock, log: silentLog, secrets, openStorage };
  const [pipeline] = config.pipelines;
  if (pipeline === undefined) throw new Error('no pipeline');
  return publishPipeline(context, pipeline, { dryRun: false, force: false });
}

t.test('an untrusted bundle of a source fails alone, and the others are published', async (t) => {
  const place = t.testdir({ source: { good: { a: 'A' }, unsigned: { a: 'A' }, bare: { a: 'A' } }, web: {} });
  await signDirectory(path.join(place, 'source/good'));
  const created = '2026-11-20T01:02:03Z';
  writeFileSync(path.join(place, 'source/unsigned/manifest.json'), JSON.stringify({ created, files: ['a'] }));
  const bare = Buffer.from(JSON.stringify({ created, files: ['a'] }));
  writeFileSync(path.join(place, 'source/bare/manifest.json'), bare);
  const signature = signatureFile(bare, secret, 'a digest is missing');
  writeFileSync(path.join(place, 'source/bare/manifest.json.minisig'), signature);
  const result = await run(place);
  t.match(result, {
    status: 'failed',
    invalidBundles: [
      {
        bundle: 'bare',
        error: { code: 'invalid_bundle', findings: [{ code: 'digest_missing', file: 'a' }] },
      },
      { bundle: 'unsigned', error: { code: 'signature_missing' } },
    ],
    destinations: [{ actions: [{ bundle: 'good', action: 'publish_new' }] }],
  });
  t.match(result.warnings, { length: 0 }, 'the signature is not reported as an unlisted file');
});

t.test('one flipped bit of the manifest, its signature or a file prevents publication', async (t) => {
  const place = t.testdir({ source: { a: 'some text', b: 'more text' }, web: {} });
  const source = path.join(place, 'source');
  await signDirectory(source);
  const random = generator('bits of a signed bundle');
  for (const name of ['a', 'b', 'manifest.json', 'manifest.json.minisig']) {
    const good = readFileSync(path.join(source, name));
    const start = name.endsWith('.minisig') ? good.indexOf('\n') + 1 : 0;
    for (let tries = 0; tries < 12; tries += 1) {
      const bad = Buffer.from(good);
      const at = start + Math.floor(random() * (good.length - 1 - start));
      bad[at] = (bad[at] ?? 0) ^ (1 << Math.floor(random() * 8));
      writeFileSync(path.join(source, name), bad);
      const result = await run(place).catch((error: unknown) => ({
        status: 'failed',
        error: errorRecord(error),
      }));
      t.not(result.status, 'ok', `${name}, byte ${at}`);
      const text = JSON.stringify(result);
      t.ok(
        text.includes(name.startsWith('manifest') ? 'manifest' : `\\"${name}`),
        `${name}, byte ${at}, is named: ${text}`,
      );
      t.throws(() => readFileSync(path.join(place, 'web/a')), 'nothing is published');
    }
    writeFileSync(path.join(source, name), good);
  }
  t.match(await run(place), { status: 'ok' });
});
