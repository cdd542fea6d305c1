import http from 'node:http';
import type { AddressInfo } from 'node:net';
import net from 'node:net';
import t from 'tap';
import type { Token } from '../../../src/api/http/auth.ts';
import { frameOf, openEventStream } from '../../../src/api/runs/event-stream.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { startRun } from '../../../src/workers/queue/start-run.ts';
import { runResult } from '../../contract/queue.ts';
import { generator, howMany } from '../../support/sampling.ts';
import { manualClock } from '../../workers/manual-clock.ts';
import { type EventClient, followEvents } from '../event-client.ts';
import { type Api, startApi, tokens, upload } from '../harness.ts';

interface Snapshot {
  reason: string;
  runs: { run_id: string; status: string }[];
  next: string | null;
}

async function uploaded(api: Api, options: Parameters<typeof upload>[1] = {}): Promise<string> {
  const { run_id: runId } = (await (await upload(api.origin, options)).json()) as { run_id: string };
  return runId;
}

const asDocs = { pipeline: 'docs', token: tokens.docs };
const namesOf = ({ events }: EventClient): string[] => events.map(({ event }) => event);

t.test(
  'a stream follows a run from its record to its end, and a reconnecting client may disconnect',
  async (t) => {
    const api = await startApi(t);
    const runId = await uploaded(api);
    const url = `${api.origin}/runs/${runId}/events`;
    const client = await followEvents(url);
    t.equal(client.status, 200);
    t.match(client.headers, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    });
    await client.until(() => client.events.length === 1);
    t.match(client.events[0], {
      event: 'snapshot',
      data: { reason: 'start', runs: [{ run_id: runId, status: 'queued' }], next: null },
    });
    let finish: () => void = () => undefined;
    await api.ports.queue.start(async (_job, { onProgress }) => {
      onProgress({
        type: 'planned',
        destinationId: 'web',
        destinationPath: '.',
        action: 'publish_new',
        outputs: 1,
        bytes: 9,
      });
      await new Promise<void>((resolve) => (finish = resolve));
      return runResult('ok');
    });
    await client.until(() => client.records().at(-1)?.progress?.stage === 'writing');
    finish();
    t.match(await client.ended, /\nretry: 3000\nevent: end\nid: \S+\ndata: \{"reason":"finished"\}\n\n$/);
    const last = client.records().at(-1);
    t.match(last, { run_id: runId, status: 'succeeded', destinations: [{ destination_id: 'web' }] });
    t.same(await (await fetch(`${api.origin}/runs/${runId}`)).json(), last, 'the same record');
    t.ok(
      client.events.every(({ id }) => /^[\da-f]{12}-\d+$/.test(id ?? '')),
      'every event has an id',
    );

    const again = await followEvents(url, { lastId: client.lastId() });
    t.equal(again.status, 204, 'an EventSource does not reconnect after that');
    t.equal(await again.ended, '');
    const late = await followEvents(url);
    await late.ended;
    t.same(namesOf(late), ['snapshot', 'end']);
    const partial = await followEvents(url, { lastId: client.events[0]?.id ?? '' });
    await partial.ended;
    t.same(namesOf(partial), ['run', 'end']);
    t.match(partial.records(), [{ status: 'succeeded' }]);
  },
);

t.test("all runs of a token's pipelines are followed, and no others", async (t) => {
  const api = await startApi(t);
  await uploaded(api);
  const before = await uploaded(api, asDocs);
  const all = await followEvents(`${api.origin}/v1/events?limit=1`, { token: tokens.docs });
  const some = await followEvents(`${api.origin}/v1/events?pipeline=files`, { token: tokens.docs });
  await Promise.all([all, some].map((client) => client.until(() => client.events.length === 1)));
  t.match(all.events[0]?.data, { reason: 'start', runs: [{ run_id: before }], next: null });
  t.match(some.events[0]?.data, { runs: { length: 0 }, next: null });
  const maps = await uploaded(api);
  const docs = await uploaded(api, { ...asDocs, body: 'another' });
  const { record } = await startRun(api.ports, { pipelineId: 'files' });
  await all.until(() => all.records().length === 2);
  await some.until(() => some.records().length === 1);
  t.same(
    all.records().map(({ run_id }) => run_id),
    [docs, record.run_id],
  );
  t.same(
    some.records().map(({ run_id }) => run_id),
    [record.run_id],
  );
  t.notMatch(all.events, [{ data: { run_id: maps } }]);
  const next = await followEvents(`${api.origin}/v1/events?limit=2&pipeline=docs,files`, {
    token: tokens.docs,
  });
  await next.until(() => next.events.length === 1);
  const snapshot = next.events[0]?.data as Snapshot;
  t.equal(snapshot.runs.length, 2);
  const page = await fetch(api.origin + (snapshot.next ?? ''), {
    headers: { authorization: `Bearer ${tokens.docs}` },
  });
  t.match(await page.json(), { runs: [{ run_id: before }], next: null }, 'the link leads to older runs');
  for (const client of [all, some, next]) client.close();
  for (const [query, code] of [
    ['?pipeline=maps', 'forbidden'],
    ['?pipeline=docs,none', 'pipeline_not_found'],
    ['?limit=0', 'invalid_request'],
  ] as const) {
    const refused = await fetch(`${api.origin}/v1/events${query}`, {
      headers: { authorization: `Bearer ${tokens.docs}` },
    });
    t.match(await refused.json(), { code }, query);
  }
});

t.test('resumes after the last event id, and reports if that is impossible', async (t) => {
  const api = await startApi(t);
  const url = `${api.origin}/v1/events`;
  const first = await followEvents(url, { token: tokens.maps });
  const known = await uploaded(api);
  await first.until(() => first.records().length === 1);
  first.close();
  const missed = [await uploaded(api, { body: 'b' }), await uploaded(api, { body: 'c' })];
  const second = await followEvents(url, { token: tokens.maps, lastId: first.lastId() });
  await second.until(() => second.events.length === 2);
  t.same(namesOf(second), ['run', 'run'], 'without a snapshot');
  t.same(
    second.records().map(({ run_id }) => run_id),
    missed,
  );
  second.close();
  for (const lastId of ['nonsense', 'aaaaaaaaaaaa-3', `${first.lastId() ?? ''}999`]) {
    const lost = await followEvents(url, { token: tokens.maps, lastId });
    await lost.until(() => lost.events.length === 1);
    const { reason, runs } = lost.events[0]?.data as Snapshot;
    t.equal(reason, 'gap', lastId);
    t.same(
      runs.map(({ run_id }) => run_id),
      [...missed.toReversed(), known],
    );
    lost.close();
  }
});

t.test('a stream has a comment every 15 seconds that updates its last event id', async (t) => {
  const api = await startApi(t);
  const clock = manualClock();
  Object.assign(api.ports, { clock });
  const client = await followEvents(`${api.origin}/v1/events`, { token: tokens.maps });
  await client.until(() => client.events.length === 1);
  const begun = client.lastId();
  await uploaded(api, asDocs);
  t.equal(client.lastId(), begun, 'events of others are not sent');
  for (const beats of [1, 2]) {
    await clock.advance(15_000);
    await client.until(() => client.others.length === beats);
  }
  t.match(client.others, [/^:\nid: \S+$/, /^:\nid: \S+$/]);
  t.not(client.lastId(), begun, 'the client skips it after it reconnects');
  t.equal(client.events.length, 1);
  client.close();
});

t.test('a stream ends within a second of the expiry of its token', async (t) => {
  const api = await startApi(t);
  const clock = manualClock();
  Object.assign(api.ports, { clock });
  api.reconfigure(({ tokens: [first, ...others], ...access }) => ({
    ...access,
    tokens: [{ ...(first as Token), expiresAt: new Date(clock.now().getTime() + 20_000) }, ...others],
  }));
  const client = await followEvents(`${api.origin}/v1/events`, { token: tokens.maps });
  await client.until(() => client.events.length === 1);
  await clock.advance(15_000);
  await client.until(() => client.others.length === 1);
  await clock.advance(5_000);
  t.match(await client.ended, /event: end\n.*\ndata: \{"reason":"token_expired"\}\n\n$/);
  const refused = await followEvents(`${api.origin}/v1/events`, { token: tokens.maps });
  t.equal(refused.status, 401);
  t.match(await refused.ended, /"code":"token_expired"/);
});

for (const [what, change] of [
  ['is gone', () => []],
  ['may not read any more', ([first]) => [{ ...(first as Token), scopes: new Set(['upload'] as const) }]],
  ['is for other pipelines', ([first]) => [{ ...(first as Token), pipelines: new Set(['docs']) }]],
] as [string, (tokens: readonly Token[]) => Token[]][])
  t.test(`a stream ends within a second of a reload after which its token ${what}`, async (t) => {
    const api = await startApi(t);
    const clock = manualClock();
    Object.assign(api.ports, { clock });
    const client = await followEvents(`${api.origin}/v1/events`, { token: tokens.maps });
    await client.until(() => client.events.length === 1);
    await clock.advance(15_000);
    await client.until(() => client.others.length === 1);
    api.reconfigure((access) => ({ ...access, tokens: change(access.tokens) }));
    await clock.advance(1_000);
    t.match(await client.ended, /event: end\n.*\ndata: \{"reason":"token_revoked"\}\n\n$/);
  });

t.test('a stopping daemon ends its streams immediately, with the time to reconnect', async (t) => {
  const api = await startApi(t);
  const runId = await uploaded(api);
  const urls = [`${api.origin}/v1/events`, `${api.origin}/runs/${runId}/events`];
  const clients = await Promise.all(urls.map((url) => followEvents(url, { token: tokens.maps })));
  for (const client of clients) await client.until(() => client.events.length === 1);
  const cursor = clients[0]?.lastId() ?? 'none';
  api.drain();
  const goodbye = /retry: 3000\nevent: end\n(id: \S+\n)?data: \{"reason":"shutting_down"\}\n\n$/;
  for (const client of clients) {
    t.match(await client.ended, goodbye);
    t.equal(client.events.at(-1)?.id, cursor);
  }
  const late = await followEvents(urls[0] ?? '', { token: tokens.maps, lastId: cursor });
  t.equal(late.status, 200, 'an EventSource keeps reconnecting');
  t.match(await late.ended, goodbye);
  t.equal(late.lastId(), cursor);
  const fresh = await followEvents(urls[0] ?? '', { token: tokens.maps });
  await fresh.ended;
  t.equal(fresh.lastId(), null, 'and it still has no id');
});

t.test('at most max_streams are open, and each that ended is counted', async (t) => {
  const api = await startApi(t, { http: { maxStreams: 2 } });
  const url = `${api.origin}/v1/events`;
  const clients = [
    await followEvents(url, { token: tokens.maps }),
    await followEvents(url, { token: tokens.docs }),
  ];
  const refused = await fetch(url, { headers: { authorization: `Bearer ${tokens.maps}` } });
  t.equal(refused.status, 503);
  t.equal(refused.headers.get('retry-after'), '10');
  t.match(await refused.json(), { code: 'too_many_streams', retryable: true });
  t.equal(api.ports.runs.streams.stats().open, 2);
  clients[0]?.close();
  while (api.ports.runs.streams.stats().open > 1) await new Promise((resolve) => setImmediate(resolve));
  const head = await fetch(url, { method: 'HEAD', headers: { authorization: `Bearer ${tokens.maps}` } });
  t.equal(head.headers.get('content-type'), 'text/event-stream; charset=utf-8');
  api.drain();
  await clients[1]?.ended;
  while (api.ports.runs.streams.stats().open > 0) await new Promise((resolve) => setImmediate(resolve));
  const metrics = (await api.ports.metrics?.text()) ?? '';
  t.match(metrics, 'waybill_event_streams 0');
  for (const [end, count] of [
    ['client_left', 1],
    ['shutting_down', 1],
    ['too_slow', 0],
  ])
    t.match(metrics, `waybill_event_streams_ended_total{end="${end}"} ${count}`);
  const lines = api.lines.filter(({ fields }) => fields['route'] === '/v1/events');
  t.match(
    lines.find(({ fields }) => fields['stream_end'] === 'shutting_down'),
    { fields: { status: 200, token_id: 'writer' } },
  );
});

t.test('streams wait while the queue is unreachable, and none starts', async (t) => {
  const api = await startApi(t);
  const { queue } = api.ports;
  const watch = queue.watch.bind(queue);
  let isAway = false;
  const orAway = async <T>(work: () => Promise<T>): Promise<T> => {
    if (isAway) throw new WaybillError('queue_unavailable', 'away by the will of the test');
    return work();
  };
  Object.assign(queue, {
    watch: (onChange: () => void) => {
      const real = watch(onChange);
      const after: typeof real.after = (cursor, query) => orAway(() => real.after(cursor, query));
      return { ...real, after, cursor: () => orAway(real.cursor) };
    },
  });
  const url = `${api.origin}/v1/events`;
  const client = await followEvents(url, { token: tokens.maps });
  await client.until(() => client.events.length === 1);
  isAway = true;
  const missed = await uploaded(api);
  for (const lastId of [null, client.lastId()]) {
    const refused = await followEvents(url, { token: tokens.maps, lastId });
    t.equal(refused.status, 503);
    t.match(await refused.ended, /"code":"queue_unavailable"/);
  }
  isAway = false;
  const next = await uploaded(api, { body: 'next' });
  await client.until(() => client.records().length === 2);
  t.same(
    client.records().map(({ run_id }) => run_id),
    [missed, next],
  );
  client.close();
});

t.test('a client that does not read uses bounded memory, and is disconnected', async (t) => {
  const frame = frameOf({ event: 'run', id: '1', data: JSON.stringify('x'.repeat(10_000)) });
  let most = 0;
  const dropped = async (res: http.ServerResponse): Promise<string> => {
    const stream = openEventStream(res, { clock: systemClock, stallTimeoutMs: 100 });
    while (await stream.send(frame)) most = Math.max(most, res.writableLength);
    stream.heartbeat(':\n\n');
    stream.end(frameOf({ event: 'end', id: null, data: '{"reason":"too_slow"}' }));
    return String(stream.over.reason);
  };
  const done = new Promise<string>((resolve) => {
    const server = http.createServer((_req, res) => resolve(dropped(res)));
    t.teardown(() => void server.close());
    server.listen(0, '127.0.0.1', () => {
      const socket = net.connect((server.address() as AddressInfo).port, '127.0.0.1');
      t.teardown(() => socket.destroy());
      socket.pause().write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    });
  });
  t.equal(await done, 'too_slow');
  t.ok(most < 200_000, `at most ${most} bytes`);
});

t.test('delivers the latest record of a run to each subscriber, however often it reconnects', async (t) => {
  const subscribers = howMany(500, 50);
  const runs = 40;
  const api = await startApi(t, { http: { queueSize: 1_000, maxConcurrency: 3 } });
  const chance = generator('subscribers');
  let finishedRuns = 0;
  let allIn = false;

  const follow = async (): Promise<{ final: Set<string>; isOrdered: boolean; snapshots: number }> => {
    const final = new Set<string>();
    let [lastId, snapshots, newest, isOrdered]: [string | null, number, number, boolean] = [
      null,
      0,
      -1,
      true,
    ];
    while (final.size < runs) {
      const client = await followEvents(`${api.origin}/v1/events?limit=1`, { token: tokens.docs, lastId });
      let seen = 0;
      const enough = allIn ? Infinity : 2 + Math.floor(chance() * 20);
      const look = (): boolean => {
        for (; seen < client.events.length; seen++) {
          const { event, id, data } = client.events[seen]!;
          const revision = Number(id?.split('-')[1]);
          if (revision <= newest) isOrdered = false;
          newest = revision;
          const records = event === 'run' ? [data as Snapshot['runs'][0]] : (data as Snapshot).runs;
          if (event !== 'run') snapshots += 1;
          for (const { run_id, status } of records) if (status === 'succeeded') final.add(run_id);
        }
        return final.size === runs || seen >= enough;
      };
      await client.until(look);
      // More may have arrived in the same turn.
      look();
      lastId = client.lastId();
      client.close();
    }
    return { final, isOrdered, snapshots };
  };
  const following = Array.from({ length: subscribers }, follow);
  while (api.ports.runs.streams.stats().open < subscribers) await settle();
  await api.ports.queue.start(
    async (_job, { onProgress }) => {
      for (let count = 0; count < 5; count++) {
        onProgress({ type: 'bytes', destinationId: 'web', count: 1 });
        await settle();
      }
      return runResult('ok');
    },
    {
      started: () => undefined,
      retried: () => undefined,
      superseded: () => undefined,
      rejected: () => undefined,
      finished: () => void (finishedRuns += 1),
    },
  );
  for (let run = 0; run < runs; run++) {
    if (run % 2 === 0) await uploaded(api, { ...asDocs, body: String(run) });
    else await startRun(api.ports, { pipelineId: 'files' });
  }
  while (finishedRuns < runs) await settle();
  allIn = true;
  const results = await Promise.all(following);
  t.equal(results.filter(({ final }) => final.size === runs).length, subscribers);
  t.ok(
    results.every(({ isOrdered }) => isOrdered),
    'ids only increase, over all connections of a client',
  );
  t.ok(
    results.every(({ snapshots }) => snapshots === 1),
    'one snapshot, and then only changes',
  );
});

function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
