import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { mountTmpfs } from '../services/tmpfs.ts';
import { acceptedId, bundle, follow, launchApi, layOut, upload, type Place } from './processes.ts';
import { stagedIn } from '../support/staged.ts';

/** A directory that holds no more than so many MiB. */
async function smallDisk(t: Test, { root }: Place, name: string, mebibytes: number): Promise<string> {
  const directory = path.join(root, name);
  mkdirSync(directory, { recursive: true });
  await mountTmpfs(t, directory, `${mebibytes}m`);
  return directory;
}

t.test(
  'a full staging disk is 507, leaves nothing there, and is over when there is room again',
  async (t) => {
    const place = layOut(t, {});
    const staging = await smallDisk(t, place, 'staging', 4);
    const daemon = await launchApi(t, place, ['serve']);
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      const response = await upload(daemon.url, 'p1', bundle('large', 6 << 20));
      t.equal(response.status, 507);
      const told = (await response.json()) as Record<string, unknown>;
      t.match(told, { code: 'insufficient_storage', retryable: true });
      t.notMatch(JSON.stringify(told), place.root, 'names no path of the host');
      t.same(stagedIn(staging), []);
    }
    const small = await acceptedId(await upload(daemon.url, 'p1', bundle('small', 1 << 20)));
    t.equal((await follow(daemon.url, small)).status, 'succeeded');
    execFileSync('mount', ['-o', 'remount,size=16m', staging]);
    const large = await acceptedId(await upload(daemon.url, 'p1', bundle('large', 6 << 20)));
    t.equal((await follow(daemon.url, large)).status, 'succeeded');
    t.equal(await daemon.kill('SIGTERM'), 0);
  },
);

t.test(
  'a full destination fails its run with the reason, keeps what was published, and the next run finishes',
  async (t) => {
    const place = layOut(t, {});
    const out = await smallDisk(t, place, 'public/p1', 4);
    const daemon = await launchApi(t, place, ['serve']);
    const run = async (body: Buffer): ReturnType<typeof follow> =>
      follow(daemon.url, await acceptedId(await upload(daemon.url, 'p1', body)));
    t.equal((await run(bundle('small', 1 << 20))).status, 'succeeded');
    const failed = await run(bundle('large', 6 << 20));
    t.match(failed, { status: 'failed', destinations: [{ error: { code: 'storage_full' } }] });
    t.ok(existsSync(path.join(out, 'small/data.bin')));
    execFileSync('mount', ['-o', 'remount,size=32m', out]);
    t.equal((await run(bundle('large', 6 << 20))).status, 'succeeded');
    t.same(
      readdirSync(out, { recursive: true, encoding: 'utf8' }).filter((name) =>
        /\.publisher\.(tmp|lock)/.test(name),
      ),
      [],
    );
    t.equal(await daemon.kill('SIGTERM'), 0);
  },
);

t.test(
  'a full disk of the queue is 507 and loses nothing, and is over when there is room again',
  async (t) => {
    const place = layOut(t, { embedded: './queue', pipelines: 2 });
    const queue = await smallDisk(t, place, 'queue', 1);
    let daemon = await launchApi(t, place, ['serve']);
    const taken: string[] = [];
    const refused: Response[] = [];
    for (let index = 0; refused.length < 3; index += 1) {
      if (index === 10) writeFileSync(path.join(queue, 'ballast'), Buffer.alloc(roomOn(queue)));
      const response = await upload(daemon.url, 'p1', bundle(`session-${index}`), {
        'idempotency-key': `k${index}`,
      });
      if (response.status === 202) taken.push(await acceptedId(response));
      else refused.push(response);
    }
    for (const response of refused) {
      t.equal(response.status, 507);
      t.ok(Number(response.headers.get('retry-after')) > 0);
      t.match(await response.json(), { code: 'insufficient_storage', retryable: true });
    }
    t.ok(taken.length >= 10);
    const health = await fetch(`${daemon.url}healthz`);
    t.match([health.status, await health.json()], [507, { code: 'insufficient_storage' }]);
    for (const run of taken) t.equal((await follow(daemon.url, run)).status, 'succeeded', 'work goes on');
    const key = { 'idempotency-key': `k${taken.length}` };
    rmSync(path.join(queue, 'ballast'));
    const again = await acceptedId(await upload(daemon.url, 'p1', bundle(`session-${taken.length}`), key));
    t.equal((await fetch(`${daemon.url}healthz`)).status, 200);
    await daemon.kill('SIGKILL');
    daemon = await launchApi(t, place, ['serve']);
    for (const run of [...taken, again]) t.equal((await follow(daemon.url, run)).status, 'succeeded');
    const staged = stagedIn(path.join(place.root, 'staging'));
    t.equal(staged.length, taken.length + 1, 'nothing is staged of those that were refused');
    t.equal(await daemon.kill('SIGTERM'), 0);
  },
);

t.test('files that are kept for later uploads make room for what needs it', async (t) => {
  const place = layOut(t, { server: 'rerun: {max_bundles: 0}' });
  const staging = await smallDisk(t, place, 'staging', 16);
  const daemon = await launchApi(t, place, ['serve']);
  const kept = async (): Promise<number> => {
    const metrics = await (await fetch(`${daemon.url}metrics`)).text();
    return Number(/^waybill_kept_files (\d+)$/m.exec(metrics)?.[1]);
  };
  const publish = async (name: string, bytes: number): Promise<void> => {
    const run = await acceptedId(await upload(daemon.url, 'p1', bundle(name, bytes)));
    t.equal((await follow(daemon.url, run)).status, 'succeeded');
  };
  for (const name of ['one', 'two', 'three']) await publish(name, 3 << 20);
  t.equal(await kept(), 6, 'of each the data and its name');
  writeFileSync(path.join(staging, 'theirs'), Buffer.alloc(roomOn(staging) - (1 << 20)));
  await publish('four', 100_000);
  t.ok((await kept()) < 8, 'what was of no use for longest is gone');
  t.ok(roomOn(staging) >= 0.1 * (16 << 20), `${roomOn(staging)} bytes are free`);
  t.equal(await daemon.kill('SIGTERM'), 0);
});

/** Bytes that still fit. */
function roomOn(directory: string): number {
  const { bavail, bsize } = statfsSync(directory);
  return bavail * bsize;
}
