import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import t from 'tap';
import { packDirectory } from '../../../src/core/bundle/pack/pack-directory.ts';
import { stageUpload } from '../../../src/core/bundle/stage-upload.ts';
import { parseConfig } from '../../../src/core/config/load-config.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import type { Instant } from '../../../src/core/lib/instant.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import type { RelativePath } from '../../../src/core/lib/paths.ts';
import { loadSecrets } from '../../../src/core/lib/secrets.ts';
import { storageOpener } from '../../../src/core/storage/open-storage.ts';
import { processJob } from '../../../src/workers/threads/publish-task.ts';

/** Security finding 7: a staged bundle is changed between its acceptance and its publication. */

const place = t.testdir({ site: {} });
const directory = path.join(place, 'staged');
const created = '2026-11-01T00:00:00.000Z' as Instant;
const { config } = parseConfig(
  Buffer.from(`
upload_tokens: [{id: ci, value_env: TOKEN, pipelines: [site]}]
server: {staging: {directory: ./staging}}
pipelines:
  - id: site
    source: {backend: http_upload, manifest: auto}
    destinations: [{id: web, backend: local, path: ./web}]
`),
  path.join(place, 'waybill.yml'),
  { home: place },
);

const file = (name: string): string => path.join(directory, name);
const read = (name: string): string => readFileSync(file(name), 'utf8');
const change = (name: string, from: string | RegExp, to: string): void =>
  writeFileSync(file(name), read(name).replace(from, to));

/** Changes by a program that can write to the staging directory and knows its structure. */
const changes: Record<string, () => void> = {
  'a file': () => change('files/a.txt', 'honest', 'victim'),
  'a file and its digest': () => {
    change('files/a.txt', 'honest', 'victim');
    change('staged.json', digestOf('honest'), digestOf('victim'));
  },
  'a file, its digests and the manifest': () => {
    const before = digestOf(read('files/manifest.json'));
    change('files/a.txt', 'honest', 'victim');
    change('files/manifest.json', digestOf('honest'), digestOf('victim'));
    change('staged.json', digestOf('honest'), digestOf('victim'));
    change('staged.json', before, digestOf(read('files/manifest.json')));
  },
  'the manifest': () => change('files/manifest.json', created, '2026-11-03T00:00:00.000Z'),
  'the signature, by adding one': () => writeFileSync(file('files/manifest.json.minisig'), 'nonsense'),
  'the warnings': () => change('staged.json', '"warnings":[]', '"warnings":[1]'),
  'the description, by removing it': () => rmSync(file('staged.json')),
};

for (const [what, apply] of Object.entries(changes))
  t.test(`a staged bundle is not published after a change of ${what}`, async (t) => {
    const site = path.join(place, 'site');
    rmSync(directory, { recursive: true, force: true });
    rmSync(path.join(place, 'web'), { recursive: true, force: true });
    mkdirSync(path.join(place, 'web'));
    writeFileSync(path.join(site, 'a.txt'), 'honest');
    const body = await buffer((await packDirectory(site, { created, name: 'site' as RelativePath })).open());
    const { description, bundlePath } = await stageUpload({
      input: Readable.from([body]),
      directory,
      limits: { maxUploadSize: 2 ** 20, maxFiles: 10 },
      signal: new AbortController().signal,
    });
    const secrets = await loadSecrets({ directory: null, env: {} });
    const openStorage = storageOpener({ clock: systemClock, log: silentLog, secrets });
    const context = { clock: systemClock, log: silentLog, secrets, openStorage };
    const job = { runId: 'site.1', pipelineId: 'site', staged: directory, bundlePath, description };
    const publish = (): ReturnType<typeof processJob> =>
      processJob(job, config, context, { dryRun: false, onProgress: () => undefined });
    const whole = readFileSync(file('staged.json'));
    apply();
    // A changed file is detected when it is read, and everything else before that.
    if (what === 'a file') t.match(await publish(), { run: { counters: { failed_destinations: 1 } } });
    else await t.rejects(publish(), { code: /^(body_mismatch|bundle_not_found)$/ });
    t.throws(() => readFileSync(path.join(place, 'web/site/a.txt')), { code: 'ENOENT' });
    if (what !== 'the warnings') return;
    writeFileSync(file('staged.json'), whole);
    t.match(await publish(), { run: { counters: { failed_destinations: 0 } } });
    t.equal(readFileSync(path.join(place, 'web/site/a.txt'), 'utf8'), 'honest');
  });
