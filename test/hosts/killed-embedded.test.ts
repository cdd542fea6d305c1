import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { systemClock } from '../../src/core/clock.ts';
import type { RunRecord } from '../../src/workers/run-record.ts';
import { generator, howMany, share } from '../support/sampling.ts';
import { acceptedId, bundle, launchApi, layOut, upload, type Launched, type Place } from './processes.ts';
import { stagedIn } from '../support/staged.ts';

/**
 * The daemon with an embedded queue, killed with SIGKILL again and again while it receives and publishes: at
 * a random moment after one of its 202s. Nothing that was accepted is lost, and neither is an event.
 */

const pipelines = 4;
const uploadsOfAll = 500;
const uploads = howMany(uploadsOfAll, 40);
const uploadsAtOnce = 8;
/** Kills of the whole campaign; `WAYBILL_KILLS=500` has one after each upload. */
const killsOfAll = Number(process.env['WAYBILL_KILLS'] ?? 24);

type Daemon = Launched & { url: string };

/** What clients know: which uploads were answered 202, in the order of the answers. */
interface Accepted {
  name: string;
  pipeline: string;
  run: string;
}

t.test('every upload that was accepted is published once, in its order, however often', async (t) => {
  t.setTimeout(600_000);
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
    while (killed < kills && !isDone()) {
      const after = Math.ceil((uploads / kills) * (killed + random()));
      while (accepted.length < after && !isDone())
        await new Promise<void>((resolve) => (onAccepted = resolve));
      if (random() < 0.5) await untilOneIsPublished(daemon);
      await systemClock.sleep(Math.floor(random() * 30));
      await daemon.kill('SIGKILL');
      killed += 1;
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
  const told = publishedEvents(place);
  t.same(
    accepted.filter(({ run }) => !told.has(run)),
    [],
    'and told',
  );
  await nothingStays(t, place);
  t.comment(
    `told: ${share(uploads, uploadsOfAll)} uploads over ${killed} kills: all published, ${told.size} told, ${linesOf(place).length - told.size} of them twice`,
  );
});

/** Repeats the upload with its key until it is accepted, over the ends of daemons. */
async function untilAccepted(
  url: () => string,
  { name, pipeline }: { name: string; pipeline: string },
): Promise<string> {
  for (;;) {
    const response = await upload(url(), pipeline, bundle(name, 2_000), { 'idempotency-key': name }).catch(
      () => null,
    );
    if (response?.status === 202) {
      const run = await acceptedId(response).catch(() => null);
      if (run !== null) return run;
    }
    await response?.arrayBuffer().catch(() => undefined);
    await systemClock.sleep(20);
  }
}

/** Until this daemon has brought a run to its end, so that kills hit all that comes after a start. */
async function untilOneIsPublished({ url }: Daemon): Promise<void> {
  for (;;) {
    const metrics = await (await fetch(`${url}metrics`)).text();
    if (/^waybill_runs_total\{.*\} [1-9]/m.test(metrics)) return;
    if (!/^waybill_queue_depth\{state="(queued|running)"\} [1-9]/m.test(metrics)) return;
    await systemClock.sleep(10);
  }
}

/** The records of all runs, each pipeline's in the order of acceptance, once all are over. */
async function allFinished({ url }: Daemon, { pipelines: ids }: Place): Promise<RunRecord[]> {
  for (;;) {
    const pages = await Promise.all(
      ids.map(async (id) => {
        const headers = { authorization: 'Bearer the-token-of-ci' };
        const response = await fetch(`${url}v1/pipelines/${id}/runs?limit=500`, { headers });
        return ((await response.json()) as { runs: RunRecord[] }).runs.toReversed();
      }),
    );
    const records = pages.flat();
    if (records.every(({ finished_at: at }) => at !== null)) return records;
    await systemClock.sleep(100);
  }
}

function startOf({ started_at: at }: RunRecord): string {
  return at ?? '';
}

function linesOf({ root }: Place): { id: string; type: string; data: { run_id: string } }[] {
  const file = path.join(root, 'events.jsonl');
  const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : [];
  // A line that a kill cut short is followed by the whole one.
  return lines.flatMap((line) => {
    const begin = line.lastIndexOf('{"id":');
    try {
      return [JSON.parse(line.slice(begin)) as { id: string; type: string; data: { run_id: string } }];
    } catch {
      return [];
    }
  });
}

/** The runs that `bundle.published` was told of. */
function publishedEvents(place: Place): Set<string> {
  return new Set(
    linesOf(place).flatMap(({ type, data }) => (type === 'bundle.published' ? [data.run_id] : [])),
  );
}

/** With a retention that is over, the next start forgets every run, and what is staged goes with it. */
async function nothingStays(t: { equal: (a: unknown, b: unknown) => unknown }, place: Place): Promise<void> {
  const yaml = readFileSync(place.config, 'utf8');
  writeFileSync(place.config, yaml.replace('queue_size: 200,', 'queue_size: 200, retention: 1s,'));
  const daemon = await launchApi({ teardown: () => undefined }, place, ['serve']);
  while (stagedIn(path.join(place.root, 'staging')).length > 0) await systemClock.sleep(50);
  t.equal(await daemon.kill('SIGTERM'), 0);
}
