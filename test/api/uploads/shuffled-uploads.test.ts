import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t from 'tap';
import { serve } from '../../../src/cli/daemon/serve.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import type { RunRecord } from '../../../src/workers/queue/run-record.ts';
import { tar } from '../../fixtures/tar.ts';
import { instant } from '../../support/instant.ts';
import { generator } from '../../support/sampling.ts';

const uploads = 100;

/** Created one nanosecond apart: a `Date` could not distinguish them. */
const createdOf = (version: number): string =>
  `2026-11-20T01:02:03.000000000${String(version).padStart(3, '0')}Z`;

function archive(version: number): Uint8Array<ArrayBuffer> {
  const manifest = { schema_version: 1, name: 'site', created: createdOf(version), files: ['index.txt'] };
  const entries = [
    { path: 'manifest.json', body: JSON.stringify(manifest) },
    { path: 'index.txt', body: `version ${version}` },
  ];
  return new Uint8Array(tar(...entries));
}

t.test(`${uploads} uploads to a fixed destination, in shuffled order, publish the newest`, async (t) => {
  const root = mkdtempSync(path.join(tmpdir(), 'waybill-shuffled-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  mkdirSync(path.join(root, 'public'));
  const configFile = path.join(root, 'waybill.yaml');
  writeFileSync(
    configFile,
    `
upload_tokens: [{id: ci, value_env: TOKEN_CI, pipelines: [site]}]
server: {http: {listen: "127.0.0.1:0", queue_size: ${uploads}}, staging: {directory: ./staging}}
pipelines:
  - id: site
    source: {backend: http_upload}
    destinations: [{id: web, backend: local, path: ./public, mapping: fixed}]
`,
  );
  const served = await serve({
    configFile,
    log: silentLog,
    env: { TOKEN_CI: 'a-secret-of-this-test-alone', HOME: root },
  });
  t.teardown(() => served.close());

  const versions = Array.from({ length: uploads }, (_, index) => index);
  const random = generator('shuffled uploads');
  for (let at = versions.length - 1; at > 0; at -= 1) {
    const other = Math.floor(random() * (at + 1));
    [versions[at], versions[other]] = [versions[other] as number, versions[at] as number];
  }
  const accepted = await Promise.all(
    versions.map(async (version) => {
      const response = await fetch(`${served.url}v1/pipelines/site/upload`, {
        method: 'POST',
        headers: { authorization: 'Bearer a-secret-of-this-test-alone', 'content-type': 'application/x-tar' },
        body: archive(version),
      });
      t.equal(response.status, 202);
      await response.body?.cancel();
      return { version, url: new URL(response.headers.get('location') ?? '', served.url) };
    }),
  );
  let refused = 0;
  for (const { version, url } of accepted) {
    const run = await finished(url);
    const [web] = run.destinations;
    if (run.status === 'succeeded') continue;
    refused += 1;
    t.match(web?.error, { code: 'stale_bundle', retryable: false }, `version ${version}`);
    t.match(
      web?.error?.message,
      `created ${instant(createdOf(version))}, is older than "site", created 2026`,
    );
  }
  t.ok(refused > 0, `${refused} came after a newer one`);
  t.equal(readFileSync(path.join(root, 'public/index.txt'), 'utf8'), `version ${uploads - 1}`);
});

async function finished(url: URL): Promise<RunRecord> {
  for (;;) {
    const run = (await (await fetch(url)).json()) as RunRecord;
    if (run.finished_at !== null) return run;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
