import { existsSync, readdirSync, readFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import { startRedis } from '../services/redis.ts';
import { isExhaustive, seed, share } from '../support/sampling.ts';
import { stagedIn } from '../support/staged.ts';
import {
  acceptedId,
  bundle,
  follow,
  launchApi,
  type Launched,
  layOut,
  type Place,
  token,
  upload,
} from './processes.ts';

/**
 * Kills the daemon with SIGKILL in each phase of an upload, with the queue in memory, on disk and in Redis.
 * Afterwards, the client's retry with its key, or the daemon itself, leads to the same result without
 * leftovers.
 */

const name = 'session-42';
const key = { 'idempotency-key': 'once' };
/** Large enough that its run is still active during the next step. */
const content = bundle(name, 24 << 20);

type Daemon = Launched & { url: string };

interface Scene {
  t: Test;
  place: Place;
  daemon: Daemon;
  hook: Receiver;
}

interface Reached {
  /** The run that was accepted before the kill. */
  run?: string;
  /** Another bundle that is being published. Its client sends it again, too. */
  other?: Buffer;
}

/** Each function brings the daemon to its phase. */
const phases: Record<string, (scene: Scene) => Promise<Reached>> = {
  async 'the body is arriving'({ t, place, daemon }) {
    await halfAnUpload(t, daemon, 100);
    await until(() => received(place).length > 0);
    return {};
  },
  async 'its files are being staged'({ t, place, daemon }) {
    await halfAnUpload(t, daemon, 4 << 20);
    await until(() => received(place).some((file) => file.endsWith('data.bin')));
    return {};
  },
  async 'it was just accepted'({ daemon }) {
    return { run: await acceptedId(await upload(daemon.url, 'p1', content, key)) };
  },
  async 'it waits behind another'({ daemon }) {
    // If it ended before it was observed, it was too fast to wait behind, so the next one is tried.
    for (let tries = 1; ; tries += 1) {
      const other = bundle(`before-${tries}`, 24 << 20);
      const before = await acceptedId(await upload(daemon.url, 'p1', other));
      let status: string;
      do status = await statusOf(daemon, before);
      while (status === 'accepted' || status === 'queued');
      if (status !== 'running') continue;
      return { run: await acceptedId(await upload(daemon.url, 'p1', content, key)), other };
    }
  },
  async 'it is being published'({ daemon, place }) {
    const run = await acceptedId(await upload(daemon.url, 'p1', content, key));
    await until(() => published(place).some((file) => file.includes('.publisher')));
    return { run };
  },
  async 'its event is being delivered'({ daemon, hook }) {
    const run = await acceptedId(await upload(daemon.url, 'p1', content, key));
    await hook.asked;
    return { run };
  },
};

const modes = ['memory', 'embedded', 'bullmq'] as const;
/** A sample has each phase in one mode, and two phases in each mode. */
const isDrawn = (mode: number, phase: number): boolean => isExhaustive || (phase + seed) % 3 === mode;

for (const [number, mode] of modes.entries())
  t.test(`the queue in ${mode}`, async (t) => {
    const redis = mode === 'bullmq' ? await startRedis() : undefined;
    if (redis !== undefined) t.teardown(() => redis.close());
    let survived = 0;
    const drawn = Object.entries(phases).filter((_, phase) => isDrawn(number, phase));
    for (const [phase, reach] of drawn)
      await t.test(`killed while ${phase}`, async (t) => {
        const hook = await startReceiver(t);
        const place = layOut(t, {
          ...(mode === 'embedded' ? { embedded: './queue' } : {}),
          ...(redis === undefined
            ? {}
            : { redisUrl: redis.url, queue: `, prefix: ${phase.replaceAll(' ', '-')}` }),
          notifiers: `[{id: hook, kind: webhook, url: '${hook.url}', secret_env: HOOK_SECRET, timeout: 1s}]`,
          env: { HOOK_SECRET: `whsec_${Buffer.alloc(24, 'x').toString('base64')}` },
        });
        const first = await launchApi(t, place, ['serve']);
        const { run, other } = await reach({ t, place, daemon: first, hook });
        await first.kill('SIGKILL');

        const next = await launchApi(t, place, ['serve']);
        if (mode === 'embedded' && phase === 'its event is being delivered') {
          await until(() => hook.requests() > 1);
          t.pass('the event is delivered again');
        }
        if (mode === 'memory') {
          t.same(staged(place), [], 'staging is swept at the start');
          if (run !== undefined) t.equal((await fetch(`${next.url}runs/${run}`)).status, 404);
        } else if (run !== undefined)
          t.equal((await follow(next.url, run)).status, 'succeeded', 'without a request');
        const again = await uploadedAgain(next);
        const replayed = again.headers.get('idempotency-replayed') === 'true';
        const id = await acceptedId(again);
        t.equal((await follow(next.url, id)).status, 'succeeded');
        if (mode === 'memory' && other !== undefined) {
          const sent = await acceptedId(await upload(next.url, 'p1', other));
          t.equal((await follow(next.url, sent)).status, 'succeeded', 'including the previous one');
        }
        if (mode !== 'memory' && run !== undefined) t.same([replayed, id], [true, run], 'the key stays');
        else t.notOk(replayed);

        const out = path.join(place.root, 'public/p1', name);
        t.equal(readFileSync(path.join(out, 'name.txt'), 'utf8'), name);
        t.ok(readFileSync(path.join(out, 'data.bin')).equals(Buffer.alloc(24 << 20, name)));
        t.same(
          published(place).filter((file) => /\.publisher\.(tmp|lock)/.test(file)),
          [],
          'no files of the interrupted attempt are left',
        );
        t.equal(await next.kill('SIGTERM'), 0);
        survived += 1;
      });
    t.comment(
      `report: ${share(survived, Object.keys(phases).length)} kills of the daemon survived (queue in ${mode})`,
    );
  });

async function statusOf({ url }: Daemon, run: string): Promise<string> {
  return ((await (await fetch(`${url}runs/${run}`)).json()) as { status: string }).status;
}

/** Until the dead daemon's reservation of the key expires. */
async function uploadedAgain({ url }: Daemon): Promise<Response> {
  for (;;) {
    const response = await upload(url, 'p1', content, key);
    if (response.status !== 409) return response;
    await response.arrayBuffer();
    await systemClock.sleep(100);
  }
}

async function halfAnUpload(t: Test, { url }: Daemon, bytes: number): Promise<void> {
  const outgoing = http.request(`${url}v1/pipelines/p1/upload`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/x-tar',
      'content-length': content.length,
      ...key,
    },
  });
  outgoing.on('error', () => undefined);
  t.teardown(() => outgoing.destroy());
  await new Promise((resolve) => outgoing.write(content.subarray(0, bytes), resolve));
}

function staged({ root }: Place): string[] {
  return stagedIn(path.join(root, 'staging'));
}

/** Extracted files: in the staging directory, or in the daemon's own directory if staging is shared. */
function received({ root }: Place): string[] {
  return [path.join(root, 'staging'), path.join(root, 'scratch')].flatMap((directory) =>
    filesBelow(directory).filter(
      (file) => path.basename(file).startsWith('upload-') || file.includes('upload-'),
    ),
  );
}

function published({ root }: Place): string[] {
  return filesBelow(path.join(root, 'public/p1'));
}

function filesBelow(directory: string): string[] {
  return existsSync(directory) ? readdirSync(directory, { recursive: true, encoding: 'utf8' }) : [];
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await systemClock.sleep(2);
}

interface Receiver {
  url: string;
  /** Resolves with the first request, which never gets an answer. */
  asked: Promise<void>;
  /** The number of requests. */
  requests: () => number;
}

async function startReceiver(t: Test): Promise<Receiver> {
  let resolveAsked: () => void = () => undefined;
  const asked = new Promise<void>((resolve) => (resolveAsked = resolve));
  let requests = 0;
  const server = http.createServer(() => {
    requests += 1;
    resolveAsked();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    asked,
    requests: () => requests,
  };
}
