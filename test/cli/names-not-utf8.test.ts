import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { startDaemon } from './daemon.ts';
import { document, type Ended, manifest, waybill } from './process.ts';

const token = 'a-token-of-all-producers';
const config = [
  'upload_tokens: [{id: ci, value_env: TOKEN_CI, pipelines: [site]}]',
  'server: {http: {listen: "127.0.0.1:0"}, staging: {directory: ./staging}}',
  'pipelines:',
  '  - {id: site, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./web}]}',
  '  - {id: mine, source: {backend: local, path: ./source}, destinations: [{id: web, backend: local, path: ./mine}]}',
].join('\n');

/** The message about such a name in every command. */
const said = /caf\\xe9\.txt.*has a name that is not UTF-8.*rename it, for example with convmv/s;

function latin1(directory: string, name: string): Buffer {
  return Buffer.concat([Buffer.from(`${directory}/`), Buffer.from(name, 'latin1')]);
}

t.test('pack, push and uploads reject names that are not UTF-8 with the same message', async (t) => {
  const place = t.testdir({ 'c.yml': config, site: { 'index.html': '<p>' } });
  const site = path.join(place, 'site');
  writeFileSync(latin1(site, 'café.txt'), 'x');
  const packed = waybill(['pack', 'site'], { cwd: place });
  t.match(packed, { status: 1, stdout: '', stderr: said });
  t.same(readdirSync(place).sort(), ['c.yml', 'site'], 'no archive is left');
  t.equal(waybill(['pack', 'site', '--exclude', 'caf*'], { cwd: place }).status, 0);

  const { url } = await startDaemon(t, place, { TOKEN_CI: token });
  const run = (args: string[]): Ended =>
    waybill([...args, '--to', url], { cwd: place, env: { WAYBILL_TOKEN: token } });
  t.match(run(['push', 'site', '-p', 'site']), { status: 1, stdout: '', stderr: said });

  // As tar itself archives that directory.
  writeFileSync(path.join(site, 'manifest.json'), manifest(['index.html']));
  execFileSync('tar', ['-C', 'site', '-cf', 'gnu.tar', '--format=gnu', '.'], { cwd: place });
  execFileSync('tar', ['-C', 'site', '-cf', 'pax.tar', '--format=pax', '.'], { cwd: place });
  for (const archive of ['gnu.tar', 'pax.tar']) {
    t.match(run(['push', archive, '-p', 'site']), { status: 1, stdout: '', stderr: said }, archive);
    const response = await fetch(`${url}v1/pipelines/site/upload`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/x-tar' },
      body: readFileSync(path.join(place, archive)),
    });
    t.equal(response.status, 422);
    t.match(await response.json(), { code: 'unsafe_archive_entry', detail: said });
  }
  t.match(document(t, run(['runs', 'list', '--format', 'json'])), { runs: { length: 0 } });
  const staged = readdirSync(path.join(place, 'staging'), { recursive: true, encoding: 'utf8' });
  t.same(
    staged.filter((name) => /index\.html|manifest\.json/.test(name)),
    [],
    'no files of the uploads stay staged',
  );

  t.match(run(['push', 'site', '-p', 'site']), { status: 0, stderr: said }, 'an unlisted file is a warning');
  writeFileSync(path.join(site, 'manifest.json'), manifest(['index.html', 'café.txt']));
  const missing = run(['push', 'site', '-p', 'site']);
  t.match(missing, { status: 1, stdout: '', stderr: said });
  t.match(missing.stderr, /café\.txt.*is listed in the manifest but does not exist/);
});

t.test('warns about local names that are not UTF-8, and publishes the rest', async (t) => {
  const place = t.testdir({
    'c.yml': config,
    source: {
      good: { 'manifest.json': manifest(['a']), a: 'A' },
      bad: { 'manifest.json': manifest(['café.txt']) },
    },
  });
  const source = path.join(place, 'source');
  writeFileSync(latin1(path.join(source, 'good'), 'café.txt'), 'x');
  writeFileSync(latin1(path.join(source, 'bad'), 'café.txt'), 'x');
  const run = (args: string[] = []): Ended =>
    waybill(['run', '-c', 'c.yml', '--pipeline', 'mine', ...args], { cwd: place, env: { TOKEN_CI: token } });
  const ended = run();
  t.equal(ended.status, 1);
  t.match(`${ended.stdout}${ended.stderr}`, said);
  t.same(readdirSync(path.join(place, 'mine')), ['good']);

  mkdirSync(latin1(source, 'für alle'));
  writeFileSync(Buffer.concat([latin1(source, 'für alle'), Buffer.from('/manifest.json')]), manifest(['a']));
  const shown = document(t, run(['--format', 'json', '--dry-run'])) as {
    pipelines: { invalid_bundles: { bundle: string; error: { code: string; findings: unknown[] } }[] }[];
  };
  t.match(shown.pipelines[0]?.invalid_bundles, [
    {
      bundle: String.raw`f\xfcr alle`,
      error: {
        code: 'invalid_bundle',
        findings: [{ code: 'unsafe_bundle_path', message: /not UTF-8; rename it/ }],
      },
    },
    { bundle: 'bad', error: { code: 'invalid_bundle' } },
  ]);
});
