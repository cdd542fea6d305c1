import { mkdirSync, readdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/core/clock.ts';
import { mountLoopDisk, type LoopDisk } from '../services/loop-disk.ts';
import { generator, howMany, share } from '../support/sampling.ts';
import {
  allFinished,
  nothingStays,
  publishedEvents,
  startOf,
  untilAccepted,
  type Accepted,
  type Daemon,
} from './kept-runs.ts';
import { bundle, follow, launchApi, layOut, upload, type Place } from './processes.ts';

t.setTimeout(900_000);

/** The disk of an embedded queue stops to answer, or is full: uploads are refused, and nothing is lost. */

async function placeOnDisk(
  t: Test,
  pipelines: number,
): Promise<{ place: Place; disk: LoopDisk; queue: string }> {
  const events = '[bundle.published, bundle.publish_failed]';
  const notifiers = `[{id: journal, kind: file, path: ./events.jsonl, events: ${events}}]`;
  const place = layOut(t, { embedded: './queue', pipelines, notifiers });
  const queue = path.join(place.root, 'queue');
  mkdirSync(queue, { mode: 0o700 });
  const disk = await mountLoopDisk(t, {
    image: path.join(place.root, 'disk.img'),
    directory: queue,
    mebibytes: 24,
  });
  return { place, disk, queue };
}

t.test('a frozen disk refuses uploads, and holds up neither the others nor what runs', async (t) => {
  const { place, disk } = await placeOnDisk(t, 2);
  const daemon = await launchApi(t, place, ['serve']);
  const before = await untilAccepted(() => daemon.url, { name: 'before', pipeline: 'p1' });
  t.match(await follow(daemon.url, before), { status: 'succeeded' });
  disk.freeze();
  const refused = await upload(daemon.url, 'p1', bundle('frozen'), { 'idempotency-key': 'frozen' });
  t.equal(refused.status, 503);
  t.match(await refused.json(), { code: 'queue_unavailable', retryable: true });
  t.ok(Number(refused.headers.get('retry-after')) > 0);
  const health = await fetch(`${daemon.url}healthz`);
  t.match([health.status, await health.json()], [503, { code: 'queue_unavailable' }]);
  t.equal((await fetch(`${daemon.url}livez`)).status, 200, 'the process turns');
  t.match(await follow(daemon.url, before), { status: 'succeeded' }, 'and tells what it knows');
  disk.thaw();
  const again = await untilAccepted(() => daemon.url, { name: 'frozen', pipeline: 'p1' });
  t.match(await follow(daemon.url, again), { status: 'succeeded' });
  while ((await fetch(`${daemon.url}healthz`)).status !== 200) await systemClock.sleep(50);
  t.equal(await daemon.kill('SIGTERM'), 0);
});

const roundsOfAll = 12;
const rounds = howMany(roundsOfAll, 2);
const uploadsEach = 10;
const pipelines = 4;

t.test('kills while the disk is frozen or full: what was accepted is published and told', async (t) => {
  const { place, disk, queue } = await placeOnDisk(t, pipelines);
  const random = generator('kills on a frozen or full disk');
  const accepted: Accepted[] = [];
  let daemon: Daemon = await launchApi(t, place, ['serve']);
  const ballast = path.join(queue, 'ballast');
  let refused = 0;
  for (let round = 0; round < rounds; round += 1) {
    const uploads = Array.from({ length: uploadsEach }, async (_, index) => {
      const number = round * uploadsEach + index;
      const one = { name: `session-${number}`, pipeline: place.pipelines[number % pipelines] ?? '' };
      const run = await untilAccepted(
        () => daemon.url,
        one,
        () => void (refused += 1),
      );
      accepted.push({ ...one, run });
    });
    const isFrozen = round % 2 === 0;
    await systemClock.sleep(Math.floor(random() * 150));
    if (isFrozen) disk.freeze();
    else fill(ballast, queue);
    await systemClock.sleep(Math.floor(random() * 800));
    const killed = daemon.kill('SIGKILL');
    // A process that waits for the disk ends only then.
    if (isFrozen) disk.thaw();
    else rmSync(ballast);
    await killed;
    daemon = await launchApi(t, place, ['serve']);
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
  const told = publishedEvents(place);
  t.same(
    accepted.filter(({ run }) => !told.has(run)),
    [],
    'and told',
  );
  await nothingStays(t, place);
  t.same(readdirSync(path.join(place.root, 'staging')), []);
  t.comment(
    `${share(rounds, roundsOfAll)} rounds: ${accepted.length} accepted, ${refused} tries refused or cut`,
  );
});

/** Leaves no byte, however small what is written. */
function fill(ballast: string, directory: string): void {
  writeFileSync(ballast, '');
  for (;;) {
    const { bavail, bsize } = statfsSync(directory);
    if (bavail < 8) return;
    try {
      writeFileSync(ballast, Buffer.alloc(Math.max(1, bavail - 4) * bsize), { flag: 'a' });
    } catch {
      return;
    }
  }
}
