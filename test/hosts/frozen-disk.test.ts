import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import { type LoopDisk, mountLoopDisk } from '../services/loop-disk.ts';
import { generator, howMany, share } from '../support/sampling.ts';
import { stagedIn } from '../support/staged.ts';
import {
  type Accepted,
  allFinished,
  type Daemon,
  nothingStays,
  publishedEvents,
  startOf,
  untilAccepted,
} from './kept-runs.ts';
import { bundle, follow, launchApi, layOut, type Place, token, upload } from './processes.ts';

t.setTimeout(0);

/** The disk of an embedded queue stops answering, or is full: uploads are rejected, and nothing is lost. */

const events = '[bundle.published, bundle.publish_failed]';
const notifiers = `[{id: journal, kind: file, path: ./events.jsonl, events: ${events}}]`;

async function diskAt(t: Test, { root }: Place, name: string): Promise<LoopDisk> {
  const directory = path.join(root, name);
  mkdirSync(directory);
  return mountLoopDisk(t, { directory, mebibytes: 32 });
}

t.test('a frozen disk rejects uploads, and does not delay other requests or runs', async (t) => {
  const place = layOut(t, { embedded: './disk/queue', notifiers });
  const disk = await diskAt(t, place, 'disk');
  const daemon = await launchApi(t, place, ['serve'], disk.through);
  const before = await untilAccepted(() => daemon.url, { name: 'before', pipeline: 'p1' });
  t.match(await follow(daemon.url, before), { status: 'succeeded' });
  await disk.freeze();
  const refused = await upload(daemon.url, 'p1', bundle('frozen'), { 'idempotency-key': 'frozen' });
  t.equal(refused.status, 503);
  t.match(await refused.json(), { code: 'queue_unavailable', retryable: true });
  t.ok(Number(refused.headers.get('retry-after')) > 0);
  const health = await fetch(`${daemon.url}healthz`);
  t.match([health.status, await health.json()], [503, { code: 'queue_unavailable' }]);
  t.equal((await fetch(`${daemon.url}livez`)).status, 200, 'the process is alive');
  t.match(await follow(daemon.url, before), { status: 'succeeded' }, 'and reports its last known state');
  await disk.thaw();
  const again = await untilAccepted(() => daemon.url, { name: 'frozen', pipeline: 'p1' });
  t.match(await follow(daemon.url, again), { status: 'succeeded' });
  while ((await fetch(`${daemon.url}healthz`)).status !== 200) await systemClock.sleep(50);
  t.equal(await daemon.kill('SIGTERM'), 0);
});

t.test('affects only callers that need the frozen staging disk, and loses nothing', async (t) => {
  const staging = '{directory: ./disk/staging}';
  const place = layOut(t, { embedded: './disk/queue', staging, notifiers });
  const disk = await diskAt(t, place, 'disk');
  const daemon = await launchApi(t, place, ['serve'], disk.through);
  const before = await untilAccepted(() => daemon.url, { name: 'before', pipeline: 'p1' });
  t.match(await follow(daemon.url, before), { status: 'succeeded' });

  const archive = bundle('half', 200_000);
  const half = new TransformStream<Uint8Array, Uint8Array>();
  const writer = half.writable.getWriter();
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/x-tar' };
  const inFlight = fetch(`${daemon.url}v1/pipelines/p1/upload`, {
    method: 'POST',
    headers: { ...headers, 'idempotency-key': 'half' },
    body: half.readable,
    duplex: 'half',
  });
  await writer.write(archive.subarray(0, 100_000));
  const received = async (): Promise<boolean> =>
    readdirSync(disk.seen(path.join(place.root, 'disk/staging')), { recursive: true }).some((name) =>
      String(name).endsWith('data.bin'),
    );
  while (!(await received())) await systemClock.sleep(20);

  await disk.freeze();
  const sent = writer.write(archive.subarray(100_000)).then(() => writer.close());
  const names = ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight'];
  const others = names.map((name) =>
    upload(daemon.url, 'p1', bundle(name, 100_000), { 'idempotency-key': name }),
  );
  // One after another. A process that waits for the disk would never answer.
  for (let look = 0; look < 20; look += 1) {
    t.equal((await fetch(`${daemon.url}livez`)).status, 200, 'the process is alive');
    t.match(await follow(daemon.url, before), { status: 'succeeded' }, 'and reports its last known state');
    await systemClock.sleep(50);
  }
  const refusals = await Promise.all([inFlight, ...others]);
  for (const refused of refusals) {
    t.equal(refused.status, 503);
    t.match(await refused.json(), { code: 'staging_unavailable', retryable: true });
    t.ok(Number(refused.headers.get('retry-after')) > 0);
  }
  await sent.catch(() => undefined);
  const health = await fetch(`${daemon.url}healthz`);
  t.match([health.status, await health.json()], [503, { retryable: true }]);
  t.equal((await upload(daemon.url, 'p1', bundle('late'))).status, 503, 'no caller waits for it again');
  t.equal((await fetch(`${daemon.url}livez`)).status, 200);

  await disk.thaw();
  const all = ['half', ...names, 'late'];
  const runs = await Promise.all(
    all.map((name) => untilAccepted(() => daemon.url, { name, pipeline: 'p1' })),
  );
  for (const run of runs) t.match(await follow(daemon.url, run), { status: 'succeeded' });
  while ((await fetch(`${daemon.url}healthz`)).status !== 200) await systemClock.sleep(50);
  t.equal(
    stagedIn(disk.seen(path.join(place.root, 'disk/staging'))).length,
    runs.length + 1,
    'no files of rejected uploads are staged',
  );
  t.equal(await daemon.kill('SIGTERM'), 0);
});

const roundsOfAll = 8;
const rounds = howMany(roundsOfAll, 2);
const uploadsEach = 8;
const pipelines = 4;

t.test(
  'publishes and reports accepted runs after kills with a frozen or full disk of queue and staging',
  async (t) => {
    const staging = '{directory: ./disk/staging}';
    const place = layOut(t, { embedded: './disk/queue', staging, pipelines, notifiers });
    const disk = await diskAt(t, place, 'disk');
    const random = generator('kills on a frozen or full disk');
    const accepted: Accepted[] = [];
    const launch = (): Promise<Daemon> => launchApi(t, place, ['serve'], disk.through);
    let daemon = await launch();
    let refused = 0;
    for (let round = 0; round < rounds; round += 1) {
      const uploads = Array.from({ length: uploadsEach }, async (_, index) => {
        const number = round * uploadsEach + index;
        const one = { name: `session-${number}`, pipeline: place.pipelines[number % pipelines] ?? '' };
        const onRefused = (): void => void (refused += 1);
        const run = await untilAccepted(() => daemon.url, one, onRefused);
        accepted.push({ ...one, run });
      });
      const isFrozen = round % 2 === 0;
      await systemClock.sleep(Math.floor(random() * 100));
      await (isFrozen ? disk.freeze() : disk.fill());
      await systemClock.sleep(Math.floor(random() * 500));
      const killed = daemon.kill('SIGKILL');
      // Only now does a process end that waits for the disk.
      await (isFrozen ? disk.thaw() : disk.clear());
      await killed;
      daemon = await launch();
      await Promise.all(uploads);
    }
    const records = await allFinished(daemon, place);
    const byId = new Map(records.map((record) => [record.run_id, record]));
    t.equal(accepted.length, rounds * uploadsEach);
    for (const { run, name, pipeline } of accepted) {
      t.equal(byId.get(run)?.status, 'succeeded', run);
      t.equal(readFileSync(path.join(place.root, 'public', pipeline, name, 'name.txt'), 'utf8'), name);
    }
    for (const pipeline of place.pipelines) {
      const own = records.filter(({ pipeline_id: id }) => id === pipeline).map(startOf);
      t.same(own, own.toSorted(), `${pipeline}: in the order of acceptance`);
    }
    t.equal(await daemon.kill('SIGTERM'), 0);
    const notified = publishedEvents(place);
    t.same(
      accepted.filter(({ run }) => !notified.has(run)),
      [],
      'and notified',
    );
    await nothingStays(t, place, {
      staging: disk.seen(path.join(place.root, 'disk/staging')),
      through: disk.through,
    });
    t.comment(
      `report: ${share(rounds, roundsOfAll)} kills on a frozen or full disk: ${accepted.length} uploads accepted and published, ${refused} attempts rejected or disconnected`,
    );
  },
);
