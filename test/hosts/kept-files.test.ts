import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { connect, type MissingPart, type PushOutcome } from '../../src/client/client.ts';
import { allocatedBytes } from '../../src/workers/staging/content-files.ts';
import { startRedis } from '../services/redis.ts';
import { howMany, sampleOf } from '../support/sampling.ts';
import { stagedIn } from '../support/staged.ts';
import { launchApi, launchWorker, layOut, type Place, type PlaceSettings, token } from './processes.ts';

/** Stored files of uploads in daemons, in all modes of the queue, with kills at any time. */

const modes = ['memory', 'embedded', 'bullmq'] as const;
const count = 20;
const fileBytes = 30_000;

async function settingsOf(t: Test, mode: (typeof modes)[number]): Promise<PlaceSettings> {
  if (mode === 'memory') return {};
  if (mode === 'embedded') return { embedded: './queue' };
  const redis = await startRedis();
  t.teardown(() => redis.close());
  return { redisUrl: redis.url, queue: ', scratch_directory: ./scratch' };
}

async function start(t: Test, place: Place, mode: (typeof modes)[number]): ReturnType<typeof launchApi> {
  return launchApi(t, place, mode === 'bullmq' ? undefined : ['serve']);
}

/** Pushes, with retries while the daemon is unreachable. */
async function push(
  url: string,
  site: string,
  onPart?: (part: MissingPart) => void,
  signal?: AbortSignal,
): Promise<PushOutcome & { parts: MissingPart[] }> {
  const parts: MissingPart[] = [];
  const patience = { baseMs: 10, capMs: 100, forMs: 60_000, tries: 5 };
  const client = connect({ url, token, patience, ...(signal === undefined ? {} : { signal }) });
  const outcome = await client.push('p1', site, {
    name: 'site',
    onPart(part) {
      parts.push(part);
      onPart?.(part);
    },
  });
  return { ...outcome, parts };
}

const change = (site: string, index: number): void =>
  writeFileSync(path.join(site, `file-${index}`), randomBytes(fileBytes));

function isPublished({ root }: Place, site: string): boolean {
  return readdirSync(site).every((name) =>
    readFileSync(path.join(site, name)).equals(readFileSync(path.join(root, 'public/p1/site', name))),
  );
}

/** The size of the stored files on the disk. */
function kept(directory: string): number {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(path.join(entry.parentPath, entry.name)).size, 0);
}

for (const mode of modes)
  t.test(`only changed files are sent, also after a kill (${mode})`, async (t) => {
    const place = layOut(t, await settingsOf(t, mode));
    const site = t.testdir({});
    for (let index = 0; index < count; index += 1) change(site, index);
    let api = await start(t, place, mode);
    if (mode === 'bullmq') await launchWorker(t, place);

    t.match(await push(api.url, site), { run: { status: 'succeeded' }, parts: { length: 0 } });
    t.ok(isPublished(place, site));
    const content = path.join(place.root, mode === 'bullmq' ? 'scratch' : 'staging', 'content');
    t.equal(kept(content), count * fileBytes);
    change(site, 1);
    t.match(await push(api.url, site), {
      run: { status: 'succeeded' },
      parts: [{ files: 1, ofFiles: count }],
    });
    t.ok(isPublished(place, site));

    await api.kill('SIGKILL');
    api = await start(t, place, mode);
    change(site, 2);
    const after = await push(api.url, site);
    t.match(after, { run: { status: 'succeeded' }, parts: [{ files: 1, ofFiles: count }] });
    t.ok(isPublished(place, site));

    await api.kill('SIGTERM');
    api = await start(t, place, mode);
    change(site, 3);
    t.match((await push(api.url, site)).parts, [{ files: 1 }]);
    t.ok(isPublished(place, site));
    t.match(await (await fetch(`${api.url}metrics`)).text(), /^waybill_kept_files 23$/m);
  });

t.test('a daemon killed while it stores and completes bundles keeps only complete files', async (t) => {
  const place = layOut(t, { embedded: './queue' });
  const site = t.testdir({});
  for (let index = 0; index < count; index += 1) change(site, index);
  let api = await start(t, place, 'embedded');
  await push(api.url, site);
  // Before the archive is sent, while it is received, and while it is completed.
  for (const kill of sampleOf([0, 1, 2, 3, 4, 5], 3, 'kills of a daemon that keeps')) {
    change(site, kill);
    const wait = kill * 15;
    const over = new AbortController();
    const kill9 = (): void => void setTimeout(() => void api.child.kill('SIGKILL'), wait);
    const pushing = push(api.url, site, kill9, over.signal).catch(() => undefined);
    await new Promise((resolve) => api.child.once('exit', resolve));
    // The next daemon listens on another port.
    over.abort();
    await pushing;
    api = await start(t, place, 'embedded');
    t.match(await push(api.url, site), { run: { status: 'succeeded' } }, `kill ${kill}`);
    t.ok(isPublished(place, site), `kill ${kill}`);
  }
  change(site, 9);
  t.match((await push(api.url, site)).parts, [{ files: 1 }]);
});

const allUploads = 200;

t.test('concurrent uploads store no more than the limit, and leave no other files', async (t) => {
  const uploads = howMany(allUploads, 40);
  const maxBytes = 4 << 20;
  const pipelines = 2;
  const place = layOut(t, { pipelines, staging: `{directory: ./staging, keep: {size: ${maxBytes}}}` });
  const api = await launchApi(t, place, ['serve']);
  const staging = path.join(place.root, 'staging');
  const client = connect({
    ...{ url: api.url, token },
    patience: { baseMs: 20, capMs: 200, forMs: 600_000, tries: 1000 },
  });
  const sites = Array.from({ length: uploads }, () => {
    const site = mkdtempSync(path.join(place.root, 'site-'));
    for (let index = 0; index < 4; index += 1) change(site, index);
    return site;
  });
  const watch = watching(path.join(staging, 'content'));
  let parts = 0;
  const pushOne = async (site: string, index: number): Promise<void> => {
    const pipeline = `p${1 + (index % pipelines)}`;
    const options = { name: path.basename(site), onPart: () => void (parts += 1) };
    await client.push(pipeline, site, { ...options, wait: false });
    change(site, 0);
    const { run } = await client.push(pipeline, site, options);
    if (run?.status !== 'succeeded') t.fail(`upload ${index} ended as ${run?.status}`);
  };
  await Promise.all(sites.map(pushOne));
  const { most, looks } = await watch.end();
  t.ok(looks > 1);
  t.ok(parts > 0, 'some were sent partially');
  for (const [pipeline, bytes] of most) t.ok(bytes <= maxBytes, `${pipeline}: ${bytes} bytes at most`);
  t.equal(most.size, pipelines);
  const metrics = await (await fetch(`${api.url}metrics`)).text();
  const keptBytes = Number(/^waybill_kept_files_bytes (\d+)$/m.exec(metrics)?.[1]);
  t.ok(keptBytes > maxBytes && keptBytes <= pipelines * maxBytes, `${keptBytes} bytes are kept`);
  const maxKept = Math.max(...most.values());
  const peak =
    Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${api.child.pid}/status`, 'utf8'))?.[1]) / 1024;
  t.comment(
    `report: ${uploads} concurrent uploads, twice, ${parts} of them partial: at most ${maxKept} bytes stored of ${maxBytes}, the daemon at most ${Math.round(peak)} MiB`,
  );
  t.equal(await api.kill('SIGTERM'), 0);
  t.same(stagedIn(staging), []);
  t.ok(roomTaken(path.join(staging, 'content')) <= pipelines * maxBytes);
});

const roomTaken = (directory: string): number =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce(
      (sum, { parentPath, name }) => sum + allocatedBytes(statSync(path.join(parentPath, name)).size),
      0,
    );

/** Measures the stored size of each pipeline in a loop. */
function watching(content: string): { end: () => Promise<{ most: Map<string, number>; looks: number }> } {
  const most = new Map<string, number>();
  let [looks, isOver] = [0, false];
  const looking = (async () => {
    while (!isOver) {
      await new Promise((resolve) => setTimeout(resolve, 5));
      for (const pipeline of existsSync(content) ? readdirSync(content) : [])
        try {
          if (pipeline.endsWith('.sock')) continue;
          most.set(pipeline, Math.max(most.get(pipeline) ?? 0, roomTaken(path.join(content, pipeline))));
          looks += 1;
        } catch (error) {
          // The file may be deleted meanwhile.
          if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
        }
    }
  })();
  return {
    end: async () => {
      isOver = true;
      await looking;
      return { most, looks };
    },
  };
}
