import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import type { Event } from '../../src/core/notify/event.ts';
import type { FailedDelivery } from '../../src/workers/queue/run-record.ts';
import { document, type Ended, program } from '../cli/process.ts';
import { startReceiver } from '../core/notify/receiver.ts';
import { startRedis } from '../services/redis.ts';
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

/** The built program in each queue mode: undelivered events are sent again. */

const secret = `whsec_${Buffer.alloc(32, 'k').toString('base64')}`;

interface Hook {
  url: string;
  /** Received events, with their responses. */
  received: { body: string; event: Event; status: number }[];
  /** Answers with this status from now on. Called for each event before the response is sent. */
  answer: (event: Event) => number;
}

async function startHook(t: Test): Promise<Hook> {
  const hook: Hook = { url: '', received: [], answer: () => 403 };
  const receiver = await startReceiver(t, (response, _attempt, { body, event }) => {
    const status = hook.answer(event);
    hook.received.push({ body, event, status });
    response.writeHead(status).end();
  });
  return Object.assign(hook, { url: receiver.url });
}

function placeFor(t: Test, hook: Hook, settings: Parameters<typeof layOut>[1]): Place {
  const notifiers = `[{id: hook, kind: webhook, url: "${hook.url}", secret_env: HOOK, events: [bundle.published]}]`;
  return layOut(t, { notifiers, ...settings, env: { HOOK: secret } });
}

async function command(place: Place, ...args: string[]): Promise<Ended> {
  return waybill(place, 'notify', ...args, '--config', place.config);
}

async function waybill(place: Place, ...args: string[]): Promise<Ended> {
  const child = spawn(process.execPath, [program, ...args], {
    env: { PATH: process.env['PATH'] ?? '', HOME: place.root, ...place.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr, [status]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number | null]>,
  ]);
  return { status, stdout, stderr };
}

interface Listed {
  notifiers: { notifier_id: string; configured: boolean; events: { event_id: string; run_id: string }[] }[];
}

/** Resolves to the IDs of undelivered events once there are this many. */
async function undelivered(t: Test, place: Place, url: string, count: number): Promise<string[]> {
  for (;;) {
    const ended = await command(place, 'undelivered', '--url', url, '--format', 'json');
    if (ended.status !== 0) throw new Error(ended.stderr);
    const { notifiers } = document(t, ended) as Listed;
    const ids = notifiers.flatMap(({ events }) => events.map(({ event_id: id }) => id));
    if (ids.length === count) return ids;
  }
}

async function publish(url: string, ...names: string[]): Promise<string[]> {
  const runs: string[] = [];
  for (const name of names) {
    const run = await acceptedId(await upload(url, 'p1', bundle(name)));
    await follow(url, run);
    runs.push(run);
  }
  return runs;
}

/** The failed deliveries in the record of a run, once they match. */
async function failedDeliveries(
  url: string,
  run: string,
  isIt: (list: FailedDelivery[]) => boolean,
): Promise<FailedDelivery[]> {
  for (;;) {
    const { failed_deliveries: list } = await follow(url, run);
    if (isIt(list)) return list;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

for (const driver of ['memory', 'embedded', 'bullmq'] as const)
  t.test(`undelivered events are listed and sent again (${driver})`, async (t) => {
    const hook = await startHook(t);
    const redis = driver === 'bullmq' ? await startRedis() : null;
    t.teardown(() => redis?.close());
    const place = placeFor(t, hook, {
      ...(redis === null ? {} : { redisUrl: redis.url }),
      ...(driver === 'embedded' ? { embedded: './queue' } : {}),
    });
    const api = await launchApi(t, place, driver === 'bullmq' ? undefined : ['serve']);
    if (driver === 'bullmq') await launchWorker(t, place);
    const [run = ''] = await publish(api.url, 'one', 'two', 'three');
    const ids = await undelivered(t, place, api.url, 3);
    const failed = await failedDeliveries(api.url, run, ([first]) => first?.status === 'given_up');
    t.match(failed, [{ notifier_id: 'hook', event_type: 'bundle.published', tries: 1 }]);
    t.match(failed, [{ event_id: ids[0], last_error: 'the receiver answered 403', next_try_at: null }]);
    const shown = await waybill(place, 'runs', 'show', run, '--to', api.url);
    t.match(shown.stdout, new RegExp(`✗ {2}hook {2}bundle\\.published ${ids[0]} {2}given up after 1 try`));
    const plain = await command(place, 'undelivered', '--url', api.url, '--notifier', 'hook');
    t.match(plain.stdout, /^hook {2}3 undelivered\n/);
    for (const id of ids)
      t.match(plain.stdout, new RegExp(`${id} .*bundle\\.published .*p1/web .*answered 403`));

    const bodies = new Map(hook.received.map(({ event, body }) => [event.id, body]));
    const refused = await command(place, 'redeliver', '--url', api.url);
    t.match(refused, { status: 1, stdout: /✗ {2}hook {2}0 delivered, 3 left .*answered 403/ });
    t.same(await undelivered(t, place, api.url, 3), ids);

    hook.answer = () => 204;
    const done = await command(place, 'redeliver', '--url', api.url, '--format', 'json');
    t.equal(done.status, 0, done.stderr);
    t.match(document(t, done), {
      kind: 'notify-redeliver',
      notifiers: [{ notifier_id: 'hook', delivered: 3, left: 0, ended: 'all_tried', failed: { length: 0 } }],
    });
    const taken = hook.received.filter(({ status }) => status === 204);
    t.same(
      taken.map(({ event, body }) => [event.id, body]),
      ids.map((id) => [id, bodies.get(id)]),
      'in order, byte for byte unchanged',
    );
    t.same(await undelivered(t, place, api.url, 0), []);
    const again = await failedDeliveries(api.url, run, ([first]) => first?.status === 'delivered');
    t.match(again, [{ event_id: ids[0], tries: 3, last_error: 'the receiver answered 403' }]);
    t.equal(again.length, 1);
    t.match(await command(place, 'redeliver', '--url', api.url, '--notifier', 'none'), {
      status: 2,
      stderr: /there is no notifier "none"/,
    });
  });

for (const driver of ['embedded', 'bullmq'] as const)
  t.test(`a kill during redelivery loses no events (${driver})`, async (t) => {
    const hook = await startHook(t);
    const redis = driver === 'bullmq' ? await startRedis() : null;
    t.teardown(() => redis?.close());
    const place = placeFor(t, hook, {
      ...(redis === null ? { embedded: './queue' } : { redisUrl: redis.url }),
    });
    const first = await launchApi(t, place, ['serve']);
    await publish(first.url, 'one', 'two', 'three');
    const ids = await undelivered(t, place, first.url, 3);
    const bodies = new Map(hook.received.map(({ event, body }) => [event.id, body]));

    const killed = new Promise<void>((resolve) => {
      hook.answer = ({ id }) => {
        if (id !== ids[1]) return 204;
        // It has received the event, but the daemon never gets the response.
        void first.kill('SIGKILL').then(() => resolve());
        return 204;
      };
    });
    const asked = fetch(`${first.url}v1/notifiers/hook/redeliver`, {
      method: 'POST',
      headers: { authorization: `Bearer ${place.env['TOKEN_ADMIN']}` },
    }).catch(() => null);
    await killed;
    await asked;

    hook.answer = () => 204;
    const second = await launchApi(t, place, ['serve']);
    for (;;) {
      const ended = await command(place, 'redeliver', '--url', second.url);
      if (ended.status === 0) break;
      // The claim of the killed process must expire first.
      if (!ended.stderr.includes('are already being redelivered')) throw new Error(ended.stderr);
      await new Promise((resolve) => setTimeout(resolve, 1_000));
    }
    const taken = hook.received.filter(({ status }) => status === 204);
    t.same([...new Set(taken.map(({ event }) => event.id))], ids, 'each arrived, in order');
    t.ok(taken.length > ids.length, 'the event in flight arrived twice');
    for (const { event, body } of taken) t.equal(body, bodies.get(event.id), 'with the same id and body');
  });
