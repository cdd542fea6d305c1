import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { serve } from '../../../src/cli/daemon/serve.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { tar } from '../../fixtures/tar.ts';

/** Archives without a manifest, as `tar` creates them, sent to a pipeline with `manifest: auto`. */

const token = 'a-token-of-this-test-alone';
const place = t.testdir({ site: { 'index.html': '<p>1</p>', css: { 'a.css': 'a' }, '.git': { HEAD: 'x' } } });
const site = path.join(place, 'site');
const configuration = path.join(place, 'waybill.yml');
writeFileSync(
  configuration,
  `upload_tokens: [{id: ci, value_env: TOKEN, pipelines: [site, strict]}]
server: {http: {listen: "127.0.0.1:0"}, staging: {directory: ./staging}}
pipelines:
  - id: site
    source: {backend: http_upload, manifest: auto, exclude: [drafts/]}
    destinations: [{id: web, backend: local, path: ./public, mapping: fixed, workflow: replacement}]
  - id: strict
    source: {backend: http_upload}
    destinations: [{id: web, backend: local, path: ./strict}]
`,
);
const served = await serve({
  configFile: configuration,
  log: silentLog,
  env: { TOKEN: token, HOME: place },
});
t.teardown(() => served.close());
const { url } = served;

function modify(name: string, time: string): void {
  utimesSync(path.join(site, name), new Date(time), new Date(time));
}

async function upload(
  pipeline: string,
  archive: Uint8Array<ArrayBuffer> = execFileSync('tar', ['-C', site, '-cf', '-', '.']),
): Promise<Response> {
  return fetch(`${url}v1/pipelines/${pipeline}/upload`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/x-tar' },
    body: archive,
  });
}

/** The actions of the run, once it has ended. */
async function published(): Promise<string> {
  const response = await upload('site');
  const place = new URL(response.headers.get('location') ?? '', url);
  return (await fetch(`${place.href}?wait=60`)).text();
}

modify('index.html', '2026-11-01T10:00:00Z');
modify('css/a.css', '2026-11-02T10:00:00Z');

t.test('the archive of a directory is one bundle, and repeating it publishes nothing new', async (t) => {
  t.match(await published(), /"publish_new"/);
  t.equal(readFileSync(path.join(place, 'public/index.html'), 'utf8'), '<p>1</p>');
  t.ok(existsSync(path.join(place, 'public/css/a.css')));
  t.notOk(existsSync(path.join(place, 'public/.git')), 'without version control files');
  t.match(await published(), /"skip_same"/);
});

t.test('an edited directory replaces the previous one, even if its newest file was deleted', async (t) => {
  writeFileSync(path.join(site, 'index.html'), '<p>2</p>');
  modify('index.html', '2026-11-01T11:00:00Z');
  rmSync(path.join(site, 'css'), { recursive: true });
  mkdirSync(path.join(site, 'drafts'));
  writeFileSync(path.join(site, 'drafts/a.html'), '');
  t.match(await published(), /"succeeded"/);
  t.equal(readFileSync(path.join(place, 'public/index.html'), 'utf8'), '<p>2</p>');
  t.notOk(existsSync(path.join(place, 'public/css/a.css')));
  t.notOk(existsSync(path.join(place, 'public/drafts')), 'without the excluded files');
});

t.test('rejects an archive that has a file with secrets, and names the file', async (t) => {
  writeFileSync(path.join(site, '.env'), 'KEY=1');
  const response = await upload('site');
  t.equal(response.status, 422);
  t.match(await response.text(), /secret_file.*\.env|\.env.*secret_file/);
  rmSync(path.join(site, '.env'));
});

t.test('a time that is out of range counts as none', async (t) => {
  const rawTime = Buffer.from('80000000001fffffffffffff', 'hex');
  const response = await upload('site', Buffer.from(tar({ path: 'index.html', body: '<p>3</p>', rawTime })));
  t.equal(response.status, 202, await response.text());
});

t.test('a pipeline without the setting still needs a manifest', async (t) => {
  const response = await upload('strict');
  t.equal(response.status, 422);
  t.match(await response.text(), 'manifest_missing');
});
