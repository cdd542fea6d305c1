import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import { shardMap } from '../../src/workers/bullmq/shards/shards.ts';
import type { RunRecord } from '../../src/workers/queue/run-record.ts';
import { startRedis } from '../services/redis.ts';
import { howMany, share } from '../support/sampling.ts';
import { type Accepted, type Daemon, publishedEvents, startOf, untilAccepted } from './kept-runs.ts';
import { launchApi, type Launched, launchWorker, layOut, overlaps, type Place, token } from './processes.ts';

t.setTimeout(0);

const pipelines = howMany(60, 24);
const uploadsOfAll = 10;
const uploads = howMany(uploadsOfAll, 3);
const first = ['REDIS_A', 'REDIS_B', 'REDIS_C'];
const added = 'REDIS_D';
const events = '[bundle.published, bundle.publish_failed]';

function newGate(): { promise: Promise<void>; resolve: () => void } {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((opened) => (resolve = opened));
  return { promise, resolve };
}

interface Processes {
  apis: Daemon[];
  workers: Launched[];
}

async function launchAll(t: Test, place: Place): Promise<Processes> {
  const hosts = Array.from({ length: howMany(3, 2) });
  const [apis, workers] = await Promise.all([
    Promise.all(hosts.map(() => launchApi(t, place))),
    Promise.all(hosts.map(() => launchWorker(t, place))),
  ]);
  return { apis, workers };
}

t.test(
  'several processes over three Redis, one killed and brought back, and one more added: all is published, in order',
  async (t) => {
    const names = [...first, added];
    const servers = new Map(
      await Promise.all(names.map(async (name) => [name, await startRedis()] as const)),
    );
    t.teardown(() => Promise.all([...servers.values()].map((server) => server.close())));
    const urls = Object.fromEntries([...servers].map(([name, { url }]) => [name, url]));
    const notifiers = `[{id: journal, kind: file, path: ./events.jsonl, events: ${events}}]`;
    const place = layOut(t, { redisUrls: urls, pipelines, notifiers });
    const withNames = (some: readonly string[]): void =>
      writeFileSync(
        place.config,
        readFileSync(place.config, 'utf8').replace(
          /redis_url_envs: \[[^\]]*\]/,
          `redis_url_envs: [${some.join(', ')}]`,
        ),
      );
    withNames(first);
    let now = await launchAll(t, place);
    const all = [...now.workers];

    // Each producer sends the uploads of one pipeline, one after the other, to whichever API, until it is
    // answered 202.
    const accepted: Accepted[] = [];
    let tries = 0;
    const urlOf = (): string => now.apis[(tries += 1) % now.apis.length]?.url ?? '';
    const gates = Array.from({ length: 3 }, newGate);
    const producers = place.pipelines.map(async (pipeline) => {
      for (let index = 0; index < uploads; index += 1) {
        if (index > 0) await gates[Math.min(2, Math.floor((index * 3) / uploads))]?.promise;
        const one = { name: `${pipeline}-${index}`, pipeline };
        accepted.push({ ...one, run: await untilAccepted(urlOf, one) });
      }
    });
    const atLeast = async (count: number): Promise<void> => {
      while (accepted.length < count) await systemClock.sleep(20);
    };
    const before = shardMap(first);
    const isOf = (name: string) => (id: string) => before.names[before.ownerOf(id)] === name;
    await atLeast(pipelines);

    await servers.get('REDIS_B')?.stop('SIGKILL');
    gates[0]?.resolve();
    gates[1]?.resolve();
    const others = place.pipelines.filter((id) => !isOf('REDIS_B')(id));
    t.ok(others.length > pipelines / 3 && others.length < pipelines);
    const ofOthers = (): number => accepted.filter(({ pipeline }) => others.includes(pipeline)).length;
    const so = ofOthers();
    while (ofOthers() < so + others.length) await systemClock.sleep(20);
    t.pass('uploads to pipelines of the others are accepted');
    const health = await fetch(`${now.apis[0]?.url}healthz`);
    t.equal(health.status, 200);
    const { checks } = (await health.json()) as {
      checks: { name: string; state: string; detail?: string }[];
    };
    t.match(
      checks.find(({ name }) => name === 'queue'),
      { state: 'degraded', code: 'queue_unavailable', detail: /1 of 3 Redis does not answer \(REDIS_B\)/ },
    );
    const stopped = place.pipelines.find(isOf('REDIS_B')) ?? '';
    const headers = { authorization: `Bearer ${token}` };
    const listed = await fetch(`${now.apis[1]?.url}v1/pipelines/${stopped}/runs`, { headers });
    t.match(
      [listed.status, await listed.json()],
      [503, { code: 'queue_unavailable', detail: /REDIS_B|reached/ }],
    );
    const { pipelines: shown } = (await (
      await fetch(`${now.apis[1]?.url}v1/pipelines`, { headers })
    ).json()) as {
      pipelines: { pipeline_id: string; away?: true }[];
    };
    t.same(
      shown.filter(({ away }) => away).map(({ pipeline_id: id }) => id),
      place.pipelines.filter(isOf('REDIS_B')),
    );
    await servers.get('REDIS_B')?.start();
    gates[2]?.resolve();
    await atLeast(Math.floor((accepted.length + pipelines * uploads) / 2));

    // All processes end before one begins with another list of names: see docs/queue.md.
    const ending = now;
    const codes = await Promise.all([...ending.apis, ...ending.workers].map((one) => one.kill('SIGTERM')));
    t.same(new Set(codes), new Set([0]));
    withNames(names);
    now = await launchAll(t, place);
    all.push(...now.workers);
    await Promise.all(producers);
    // The producers may have finished before the new Redis was there.
    const after = shardMap(names);
    const moved = place.pipelines.filter(
      (id) => before.names[before.ownerOf(id)] !== after.names[after.ownerOf(id)],
    );
    for (const pipeline of moved) {
      const one = { name: `${pipeline}-last`, pipeline };
      accepted.push({ ...one, run: await untilAccepted(urlOf, one) });
    }

    const records = await allOver(now, accepted.length);
    const byId = new Map(records.map((record) => [record.run_id, record]));
    t.equal(records.length, accepted.length, 'one run for each upload, whatever was tried how often');
    t.equal(accepted.length, pipelines * uploads + moved.length);
    for (const { run, name, pipeline } of accepted) {
      if (byId.get(run)?.status !== 'succeeded') t.fail(`${run} has not succeeded`);
      const file = path.join(place.root, 'public', pipeline, name, 'name.txt');
      if (readFileSync(file, 'utf8') !== name) t.fail(`${file} is of another upload`);
    }
    t.same(await overlaps(all, urlOf()), [], 'none ran twice at once');
    for (const pipeline of place.pipelines) {
      const own = accepted.filter((one) => one.pipeline === pipeline).map(({ run }) => byId.get(run));
      const starts = own.flatMap((record) => (record === undefined ? [] : startOf(record)));
      t.same(starts, starts.toSorted(), `${pipeline}: in the order of acceptance`);
    }
    const told = publishedEvents(place);
    t.same(
      accepted.filter(({ run }) => !told.has(run)),
      [],
      'and told',
    );
    t.ok(
      moved.length > 0 && moved.every((id) => after.names[after.ownerOf(id)] === added),
      'only its share moved',
    );
    t.ok(Number(await servers.get(added)?.cli('INCRBY', 'waybill:seq', '0')) > 0, 'which it has taken up');
    for (const one of [...now.apis, ...now.workers]) t.equal(await one.kill('SIGTERM'), 0);
    t.comment(
      `told: ${share(uploads, uploadsOfAll)} uploads a pipeline over ${names.length} Redis: ${accepted.length} accepted and published, ${moved.length} of ${pipelines} pipelines moved, ${tries} tries`,
    );
  },
);

/** The records of all runs as the list of all pipelines has them, page by page, once all are over. */
async function allOver({ apis }: Processes, count: number): Promise<RunRecord[]> {
  for (;;) {
    const records: RunRecord[] = [];
    let next: string | null = '/v1/runs?limit=100';
    for (let page = 0; next !== null; page += 1) {
      const { url = '' } = apis[page % apis.length] ?? {};
      const headers = { authorization: `Bearer ${token}` };
      const answer: Response = await fetch(new URL(next, url), { headers });
      const told = (await answer.json()) as { runs: RunRecord[]; next: string | null };
      records.push(...told.runs);
      next = told.next;
    }
    const isOver = records.every(({ finished_at: at }) => at !== null);
    if (isOver && records.length >= count) return records.toReversed();
    await systemClock.sleep(200);
  }
}
