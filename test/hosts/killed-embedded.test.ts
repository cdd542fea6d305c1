import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import { generator, howMany, share } from '../support/sampling.ts';
import {
  type Accepted,
  allFinished,
  type Daemon,
  linesOf,
  nothingStays,
  publishedEvents,
  startOf,
  untilAccepted,
} from './kept-runs.ts';
import { launchApi, layOut } from './processes.ts';

/**
 * Kills the daemon with an embedded queue repeatedly with SIGKILL while it receives and publishes, at random
 * times after one of its 202s. No accepted upload and no event is lost.
 */

const pipelines = 4;
const uploadsOfAll = 500;
const uploads = howMany(uploadsOfAll, 40);
const uploadsAtOnce = 8;
/** The total number of kills. `WAYBILL_KILLS=500` has one for each upload. */
const killsOfAll = Number(process.env['WAYBILL_KILLS'] ?? 24);

t.test('every accepted upload is published once, in order, after any number of kills', async (t) => {
  t.setTimeout(600_000 + killsOfAll * 5_000);
  const place = layOut(t, {
    embedded: './queue',
    pipelines,
    notifiers:
      '[{id: journal, kind: file, path: ./events.jsonl, events: [bundle.published, bundle.publish_failed]}]',
  });
  const kills = Math.max(3, Math.round((killsOfAll * uploads) / uploadsOfAll));
  const random = generator('kills of the embedded queue');
  const accepted: Accepted[] = [];
  let daemon: Daemon = await launchApi(t, place, ['serve']);
  const isDone = (): boolean => accepted.length === uploads;
  let onAccepted = (): void => undefined;

  let next = 0;
  const client = async (): Promise<void> => {
    for (let number = next++; number < uploads; number = next++) {
      const one = { name: `session-${number}`, pipeline: place.pipelines[number % pipelines] ?? '' };
      const run = await untilAccepted(() => daemon.url, one);
      accepted.push({ ...one, run });
      onAccepted();
    }
  };
  const killer = async (): Promise<number> => {
    let killed = 0;
    while (killed < kills) {
      const after = Math.ceil((uploads / kills) * (killed + random()));
      while (accepted.length < after && !isDone())
        await new Promise<void>((resolve) => (onAccepted = resolve));
      if (random() < 0.5) await untilOneIsPublished(daemon);
      await systemClock.sleep(Math.floor(random() * 30));
      await daemon.kill('SIGKILL');
      killed += 1;
      // With hundreds of kills, the runner needs signs of progress.
      if (killed % 25 === 0) t.comment(`${killed} kills, ${accepted.length} accepted`);
      daemon = await launchApi(t, place, ['serve']);
    }
    return killed;
  };
  const killing = killer();
  await Promise.all(Array.from({ length: uploadsAtOnce }, client));
  onAccepted();
  const killed = await killing;

  const records = await allFinished(daemon, place);
  t.equal(accepted.length, uploads);
  const byId = new Map(records.map((record) => [record.run_id, record]));
  const wrong = accepted.filter(({ run }) => byId.get(run)?.status !== 'succeeded');
  t.same(
    wrong.map((one) => ({ ...one, record: byId.get(one.run) })),
    [],
    'every one succeeded',
  );
  for (const pipeline of place.pipelines) {
    const own = records.filter(({ pipeline_id: id }) => id === pipeline);
    t.same(own.map(startOf), own.map(startOf).toSorted(), `${pipeline}: in the order of acceptance`);
  }
  const unread = accepted.filter(
    ({ name, pipeline }) =>
      readFileSync(path.join(place.root, 'public', pipeline, name, 'name.txt'), 'utf8') !== name,
  );
  t.same(unread, []);
  t.equal(await daemon.kill('SIGTERM'), 0);
  const notified = publishedEvents(place);
  t.same(
    accepted.filter(({ run }) => !notified.has(run)),
    [],
    'and notified',
  );
  await nothingStays(t, place);
  t.comment(
    `report: ${share(uploads, uploadsOfAll)} uploads over ${killed} kills: all published, ${notified.size} notified, ${linesOf(place).length - notified.size} of them twice`,
  );
});

/** Until this daemon has finished a run, so that kills hit all work after a start. */
async function untilOneIsPublished({ url }: Daemon): Promise<void> {
  for (;;) {
    const metrics = await (await fetch(`${url}metrics`)).text();
    if (/^waybill_runs_total\{.*\} [1-9]/m.test(metrics)) return;
    if (!/^waybill_queue_depth\{state="(queued|running)"\} [1-9]/m.test(metrics)) return;
    await systemClock.sleep(10);
  }
}
