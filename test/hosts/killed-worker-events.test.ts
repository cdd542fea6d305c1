import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { Test } from 'tap';
import t from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import type { Event } from '../../src/core/notify/event.ts';
import { startReceiver } from '../core/notify/receiver.ts';
import { startRedis } from '../services/redis.ts';
import { generator, howMany, share } from '../support/sampling.ts';
import {
  acceptedId,
  bundle,
  follow,
  launchApi,
  launchWorker,
  layOut,
  type Place,
  upload,
} from './processes.ts';

t.setTimeout(0);

/** Kills workers of the queue in Redis with SIGKILL: no event of a publication is lost. */

const secret = `whsec_${Buffer.alloc(32, 'k').toString('base64')}`;

interface Hook {
  place: Place;
  received: Event[];
  /** Whether the receiver answers this event. If not, the sender waits. */
  answers: (event: Event) => boolean;
  /** Resolves once this many have arrived. */
  until: (count: number) => Promise<void>;
}

async function placeWithHook(t: Test, pipelines: number): Promise<Hook> {
  const redis = await startRedis();
  const waiting = new Set<() => void>();
  const hook: Hook = {
    place: { root: '', config: '', env: {}, pipelines: [] },
    received: [],
    answers: () => true,
    until: (count) =>
      new Promise((resolve) => {
        const look = (): void => {
          if (hook.received.length >= count) resolve();
        };
        waiting.add(look);
        look();
      }),
  };
  const { url } = await startReceiver(t, (response, _attempt, { event }) => {
    hook.received.push(event);
    for (const look of waiting) look();
    if (hook.answers(event)) response.writeHead(204).end();
  });
  const events = '[bundle.published, bundle.publish_failed]';
  const notifiers = `[{id: hook, kind: webhook, url: "${url}", secret_env: HOOK, timeout: 60s, events: ${events}}]`;
  hook.place = layOut(t, { redisUrl: redis.url, pipelines, notifiers, env: { HOOK: secret } });
  t.teardown(() => redis.close());
  return hook;
}

t.test('other workers deliver events of a worker killed before the receiver answered', async (t) => {
  const hook = await placeWithHook(t, 1);
  hook.answers = () => false;
  const api = await launchApi(t, hook.place);
  const worker = await launchWorker(t, hook.place);
  const run = await acceptedId(await upload(api.url, 'p1', bundle('one')));
  t.match(await follow(api.url, run), { status: 'succeeded' });
  await hook.until(1);
  await worker.kill('SIGKILL');
  hook.answers = () => true;
  // Only an API without workers is left.
  await hook.until(2);
  const [first, second] = hook.received;
  t.same(second, first, 'the same event, with its id');
  t.match(first, { type: 'bundle.published', data: { run_id: run } });
});

const uploadsOfAll = 120;
const uploads = howMany(uploadsOfAll, 24);
const kills = Math.max(2, Math.round(uploads / 10));

t.test('sends an event for every run, under one ID, after kills at random moments', async (t) => {
  const pipelines = 4;
  const hook = await placeWithHook(t, pipelines);
  const { place } = hook;
  const random = generator('kills of workers with events');
  const api = await launchApi(t, place);
  const workers = [await launchWorker(t, place), await launchWorker(t, place)];
  const runs: string[] = [];
  let published = 0;
  for (let number = 0; number < uploads; number += 1) {
    const pipeline = place.pipelines[number % pipelines] ?? '';
    runs.push(await acceptedId(await upload(api.url, pipeline, bundle(`session-${number}`, 2_000))));
    if ((number + 1) % Math.floor(uploads / kills) > 0) continue;
    published += 1;
    await Promise.race([hook.until(published), systemClock.sleep(2_000)]);
    await systemClock.sleep(Math.floor(random() * 100));
    const which = Math.floor(random() * workers.length);
    await workers[which]?.kill('SIGKILL');
    workers[which] = await launchWorker(t, place);
  }
  for (const [number, run] of runs.entries()) {
    t.match(await follow(api.url, run), { status: 'succeeded' }, run);
    const pipeline = place.pipelines[number % pipelines] ?? '';
    const file = path.join(place.root, 'public', pipeline, `session-${number}`, 'name.txt');
    t.equal(readFileSync(file, 'utf8'), `session-${number}`);
  }
  const of = (run: string): Event[] =>
    hook.received.filter(
      ({ type, data }) => type === 'bundle.published' && 'run_id' in data && data.run_id === run,
    );
  while (runs.some((run) => of(run).length === 0)) await systemClock.sleep(100);
  const several = runs.filter((run) => new Set(of(run).map(({ id }) => id)).size > 1);
  t.same(several, [], 'every duplicate has the same id');
  const twice = runs.filter((run) => of(run).length > 1).length;
  t.comment(`${share(uploads, uploadsOfAll)} uploads, ${kills} kills: all notified, ${twice} of them twice`);
});
