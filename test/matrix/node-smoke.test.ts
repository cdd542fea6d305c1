import { type ChildProcess, execFile } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { GetObjectCommand } from '@aws-sdk/client-s3';
import t, { type Test } from 'tap';
import { startDaemon } from '../cli/daemon.ts';
import { manifest } from '../cli/process.ts';
import { nodeProgram, nodeReleases } from '../services/node-releases.ts';
import { startRadosgw } from '../services/radosgw.ts';
import { startSshd } from '../services/sshd.ts';
import { recordMatrix } from '../support/matrix.ts';

/** The packaged program on each supported line of Node.js, with real servers. */

const run = promisify(execFile);
const bundled = path.resolve('dist/bundle/waybill.cjs');
/**
 * The bundle of `npm test`. Compiling from source takes half a minute for each release, and it is enough to
 * check that the compiler starts there.
 */
const demo = fileURLToPath(new URL('../../examples/demo/demo.ts', import.meta.url));
const token = 'a-token-of-this-test-alone';
const s3 = await startRadosgw(t);
const sftp = await startSshd(t);

for (const release of nodeReleases)
  t.test(`Node.js ${release}`, async (t) => {
    const node = await nodeProgram(release);
    const { attempts, stop } = await attemptsOn(t, release, node);
    const found: Record<string, string> = {};
    for (const [what, attempt] of Object.entries(attempts))
      found[what] = await attempt().then(
        () => 'yes',
        (error: unknown) => {
          t.error(error, what);
          return 'no';
        },
      );
    t.equal(await stop(), 0, 'the daemon ends on a signal');
    recordMatrix(t, 'node-releases', { subject: release.replace(/\..*/, ''), version: release, found });
  });

/**
 * The checks by column, in this order. Each fails unless all of it has worked. `stop` ends the daemon that
 * the upload started, and resolves to its exit code.
 */
async function attemptsOn(
  t: Test,
  release: string,
  node: string,
): Promise<{ attempts: Record<string, () => Promise<void>>; stop: () => Promise<number | null> }> {
  const bucket = await s3.newBucket();
  const place = t.testdir({ site: {}, 'c.yml': configuration(bucket, release) });
  const env = {
    ...{ PATH: process.env['PATH'] ?? '', HOME: place, TMPDIR: place, WAYBILL_TOKEN: token, TOKEN_CI: token },
    ...{ S3_KEY: s3.user.accessKeyId, S3_SECRET: s3.user.secretAccessKey },
  };
  const waybill = (...args: string[]): Promise<{ stdout: string }> =>
    run(node, [bundled, ...args], { cwd: place, env });
  layOutSite(path.join(place, 'site'));
  let url = '';
  let daemon: ChildProcess | undefined;
  const attempts = {
    demo: async () => {
      const inClone = { env: { ...process.env, NODE_OPTIONS: '', TMPDIR: place } };
      const version = await run(node, ['--import=tsx', 'src/cli/main.ts', '--version'], inClone);
      expectText(t, version.stdout, /^\d+\.\d+\.\d+\n$/);
      const how = demo.endsWith('.ts') ? ['--import=tsx', demo] : [demo];
      const { stdout } = await run(node, [...how, '--once'], inClone);
      expectText(t, stdout, /skip_same=3/);
    },
    upload: async () => {
      expectText(t, (await run(node, ['--version'])).stdout, new RegExp(`^v${release}$`, 'm'));
      cpSync('test/fixtures/weather', path.join(place, 'records'), { recursive: true });
      await waybill('weather', 'feed', '--config', 'c.yml', '--create-tables', 'records');
      ({ url, process: daemon } = await startDaemon(t, place, env, bundled, node));
      await waybill('push', 'site', '--to', url, '--pipeline', 'site');
      expectText(t, readFileSync(path.join(place, 'web/n/page.html'), 'utf8'), /^<p>page<\/p>$/);
      await waybill('verify', '--config', 'c.yml');
    },
    S3: async () => {
      const stored = await s3
        .client()
        .send(new GetObjectCommand({ Bucket: bucket, Key: 'live/n/page.html' }));
      expectText(t, (await stored.Body?.transformToString()) ?? '', /^<p>page<\/p>$/);
    },
    SFTP: async () =>
      expectText(t, readFileSync(path.join(sftp.root, release, 'n/page.html'), 'utf8'), /^<p>page<\/p>$/),
    weather: async () => {
      for (const [format, start] of [
        ['json', /^\{/],
        ['xml', /^<\?xml/],
        ['text', /^Observed /m],
      ] as const) {
        const answer = await fetch(new URL(`observations?format=${format}`, url));
        t.equal(answer.status, 200, format);
        expectText(t, await answer.text(), start);
      }
    },
    'scene map': async () =>
      expectText(t, readFileSync(path.join(place, 'web/n/scene-map.html'), 'utf8'), /<!doctype html>/i),
  };
  const stop = async (): Promise<number | null> => {
    daemon?.kill('SIGTERM');
    if (daemon?.exitCode === null) await once(daemon, 'exit');
    return daemon?.exitCode ?? null;
  };
  return { attempts, stop };
}

function expectText(t: Test, text: string, pattern: RegExp): void {
  if (!t.match(text, pattern)) throw new Error(`${pattern} is not in: ${text.slice(0, 200)}`);
}

function layOutSite(site: string): void {
  mkdirSync(site, { recursive: true });
  cpSync('examples/scene-maps/session-42.json', path.join(site, 'scene-map.json'));
  const files = [{ path: 'scene-map.json', kind: 'scene_map' }, { path: 'page.html' }];
  writeFileSync(path.join(site, 'manifest.json'), manifest(files, '2026-11-20T01:02:03Z', { name: 'n' }));
  writeFileSync(path.join(site, 'page.html'), '<p>page</p>');
}

function configuration(bucket: string, release: string): string {
  const { host, port, user, root, clientKeyFile, knownHostsFile } = sftp;
  const keys = `ssh_key_file: "${clientKeyFile}", known_hosts_file: "${knownHostsFile}"`;
  return `
upload_tokens: [{ id: ci, value_env: TOKEN_CI, pipelines: [site] }]
server: { http: { listen: "127.0.0.1:0" }, staging: { directory: ./staging } }
databases: [{ name: embedded, driver: pglite, directory: ./database }]
pipelines:
  - id: site
    source: { backend: http_upload }
    destinations:
      - { id: web, backend: local, path: ./web, outputs: { checksums: true, index: true, scene_map_page: true } }
      - { id: cdn, backend: s3, endpoint: "${s3.endpoint}", bucket: ${bucket}, prefix: live, access_key_id_env: S3_KEY, secret_access_key_env: S3_SECRET }
      - { id: mirror, backend: sftp, host: ${host}, port: ${port}, user: ${user}, path: "${root}/${release}", ${keys} }
`;
}
