import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import * as tar from 'tar';
import { type RunningServer, serve } from '../../src/cli/daemon/serve.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import type { RunRecord } from '../../src/workers/queue/run-record.ts';
import { document, waybill } from '../cli/process.ts';
import { stagedIn } from '../support/staged.ts';

const token = 'the-token-of-ci-on-this-host';

function temporaryDirectory(t: Test): string {
  const directory = mkdtempSync(path.join(tmpdir(), 'waybill-serve-'));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** A directory with a configuration of one upload pipeline and one local destination, `public`. */
function configure(
  t: Test,
  http = 'listen: "127.0.0.1:0"',
  queue = 'driver: memory',
): { root: string; configFile: string } {
  const root = temporaryDirectory(t);
  const configFile = path.join(root, 'waybill.yaml');
  const yaml = `
upload_tokens: [{id: ci, value_env: TOKEN_CI, pipelines: [maps]}]
server:
  http: {${http}}
  staging: {directory: ./staging}
  queue: {${queue}}
pipelines:
  - id: maps
    source: {backend: http_upload, max_upload_size: 1MiB, max_files: 5}
    destinations: [{id: web, backend: local, path: ./public}]
`;
  writeFileSync(configFile, yaml);
  mkdirSync(path.join(root, 'public'));
  return { root, configFile };
}

async function start(t: Test, http?: string): Promise<{ served: RunningServer; root: string }> {
  const { root, configFile } = configure(t, http);
  const served = await serve({ configFile, log: silentLog, env: { TOKEN_CI: token, HOME: root } });
  t.teardown(() => served.close());
  return { served, root };
}

function upload(
  served: RunningServer,
  body: Uint8Array<ArrayBuffer>,
  headers: Record<string, string> = {},
  query = '',
): Promise<Response> {
  return fetch(`${served.url}v1/pipelines/maps/upload${query}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/x-tar', ...headers },
    body,
  });
}

async function follow(served: RunningServer, response: Response): Promise<RunRecord> {
  const url = new URL(response.headers.get('location') ?? '', served.url);
  for (;;) {
    const run = (await (await fetch(url)).json()) as RunRecord;
    if (run.finished_at !== null) return run;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** A tar of `files` and a manifest that lists `listed`. */
async function archive(
  t: Test,
  files: Record<string, string>,
  listed: object[] | string[] = Object.keys(files),
  name = 'session-42',
) {
  const directory = temporaryDirectory(t);
  const manifest = { schema_version: 1, name, created: '2026-11-20T01:02:03Z', files: listed };
  writeFileSync(path.join(directory, 'manifest.json'), JSON.stringify(manifest));
  for (const [name, text] of Object.entries(files)) writeFileSync(path.join(directory, name), text);
  return tarOf(directory, ['manifest.json', ...Object.keys(files)]);
}

async function extract(bundle: Uint8Array<ArrayBuffer>, cwd: string): Promise<void> {
  await pipeline(Readable.from([Buffer.from(bundle)]), tar.extract({ cwd }));
}

async function tarOf(cwd: string, names: string[]): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Buffer[] = [];
  for await (const chunk of tar.create({ cwd, portable: true }, names)) chunks.push(chunk);
  return new Uint8Array(Buffer.concat(chunks));
}

t.test('a dry run of an upload is the plan of `run --dry-run`, and leaves no files', async (t) => {
  const files = { 'scenes.json': '{}', 'notes.txt': 'hello' };
  const { served, root } = await start(t);
  let kept: string[] = [];
  const plan = async (bundle: Uint8Array<ArrayBuffer>): Promise<Planned> => {
    const response = await upload(served, bundle, { 'idempotency-key': 'k' }, '?dry_run=true');
    t.equal(response.status, 200);
    t.same(stagedIn(path.join(root, 'staging')), kept);
    return (await response.json()) as Planned;
  };
  const first = await plan(await archive(t, files));
  t.same(readdirSync(path.join(root, 'public')), [], 'nothing was published');
  const listed = await fetch(`${served.url}v1/pipelines/maps/runs`, {
    headers: { authorization: `Bearer ${token}` },
  });
  t.same(await listed.json(), { runs: [], next: null, paused: null }, 'there is no run');

  // The same bundle, published from a source by the command line.
  const source = path.join(root, 'incoming/session-42');
  mkdirSync(source, { recursive: true });
  await extract(await archive(t, files), source);
  const configFile = path.join(root, 'files.yaml');
  writeFileSync(
    configFile,
    'pipelines: [{id: maps, source: {backend: local, path: ./incoming}, destinations: [{id: web, backend: local, path: ./public}]}]',
  );
  const printed = waybill(['run', '--dry-run', '--format', 'json', '--config', configFile]);
  const expected = document(t, printed) as Planned;
  const [destination] = expected.pipelines[0]?.destinations ?? [];
  t.equal(destination?.location, path.join(root, 'public'));
  if (destination !== undefined) destination.location = '<path>';
  t.same(first, expected);

  const published = await follow(
    served,
    await upload(served, await archive(t, { ...files, 'notes.txt': 'changed' }), { 'idempotency-key': 'k' }),
  );
  t.match(published, { status: 'succeeded' }, 'the key was not used');
  kept = stagedIn(path.join(root, 'staging'));
  const second = await plan(await archive(t, files));
  t.match(second.pipelines[0]?.destinations[0]?.actions[0], {
    action: 'upsert_additive',
    changes: [
      { path: 'notes.txt', fate: 'change' },
      { path: 'scenes.json', fate: 'keep' },
    ],
  });
  t.equal(readFileSync(path.join(root, 'public/session-42/notes.txt'), 'utf8'), 'changed');
  mkdirSync(path.join(root, 'public/session-43'));
  writeFileSync(path.join(root, 'public/session-43/diary.txt'), 'not yours');
  const refused = await plan(await archive(t, files, Object.keys(files), 'session-43'));
  t.match(refused, { counters: { fail_unmanaged: 1, failed_destinations: 1 } });
  t.match(refused.pipelines[0]?.destinations[0]?.actions[0], {
    action: 'fail_unmanaged',
    error: { code: 'unmanaged_content' },
  });
  t.notMatch(JSON.stringify(refused), root, 'no host path is reported');
});

t.test('a key also identifies bytes for which the manifest declares no digest', async (t) => {
  const { served } = await start(t);
  const key = { 'idempotency-key': 'k' };
  const first = await upload(served, await archive(t, { 'notes.txt': 'hello' }), key);
  t.equal(first.status, 202);
  const other = await upload(served, await archive(t, { 'notes.txt': 'other' }), key);
  t.equal(other.status, 409);
  t.match(await other.json(), { code: 'idempotency_conflict' });
  const again = await upload(served, await archive(t, { 'notes.txt': 'hello' }), key);
  t.equal(again.headers.get('idempotency-replayed'), 'true');
  t.same(await again.json(), await first.json());
});

t.test('republishes a failed upload under its key on request', async (t) => {
  const { served, root } = await start(t);
  const key = { 'idempotency-key': 'k' };
  const place = path.join(root, 'public/session-42');
  mkdirSync(place);
  writeFileSync(path.join(place, 'diary.txt'), 'not yours');
  const bundle = await archive(t, { 'notes.txt': 'hello' });
  const failed = await follow(served, await upload(served, bundle, key));
  t.match(failed, { status: 'failed', destinations: [{ action: 'fail_unmanaged' }] });
  rmSync(place, { recursive: true });
  t.match(
    await follow(served, await upload(served, bundle, key)),
    { run_id: failed.run_id },
    'the first answer',
  );
  const response = await upload(served, bundle, key, '?rerun_failed=true');
  t.notOk(response.headers.has('idempotency-replayed'));
  const rerun = await follow(served, response);
  t.match(rerun, { status: 'succeeded', destinations: [{ action: 'publish_new' }] });
  t.not(rerun.run_id, failed.run_id);
  const replayed = await upload(served, bundle, key, '?rerun_failed=true');
  t.equal(replayed.headers.get('idempotency-replayed'), 'true', 'successful runs are not repeated');
});

interface Planned {
  counters: object;
  pipelines: { destinations: { location: string; actions: object[] }[] }[];
}

t.test('publishes an upload, reports it in the run, and closes without leftovers in staging', async (t) => {
  const bundle = await archive(t, { 'scenes.json': '{}', 'notes.txt': 'hello' });
  const { served, root } = await start(t);
  const response = await upload(served, new Uint8Array(gzipSync(bundle)), {
    'content-type': 'application/gzip',
  });
  t.equal(response.status, 202);
  t.match(await follow(served, response), {
    status: 'succeeded',
    error: null,
    summary: { publish_new: 1, failed_destinations: 0 },
    destinations: [
      {
        destination_id: 'web',
        action: 'publish_new',
        destination_path: 'session-42',
        outputs_written: 2,
        outputs_kept: 0,
        bytes_written: 7,
      },
    ],
  });
  t.equal(readFileSync(path.join(root, 'public/session-42/notes.txt'), 'utf8'), 'hello');
  t.ok(existsSync(path.join(root, 'public/session-42/.publisher.json')));
  const again = await follow(served, await upload(served, bundle));
  t.match(
    again,
    {
      status: 'succeeded',
      destinations: [{ action: 'skip_same', outputs_written: 0, outputs_kept: 2, bytes_kept: 7 }],
    },
    'the same bundle as a plain tar counts as equal',
  );
  t.equal(stagedIn(path.join(root, 'staging')).length, 2);
  t.same(await served.close(), { unfinished: [] });
  t.same(stagedIn(path.join(root, 'staging')), []);
});

t.test('a key is compared by the manifest, not by the bytes of the archive', async (t) => {
  const { served } = await start(t);
  const headers = { 'idempotency-key': 'k' };
  const first = await upload(served, await archive(t, { 'a.txt': 'a', 'b.txt': 'b' }), headers);
  const reordered = await archive(t, { 'b.txt': 'b', 'a.txt': 'a' });
  const again = await upload(served, new Uint8Array(gzipSync(reordered)), {
    ...headers,
    'content-type': 'application/gzip',
  });
  t.equal(again.headers.get('idempotency-replayed'), 'true');
  t.same(await again.json(), await first.json());
  const other = await upload(served, await archive(t, { 'a.txt': 'a' }), headers);
  t.equal(other.status, 409);
});

t.test('an incomplete bundle gets no run id and leaves no files', async (t) => {
  const { served, root } = await start(t);
  const good = await archive(t, { 'a.txt': 'a'.repeat(2_000) });
  const linked = temporaryDirectory(t);
  writeFileSync(path.join(linked, 'manifest.json'), '{"created":"2026-11-20T01:02:03Z","files":["a.txt"]}');
  symlinkSync('/etc/passwd', path.join(linked, 'a.txt'));
  const bare = temporaryDirectory(t);
  writeFileSync(path.join(bare, 'a.txt'), 'a');
  const wrongDigest = [{ path: 'a.txt', digest: `sha256:${'0'.repeat(64)}` }];
  const gzip = { 'content-type': 'application/gzip' };
  const manyFiles = Object.fromEntries(Array.from({ length: 9 }, (_, n) => [`${n}.txt`, 'x']));
  const cases: [string, Uint8Array<ArrayBuffer>, number, string, Record<string, string>?][] = [
    ['no body', new Uint8Array(0), 400, 'malformed_archive'],
    ['not a tar', new Uint8Array(Buffer.from('this is no archive'.repeat(100))), 400, 'malformed_archive'],
    ['cut short', good.slice(0, 2_000), 400, 'malformed_archive'],
    ['gzip cut short', new Uint8Array(gzipSync(good)).slice(0, 60), 400, 'malformed_archive', gzip],
    ['too many files', await archive(t, manyFiles), 413, 'too_many_files'],
    [
      'extracts to too much',
      new Uint8Array(gzipSync(await archive(t, { 'a.txt': 'ab'.repeat(1024 * 1024) }))),
      413,
      '',
      gzip,
    ],
    ['a link', await tarOf(linked, ['manifest.json', 'a.txt']), 422, 'unsafe_archive_entry'],
    ['a file missing', await archive(t, { 'a.txt': 'a' }, ['a.txt', 'b.txt']), 422, 'invalid_bundle'],
    ['a wrong digest', await archive(t, { 'a.txt': 'a' }, wrongDigest), 422, 'invalid_bundle'],
    [
      'an invalid scene map',
      await archive(t, { 'm.json': '{\n"artifact_type": 4}' }, [{ path: 'm.json', kind: 'scene_map' }]),
      422,
      'invalid_bundle',
    ],
    ['no manifest', await tarOf(bare, ['a.txt']), 422, 'invalid_bundle'],
  ];
  for (const [name, body, status, code, headers] of cases) {
    const response = await upload(served, body, headers);
    const text = await response.text();
    t.equal(response.status, status, `${name}: ${text}`);
    t.match(text, `"code":"${code}`, name);
    t.notMatch(text, /run_id|"stack"|waybill-serve-/, name);
    if (name === 'an invalid scene map') t.match(text, '"pointer":"/artifact_type","line":2');
  }
  t.same(stagedIn(path.join(root, 'staging')), []);
});

t.test('fails the run if a destination rejects, and reveals no local path in the record', async (t) => {
  const { served, root } = await start(t);
  mkdirSync(path.join(root, 'public/session-42'));
  writeFileSync(path.join(root, 'public/session-42/theirs.txt'), 'theirs');
  const run = await follow(served, await upload(served, await archive(t, { 'a.txt': 'a' })));
  t.match(run, {
    status: 'failed',
    summary: { fail_unmanaged: 1, failed_destinations: 1 },
    destinations: [{ action: 'fail_unmanaged' }],
  });
  rmSync(path.join(root, 'public'), { recursive: true });
  writeFileSync(path.join(root, 'public'), 'a file where a directory should be');
  const broken = await follow(served, await upload(served, await archive(t, { 'a.txt': 'a' })));
  t.match(broken, { status: 'failed', destinations: [{ destination_id: 'web', action: 'error' }] });
  t.notMatch(JSON.stringify([run, broken]), root);
  t.notMatch(JSON.stringify([run, broken]), token);
  t.equal(stagedIn(path.join(root, 'staging')).length, 2, 'the bundles of failed runs are deleted as well');
  await served.close();
  t.same(stagedIn(path.join(root, 'staging')), []);
});

t.test('after the retention, the record and its staged bundle are gone', async (t) => {
  const { served, root } = await start(t, 'listen: "127.0.0.1:0", retention: 1s');
  const response = await upload(served, await archive(t, { 'a.txt': 'a' }));
  const url = new URL(response.headers.get('location') ?? '', served.url);
  let status = 200;
  for (; status === 200; status = (await fetch(url)).status)
    await new Promise((resolve) => setImmediate(resolve));
  t.equal(status, 404);
  while (stagedIn(path.join(root, 'staging')).length > 0)
    await new Promise((resolve) => setImmediate(resolve));
  t.equal(readFileSync(path.join(root, 'public/session-42/a.txt'), 'utf8'), 'a', 'published files stay');
});

t.test('a start sweeps staged files of earlier processes', async (t) => {
  const { root, configFile } = configure(t);
  const left = path.join(root, 'staging/upload-0123456789abcdef');
  mkdirSync(left, { recursive: true });
  const urls: string[] = [];
  const served = await serve({
    configFile,
    log: silentLog,
    env: { TOKEN_CI: token },
    onListening: (url) => urls.push(url),
  });
  t.teardown(() => served.close());
  t.notOk(existsSync(left));
  t.same(urls, [served.url]);
  t.equal((await fetch(`${served.url}healthz`)).status, 200);
});

t.test('reports an invalid setup before it starts, and closes its listeners', async (t) => {
  const good = configure(t);
  const fails = (
    configFile: string,
    expected: { code: string; message?: RegExp },
    env: NodeJS.ProcessEnv = { TOKEN_CI: token },
  ) => t.rejects(serve({ configFile, log: silentLog, env }), expected);
  await fails(path.join(good.root, 'none.yaml'), { code: 'config_unreadable' });
  await fails(good.configFile, { code: 'secrets_invalid', message: /TOKEN_CI/ }, {});

  const blocked = configure(t);
  writeFileSync(path.join(blocked.root, 'staging'), 'a file where a directory should be');
  await fails(blocked.configFile, { code: 'config_invalid', message: /server\.staging\.directory/ });

  const { served, root } = await start(t);
  await upload(served, await archive(t, { 'a.txt': 'a' }));
  const { host } = new URL(served.url);
  const second = configure(t, `listen: "${host}"`);
  rmSync(path.join(second.root, 'staging'), { recursive: true, force: true });
  symlinkSync(path.join(root, 'staging'), path.join(second.root, 'staging'));
  await fails(second.configFile, { code: 'config_invalid', message: /cannot listen/ });
  t.equal(stagedIn(path.join(root, 'staging')).length, 1, 'the daemon that uses the address is not affected');
});
