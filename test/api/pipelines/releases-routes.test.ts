import { mkdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { GetObjectCommand } from '@aws-sdk/client-s3';
import t, { type Test } from 'tap';
import { type RunningServer, serve } from '../../../src/cli/daemon/serve.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import type { RunRecord } from '../../../src/workers/queue/run-record.ts';
import { manifest } from '../../cli/process.ts';
import { startRadosgw } from '../../services/radosgw.ts';
import { startRedis } from '../../services/redis.ts';
import { startSshd } from '../../services/sshd.ts';

/** The whole daemon: its threads read releases on real storages, and switch between them. */

const redis = await startRedis();
t.teardown(() => redis.close());
const sshd = await startSshd(t);
const radosgw = await startRadosgw(t);
const bucket = await radosgw.newBucket();

/** The settings of the destination, and access to it as a reader. */
interface World {
  destination: string;
  readers: (base: string) => Readers;
  /** A line of `server`. */
  queue: string;
}

interface Readers {
  /** The id of the release that `current`, or a channel, points to. */
  release: (bundle: string, pointer: string) => Promise<string>;
  /** The page of the bundle `b` at the destination. */
  page: (pointer: string) => Promise<string>;
}

const sftp = `backend: sftp, host: ${sshd.host}, port: ${sshd.port}, user: ${sshd.user}, path: "${sshd.root}/out", ssh_key_file: "${sshd.clientKeyFile}", known_hosts_file: "${sshd.knownHostsFile}"`;
const local = 'backend: local, path: ./out';
const s3 = `backend: s3, endpoint: "${radosgw.endpoint}", bucket: ${bucket}, prefix: out, access_key_id_env: S3_KEY, secret_access_key_env: S3_SECRET`;
const queues = {
  memory: 'queue: {driver: memory}',
  embedded: 'queue: {driver: embedded, directory: ./queue}',
  redis: 'queue: {driver: bullmq, redis_url_env: REDIS, prefix: releases}',
};
const here = (base: string): Readers => inDirectory(path.join(base, 'out'));
const worlds: Record<string, World> = {
  'local, queue in memory': { destination: local, readers: here, queue: queues.memory },
  'SFTP, embedded queue': {
    ...{ destination: sftp, readers: () => inDirectory(path.join(sshd.root, 'out')) },
    queue: queues.embedded,
  },
  'S3, queue in memory': { destination: s3, readers: inBucket, queue: queues.memory },
  'local, queue in Redis': { destination: local, readers: here, queue: queues.redis },
};

/** Links are followed, as by a web server. */
function inDirectory(directory: string): Readers {
  return {
    release: async (bundle, pointer) => path.basename(readlinkSync(path.join(directory, bundle, pointer))),
    page: async (pointer) => readFileSync(path.join(directory, 'b', pointer, 'index.html'), 'utf8'),
  };
}

/** `current.json` is followed, as in `docs/releases.md`. */
function inBucket(): Readers {
  const client = radosgw.client();
  const read = async (key: string): Promise<string> => {
    const { Body: body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: `out/${key}` }));
    return body?.transformToString() ?? '';
  };
  const directoryOf = async (bundle: string, pointer: string): Promise<string> => {
    const { current, channels } = JSON.parse(await read(`${bundle}/current.json`)) as {
      current: string;
      channels: Record<string, { release: string }>;
    };
    return pointer === 'current' ? current : (channels[pointer]?.release ?? 'nowhere');
  };
  return {
    release: async (bundle, pointer) => path.posix.basename(await directoryOf(bundle, pointer)),
    page: async (pointer) => read(`b/${await directoryOf('b', pointer)}/index.html`),
  };
}

const tokens = {
  all: 'a-token-that-may-do-all-of-it',
  reads: 'a-token-that-may-only-read',
  other: 'a-token-of-another-pipeline',
  admin: 'a-token-of-the-administrator',
};

interface Place {
  at: (...names: string[]) => string;
  /** The current release for readers or of a channel. */
  page: (pointer?: string) => Promise<string>;
  /** Adds the n-th bundle to the source and publishes it. Returns the id of its release. */
  publish: (n: number, to?: { bundle?: string; channel?: string }) => Promise<string>;
  run: (query?: string) => Promise<RunRecord>;
  ask: (rest: string, init?: RequestInit & { token?: string }) => Promise<Answer>;
}

interface Answer {
  status: number;
  headers: Headers;
  body: Record<string, unknown>;
}

async function start(t: Test, { destination, readers, queue }: World): Promise<Place> {
  const base = t.testdir({ source: {} });
  const at = (...names: string[]): string => path.join(base, ...names);
  writeFileSync(
    at('c.yml'),
    `upload_tokens:
  - {id: all, value_env: ALL, pipelines: [maps]}
  - {id: wall, value_env: READS, pipelines: [maps], scopes: [read]}
  - {id: other, value_env: OTHER, pipelines: [others]}
server:
  http: {listen: "127.0.0.1:0"}
  admin_token_env: ADMIN
  staging: {directory: ./staging}
  ${queue}
notifiers: [{id: log, kind: file, path: ./events.jsonl, events: [release.activated, release.rolled_back]}]
pipelines:
  - id: maps
    source: {backend: local, path: ./source}
    destinations:
      - {id: site, ${destination}, workflow: replacement, layout: releases, releases: {channels: {preview: {ttl: 7d}}}}
      - {id: plain, backend: local, path: ./plain}
  - {id: others, source: {backend: local, path: ./source}, destinations: [{id: web, backend: local, path: ./web}]}
`,
  );
  const env = { ALL: tokens.all, READS: tokens.reads, OTHER: tokens.other, ADMIN: tokens.admin };
  const served: RunningServer = await serve({
    configFile: at('c.yml'),
    log: silentLog,
    env: {
      ...{ ...env, HOME: base, REDIS: redis.url },
      ...{ S3_KEY: radosgw.user.accessKeyId, S3_SECRET: radosgw.user.secretAccessKey },
    },
  });
  t.teardown(() => served.close());
  const ask: Place['ask'] = async (rest, { token = tokens.all, ...init } = {}) => {
    const response = await fetch(`${served.url}v1/pipelines/${rest}`, {
      ...init,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    });
    const { status, headers } = response;
    return { status, headers, body: (await response.json()) as Answer['body'] };
  };
  const run = async (query = ''): Promise<RunRecord> => {
    const { body } = await ask(`maps/runs${query}`, { method: 'POST' });
    return (await (await fetch(`${served.url}runs/${String(body['run_id'])}?wait=60`)).json()) as RunRecord;
  };
  const { page, release } = readers(base);
  return {
    ...{ at, ask, run },
    page: (pointer = 'current') => page(pointer),
    async publish(n, { bundle = 'b', channel } = {}) {
      rmSync(at('source', bundle), { recursive: true, force: true });
      mkdirSync(at('source', bundle), { recursive: true });
      const listed = manifest(['index.html'], `2026-11-2${n}T00:00:00Z`);
      writeFileSync(at('source', bundle, 'manifest.json'), listed);
      writeFileSync(at('source', bundle, 'index.html'), `version ${n}`);
      const query = channel === undefined ? '' : `?channel=${channel}`;
      t.match(await run(query), { status: 'succeeded', channel: channel ?? null });
      return release(bundle, channel ?? 'current');
    },
  };
}

const releases = 'maps/destinations/site/releases';
const post = (body?: object): RequestInit => ({
  method: 'POST',
  ...(body === undefined ? {} : { body: JSON.stringify(body) }),
});

for (const [name, world] of Object.entries(worlds))
  t.test(`${name}: listed, promoted, rolled back, and repeated`, async (t) => {
    const { at, page, publish, run, ask } = await start(t, world);
    t.match(await ask(releases), { status: 200, body: { paths: { length: 0 } } }, 'nothing yet');
    t.match(await ask(`${releases}/x/activate`, post()), { status: 404, body: { code: 'not_published' } });
    const [first, second] = [await publish(1), await publish(2)];

    t.match(await ask(releases, { token: tokens.reads }), {
      status: 200,
      body: {
        ...{
          schema_version: 1,
          kind: 'releases',
          pipeline_id: 'maps',
          destination_id: 'site',
          warnings: { length: 0 },
        },
        paths: [
          {
            ...{ destination_path: 'b', current: second, foreign_target: null },
            releases: [
              { id: second, is_current: true, outputs: 1, bytes: 9, bundle: { path: 'b' } },
              { id: first, is_current: false, is_last_good: true },
            ],
          },
        ],
      },
    });
    t.match(await ask(`${releases}?path=none`), { body: { paths: [{ releases: { length: 0 } }] } });

    const dry = await ask(`${releases}/${first}/activate?dry_run=true`, post({ rollback: true }));
    const done = { kind: 'release-switch', destination_path: 'b', from: second, to: first, is_changed: true };
    t.match(dry, { status: 200, body: { ...done, dry_run: true, action: 'rollback' } });
    t.equal(await page(), 'version 2', 'a dry run changes nothing');
    const back = await ask(`${releases}/${first}/activate`, post({ rollback: true }));
    t.match(back, { status: 200, body: { ...done, dry_run: false, action: 'rollback', error: null } });
    t.equal(await page(), 'version 1');
    const again = await ask(`${releases}/${first}/activate?path=b`, post({ rollback: true }));
    t.match(again, { status: 200, body: { from: first, to: first, is_changed: false } });
    t.match(await run(), { destinations: [{ action: 'skip_same', release: second }, {}] });
    t.equal(await page(), 'version 1', 'it stays rolled back');

    const forward = await ask(`${releases}/${second}/activate`, { ...post(), token: tokens.admin });
    t.match(forward, { status: 200, body: { action: 'promote', from: first, to: second } });
    t.equal(await page(), 'version 2');

    const third = await publish(3, { channel: 'preview' });
    t.same([await page('preview'), await page()], ['version 3', 'version 2'], 'each has its own');
    const looked = await ask(releases);
    t.match(looked.body, { paths: [{ current: second, channels: [{ name: 'preview', release: third }] }] });
    const given = await ask(`${releases}/${third}/activate`, post());
    t.match(given, { status: 200, body: { from: second, to: third } });
    t.equal(await page(), 'version 3', 'results are shared');

    const events = (): { type: string; data: object }[] =>
      readFileSync(at('events.jsonl'), 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as { type: string; data: object });
    while (events().length < 3) await new Promise((resolve) => setTimeout(resolve, 20));
    const about = { pipeline_id: 'maps', destination_id: 'site', destination_path: 'b' };
    t.same(
      events().map(({ type, data }) => ({ type, data })),
      [
        { type: 'release.rolled_back', data: { ...about, release: first, previous: second } },
        { type: 'release.activated', data: { ...about, release: second, previous: first } },
        { type: 'release.activated', data: { ...about, release: third, previous: second } },
      ],
      'one for each switch, and none without a change',
    );
  });

t.test('reports impossible requests with a suggestion', async (t) => {
  const { at, page, publish, ask } = await start(t, worlds['local, queue in memory'] as World);
  const [first, second] = [await publish(1), await publish(2)];
  const refused = async (rest: string, status: number, code: string, hint?: RegExp): Promise<void> => {
    const answer = await ask(rest, rest.includes('activate') ? post() : {});
    t.match(answer, { status, body: { status, code, ...(hint === undefined ? {} : { hint }) } }, rest);
    t.equal(answer.headers.get('content-type'), 'application/problem+json', rest);
    t.notMatch(JSON.stringify(answer.body), at(), 'no local path');
  };
  await refused('maps/destinations/sit/releases', 404, 'destination_not_found', /did you mean "site"\?/);
  await refused('maps/destinations/plain/releases', 409, 'no_releases', /layout: releases/);
  await refused(`maps/destinations/plain/releases/${first}/activate`, 409, 'no_releases');
  await refused('map/destinations/site/releases', 404, 'pipeline_not_found');
  await refused(`${releases}/${first.slice(0, -1)}/activate`, 404, 'release_not_found', new RegExp(first));
  await refused(`${releases}?path=../etc`, 400, 'invalid_request');
  await refused(`${releases}/${first}/activate?force=true`, 400, 'invalid_request');
  const another = await ask(releases, { token: tokens.other });
  t.match(another, { status: 403, body: { code: 'forbidden' } });
  const reader = await ask(`${releases}/${first}/activate`, { ...post(), token: tokens.reads });
  t.match(reader, { status: 403, body: { code: 'insufficient_scope' } });
  t.match(reader.headers.get('www-authenticate'), /scope="releases"/);

  await publish(3, { bundle: 'c' });
  await refused(`${releases}/${first}/activate`, 400, 'bundle_path_needed', /--path b \| c/);
  const paths = [{ destination_path: 'b' }, { destination_path: 'c' }];
  t.match(await ask(releases), { status: 200, body: { paths } });

  rmSync(at('out', 'b', 'releases', first, 'index.html'));
  await refused(`${releases}/${first}/activate?path=b`, 409, 'release_unusable', /waybill verify --repair/);
  rmSync(at('out', 'b', '.publisher.releases.json'));
  writeFileSync(at('out', 'b', '.publisher.releases.json'), 'edited');
  await refused(releases, 409, 'state_conflict', /restore it from a backup/);
  await refused(`${releases}/${second}/activate?path=b`, 409, 'state_conflict');
  t.equal(await page(), 'version 2', 'the release for readers is unchanged');
});
