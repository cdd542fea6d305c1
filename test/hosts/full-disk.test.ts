import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { RunRecord } from '../../src/workers/queue/run-record.ts';
import { mountTmpfs } from '../services/tmpfs.ts';
import { stagedIn } from '../support/staged.ts';
import {
  acceptedId,
  adminToken,
  bundle,
  follow,
  launchApi,
  layOut,
  type Place,
  token,
  upload,
} from './processes.ts';

/** A directory with space for this many MiB. */
async function smallDisk(t: Test, { root }: Place, name: string, mebibytes: number): Promise<string> {
  const directory = path.join(root, name);
  mkdirSync(directory, { recursive: true });
  await mountTmpfs(t, directory, `${mebibytes}m`);
  return directory;
}

t.test('a full staging disk is 507, leaves no files, and recovers when there is space again', async (t) => {
  const place = layOut(t, {});
  const staging = await smallDisk(t, place, 'staging', 24);
  const daemon = await launchApi(t, place, ['serve']);
  for (let attempt = 1; attempt <= 3; attempt += 1) {
    const response = await upload(daemon.url, 'p1', bundle('large', 30 << 20));
    t.equal(response.status, 507);
    const body = (await response.json()) as Record<string, unknown>;
    t.match(body, { code: 'insufficient_storage', retryable: true });
    t.notMatch(JSON.stringify(body), place.root, 'names no path of the host');
    t.same(stagedIn(staging), []);
  }
  const small = await acceptedId(await upload(daemon.url, 'p1', bundle('small', 1 << 20)));
  t.equal((await follow(daemon.url, small)).status, 'succeeded');
  execFileSync('mount', ['-o', 'remount,size=80m', staging]);
  const large = await acceptedId(await upload(daemon.url, 'p1', bundle('large', 30 << 20)));
  t.equal((await follow(daemon.url, large)).status, 'succeeded');
  t.equal(await daemon.kill('SIGTERM'), 0);
});

t.test(
  'answers 507 below 16 MiB of space, publishes accepted uploads, and accepts more afterwards',
  async (t) => {
    const place = layOut(t, { embedded: './queue' });
    const staging = await smallDisk(t, place, 'staging', 32);
    const steer = async (what: 'pause' | 'resume'): Promise<void> => {
      const headers = { authorization: `Bearer ${adminToken}` };
      const { status } = await fetch(`${daemon.url}v1/pipelines/p1/${what}`, { method: 'POST', headers });
      t.equal(status, 200);
    };
    let daemon = await launchApi(t, place, ['serve']);
    await steer('pause');
    const taken = [await acceptedId(await upload(daemon.url, 'p1', bundle('before')))];
    const ballast = path.join(staging, 'theirs');
    writeFileSync(ballast, Buffer.alloc(roomOn(staging) - (15 << 20)));
    // Disk space is checked once a second.
    while ((await fetch(`${daemon.url}readyz`)).status === 200) await sleep(50);
    const { checks } = (await (await fetch(`${daemon.url}readyz`)).json()) as { checks: object[] };
    t.match(
      checks.find((check) => 'name' in check && check.name === 'room'),
      { state: 'failing', code: 'insufficient_storage' },
    );
    let refused = await upload(daemon.url, 'p1', bundle('small'));
    for (; refused.status === 202; refused = await upload(daemon.url, 'p1', bundle('small')))
      taken.push(await acceptedId(refused));
    t.equal(refused.status, 507);
    t.equal(refused.headers.get('retry-after'), '60');
    t.match(await refused.json(), { code: 'insufficient_storage', retryable: true });
    const tus = { 'tus-resumable': '1.0.0', 'upload-length': '1000', authorization: `Bearer ${token}` };
    const begun = await fetch(`${daemon.url}v1/pipelines/p1/uploads`, { method: 'POST', headers: tus });
    t.equal(begun.status, 507, 'an upload in several requests is not started either');
    t.equal(stagedIn(staging).filter((name) => name.startsWith('upload-')).length, taken.length);

    await daemon.kill('SIGKILL');
    daemon = await launchApi(t, place, ['serve']);
    await steer('resume');
    for (const run of taken)
      t.equal((await follow(daemon.url, run)).status, 'succeeded', 'with or without space');
    t.equal((await upload(daemon.url, 'p1', bundle('small'))).status, 507);
    rmSync(ballast);
    let again = await upload(daemon.url, 'p1', bundle('after'));
    while (again.status === 507) again = await upload(daemon.url, 'p1', bundle('after'));
    t.equal((await follow(daemon.url, await acceptedId(again))).status, 'succeeded');
    t.equal((await fetch(`${daemon.url}readyz`)).status, 200);
    t.equal(await daemon.kill('SIGTERM'), 0);
  },
);

t.test(
  'a full destination keeps the published files, and its run is published when there is space',
  async (t) => {
    const place = layOut(t, {});
    const out = await smallDisk(t, place, 'public/p1', 4);
    const daemon = await launchApi(t, place, ['serve']);
    const accept = async (body: Buffer): Promise<string> => acceptedId(await upload(daemon.url, 'p1', body));
    t.equal((await follow(daemon.url, await accept(bundle('small', 1 << 20)))).status, 'succeeded');
    const large = await accept(bundle('large', 6 << 20));
    const recorded = async (): Promise<RunRecord> =>
      (await (await fetch(`${daemon.url}runs/${large}`)).json()) as RunRecord;
    let record = await recorded();
    while (record.last_error === null) record = await recorded();
    t.match(record, { status: /queued|running/, last_error: { code: 'storage_full', retryable: true } });
    t.ok(existsSync(path.join(out, 'small/data.bin')));
    execFileSync('mount', ['-o', 'remount,size=32m', out]);
    t.equal((await follow(daemon.url, large)).status, 'succeeded');
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
  'a full disk of the queue is 507 and loses nothing, and recovers when there is space again',
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
    for (const run of taken)
      t.equal((await follow(daemon.url, run)).status, 'succeeded', 'the daemon continues');
    const key = { 'idempotency-key': `k${taken.length}` };
    rmSync(path.join(queue, 'ballast'));
    const again = await acceptedId(await upload(daemon.url, 'p1', bundle(`session-${taken.length}`), key));
    t.equal((await fetch(`${daemon.url}healthz`)).status, 200);
    await daemon.kill('SIGKILL');
    daemon = await launchApi(t, place, ['serve']);
    for (const run of [...taken, again]) t.equal((await follow(daemon.url, run)).status, 'succeeded');
    const staged = (): number => stagedIn(path.join(place.root, 'staging')).length;
    // The files of rejected uploads, and of the killed process, are removed while runs go on.
    while (staged() > taken.length + 1) await sleep(50);
    t.equal(staged(), taken.length + 1, 'no files of rejected uploads are staged');
    t.equal(await daemon.kill('SIGTERM'), 0);
  },
);

t.test('removes files stored for later uploads if space is needed', async (t) => {
  const place = layOut(t, { server: 'rerun: {max_bundles: 0}' });
  const staging = await smallDisk(t, place, 'staging', 48);
  const daemon = await launchApi(t, place, ['serve']);
  const kept = async (): Promise<number> => {
    const metrics = await (await fetch(`${daemon.url}metrics`)).text();
    return Number(/^waybill_kept_files (\d+)$/m.exec(metrics)?.[1]);
  };
  const publish = async (name: string, bytes: number): Promise<void> => {
    const run = await acceptedId(await upload(daemon.url, 'p1', bundle(name, bytes)));
    t.equal((await follow(daemon.url, run)).status, 'succeeded');
    // Until its staged files are removed, after the run, they share their space with the stored ones.
    while (stagedIn(staging).some((name) => name.startsWith('upload-'))) await sleep(50);
  };
  for (const name of ['one', 'two', 'three']) await publish(name, 3 << 20);
  t.equal(await kept(), 6, 'for each, the data and its name');
  const leaveFree = (name: string, bytes: number): void =>
    writeFileSync(path.join(staging, name), Buffer.alloc(roomOn(staging) - bytes));
  leaveFree('theirs', 17 << 20);
  await publish('four', 2 << 20);
  t.ok((await kept()) < 8, 'the least recently used files are removed');
  t.ok(roomOn(staging) >= 16 << 20, `${roomOn(staging)} bytes are free`);
  t.ok((await kept()) > 0, 'but no more than that');
  leaveFree('theirs too', 12 << 20);
  // The last check of the disk is valid for this long.
  await sleep(2_000);
  await publish('five', 1000);
  t.equal(await kept(), 2, 'all of it is removed before an upload is rejected');
  t.equal(await daemon.kill('SIGTERM'), 0);
});

/** The number of bytes that still fit. */
function roomOn(directory: string): number {
  const { bavail, bsize } = statfsSync(directory);
  return bavail * bsize;
}
