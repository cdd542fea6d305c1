import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import type net from 'node:net';
import type { Test } from 'tap';
import t from 'tap';
import type { PipelineSummary } from '../../src/api/pipelines/pipelines-route.ts';
import {
  type Client,
  connect,
  type ConnectionOptions,
  exchangedToken,
  push,
  type RunRecord,
  type Upload,
} from '../../src/client/client.ts';
import type { PipelineList } from '../../src/client/generated/api-types.ts';
import { systemClock } from '../../src/core/lib/clock.ts';
import { asWaybillError, type WaybillError } from '../../src/core/lib/errors.ts';
import type { RunRecord as ServedRecord } from '../../src/workers/queue/run-record.ts';
import { startApi, tokens } from '../api/harness.ts';
import { runResult } from '../contract/queue.ts';

/** The server's types match the client's: otherwise, these lines do not compile. */
export const served: (record: ServedRecord) => Omit<RunRecord, 'error' | 'last_error' | 'destinations'> = (
  record,
) => record;
export const status: (record: RunRecord) => ServedRecord['status'] = (record) => record.status;
export const summary: (
  pipeline: PipelineSummary,
) => Pick<PipelineList['pipelines'][number], 'pipeline_id' | 'source' | 'destinations'> = (pipeline) =>
  pipeline;

const quick = { patience: { baseMs: 1, capMs: 5, forMs: 60_000, tries: 3 } };

/** The fields of a record whose run has not failed. */
const untried = { attempt: 1, next_try_at: null, last_error: null, warnings: [], failed_deliveries: [] };

async function failureOf(work: Promise<unknown>): Promise<WaybillError> {
  return work.then(
    () => t.fail('it succeeded') as never,
    (error: unknown) => asWaybillError(error),
  );
}

/** A server of raw responses, one per connection, which records the request heads. */
async function scripted(
  t: Test,
  answers: ((socket: net.Socket) => void)[],
): Promise<{ url: string; heads: http.IncomingHttpHeaders[] }> {
  const heads: http.IncomingHttpHeaders[] = [];
  const server = http.createServer();
  const handle = (req: http.IncomingMessage): void => {
    heads.push(req.headers);
    req.resume();
    const answer = answers[Math.min(heads.length, answers.length) - 1];
    answer?.(req.socket);
  };
  server.on('request', handle).on('checkContinue', handle);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as net.AddressInfo).port}/base`, heads };
}

const says =
  (status: string, body: string, headers: Record<string, string> = {}) =>
  (socket: net.Socket): void =>
    void socket.end(
      [
        `HTTP/1.1 ${status}`,
        ...Object.entries({ 'content-length': String(Buffer.byteLength(body)), ...headers }).map(
          ([name, value]) => `${name}: ${value}`,
        ),
        'connection: close',
        '',
        body,
      ].join('\r\n'),
    );

const problem = (code: string, retryable: boolean): [string, Record<string, string>] => [
  JSON.stringify({ code, detail: `it is ${code}`, retryable }),
  { 'content-type': 'application/problem+json' },
];

t.test('a directory is uploaded, waited for, followed, listed and cancelled', async (t) => {
  const api = await startApi(t, { maxUploadSize: 100_000 });
  const site = t.testdir({ a: 'A', sub: { b: 'B' } });
  const client = connect({ url: api.origin, token: tokens.maps, ...quick });

  let isHeld = false;
  await api.ports.queue.start(async (_job, { signal }) => {
    if (isHeld)
      await new Promise((_resolve, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason as Error)),
      );
    return runResult('ok');
  });
  const outcome = await client.push('maps', site, { name: 'n' });
  t.match(outcome, { isReplayed: false, position: 1, run: { status: 'succeeded' } });
  const { runId: done } = outcome;
  t.match(await push({ url: api.origin, token: tokens.maps, pipeline: 'maps', bundle: site, name: 'n' }), {
    runId: done,
    isReplayed: true,
  });

  isHeld = true;
  const again = await client.push('maps', site, { name: 'n', salt: 'once more', wait: false });
  t.match(again, { isReplayed: false, run: null });
  t.not(again.runId, done);
  t.match(await failureOf(client.runs.wait(again.runId, { timeoutMs: 1 })), { code: 'run_unfinished' });
  const seen: string[] = [];
  const following = (async () => {
    for await (const run of client.runs.follow({ runId: again.runId })) seen.push(run.status);
  })();
  t.match(await client.runs.cancel(again.runId), { run_id: again.runId });
  await following;
  t.equal(seen.at(-1), 'failed');

  const listed: string[] = [];
  for await (const run of client.runs.list({ pipelines: ['maps'] }, 1)) listed.push(run.run_id);
  t.same(listed, [again.runId]);
  t.match(await client.runs.show(done), { run_id: done });
  t.match(await client.pipelines(), [{ pipeline_id: 'maps', waiting: 0 }]);
});

t.test('a refusal is thrown immediately, with its code', async (t) => {
  const api = await startApi(t, { maxUploadSize: 100_000 });
  const site = t.testdir({ a: 'A' });
  const attempt = (options: Partial<ConnectionOptions>, pipeline = 'maps'): Promise<WaybillError> =>
    failureOf(connect({ url: api.origin, token: tokens.maps, ...quick, ...options }).push(pipeline, site));
  t.match(await attempt({ token: 'unknown' }), { code: 'unauthorized' });
  t.match(await attempt({ token: tokens.expired }), { code: 'token_expired' });
  t.match(await attempt({ token: tokens.reader }), { code: 'insufficient_scope' });
  t.match(await attempt({}, 'docs'), { code: 'forbidden' });
  t.match(await attempt({}, 'nowhere'), { code: 'pipeline_not_found' });
  t.match(await attempt({ url: `${api.origin}/other` }), { code: 'not_found' });
  for (const url of ['nowhere', 'ftp://host', 'http://user:secret@host', 'http://host/?x'])
    t.throws(() => connect({ url }), { code: 'usage', message: /^(?!.*secret)/ });

  const upload: Upload = {
    open: async function* () {
      yield Buffer.from('no archive');
    },
    contentType: 'application/x-tar',
    idempotencyKey: 'k',
  };
  const client = connect({ url: api.origin, token: tokens.maps, ...quick });
  const own = new Error('my own');
  const broken: Upload = {
    ...upload,
    open: () => failing(own),
  };
  t.equal(
    await client.push('maps', broken).catch((error: unknown) => error),
    own,
    'a body that fails is not retried',
  );
});

async function* failing(error: Error): AsyncGenerator<Uint8Array> {
  yield Buffer.from('x');
  throw error;
}

t.test('retries temporary failures, no sooner than the server requests', async (t) => {
  const accepted = JSON.stringify({ run_id: 'r', status: 'accepted', position: 3 });
  const { url, heads } = await scripted(t, [
    (socket) => socket.destroy(),
    says('503 Service Unavailable', ...withRetryAfter('queue_full')),
    says('502 Bad Gateway', '<html>', { 'content-type': 'text/html' }),
    says('202 Accepted', accepted.slice(0, 9), { 'content-length': String(accepted.length) }),
    says('429 Too Many Requests', ...problem('pipeline_full', true)),
    says('503 Service Unavailable', ...problem('of_a_later_version', true)),
    says('202 Accepted', accepted),
  ]);
  const failures: string[] = [];
  const pauses: number[] = [];
  const slept: number[] = [];
  const client = connect({
    url,
    token: 'secret',
    ...quick,
    clock: { ...systemClock, sleep: async (ms) => void slept.push(ms) },
    onRetry(failure, pauseMs) {
      failures.push(failure.code);
      pauses.push(pauseMs);
    },
  });
  const upload: Upload = {
    open: async function* () {
      yield Buffer.from('bytes');
    },
    size: 5,
    contentType: 'application/gzip',
    idempotencyKey: 'key',
  };
  t.match(await client.push('p', upload, { wait: false }), { runId: 'r', position: 3, isReplayed: false });
  t.same(failures, [
    'connection_lost',
    'queue_full',
    'connection_lost',
    'connection_lost',
    'pipeline_full',
    'connection_lost',
  ]);
  t.ok((pauses[1] ?? 0) >= 7000);
  t.same(slept, pauses);
  t.equal(new Set(heads.map((head) => head['idempotency-key'])).size, 1, 'each attempt has the same key');
  t.match(heads[0], { authorization: 'Bearer secret', expect: '100-continue', 'content-length': '5' });
});

function withRetryAfter(code: string): [string, Record<string, string>] {
  const [body, headers] = problem(code, true);
  return [body, { ...headers, 'retry-after': '7' }];
}

t.test('an upload keeps to its maximum rate, and an abort ends it', async (t) => {
  const api = await startApi(t, { maxUploadSize: 10 << 20 });
  const site = t.testdir({ 'data.bin': randomBytes(1536 << 10) });
  const options = { url: api.origin, token: tokens.maps, ...quick, maxRate: 1 << 20 };
  const began = systemClock.monotonic();
  await connect(options).push('maps', site, { name: 'n', wait: false });
  t.ok(systemClock.monotonic() - began >= 1_490, '1.5 MiB at 1 MiB/s take 1.5 s');
  const controller = new AbortController();
  const reason = new Error('enough');
  const stopped = { ...options, maxRate: 1024, signal: controller.signal };
  const sent = connect(stopped).push('maps', site, {
    ...{ name: 'other', wait: false },
    onSent: () => setImmediate(() => controller.abort(reason)),
  });
  t.equal(await sent.catch((error: unknown) => error), reason);
});

t.test("separates the daemon's hint from the error", async (t) => {
  const api = await startApi(t);
  const refusal = await failureOf(
    connect({ url: api.origin, token: tokens.maps, ...quick }).runs.cancel('maps.x'),
  );
  t.match(refusal, { code: 'run_not_found', hint: /^records are kept/ });
  t.match(refusal.message, /^[^;]+$/);
  const body = JSON.stringify({ code: 'forbidden', detail: 'no', hint: 7, retryable: false });
  const odd = await scripted(t, [says('403 No', body, { 'content-type': 'application/problem+json' })]);
  t.match(await failureOf(connect({ url: odd.url, ...quick }).runs.show('r')), {
    message: 'no',
    hint: undefined,
  });
});

t.test('distinguishes a wrong server from an unreachable one', async (t) => {
  const show = (url: string): Promise<WaybillError> => failureOf(connect({ url, ...quick }).runs.show('r'));
  const html = await scripted(t, [says('200 OK', '<html>')]);
  t.match(await show(html.url), { code: 'unexpected_answer' });
  const moved = await scripted(t, [says('301 Moved Permanently', '', { location: 'https://other/' })]);
  t.match(await show(moved.url), { code: 'unexpected_answer', hint: /https:\/\/other\// });
  const foreign = await scripted(t, [(socket) => socket.end('SSH-2.0-x\r\n')]);
  t.match(await show(foreign.url), { code: 'unexpected_answer' });
  t.match(await show(foreign.url.replace('http:', 'https:')), { code: 'tls_failed' });

  const closed = http.createServer().listen(0, '127.0.0.1');
  await once(closed, 'listening');
  const { port } = closed.address() as net.AddressInfo;
  closed.close();
  await once(closed, 'close');
  t.match(await show(`http://127.0.0.1:${port}`), { code: 'daemon_unreachable' });
});

t.test('cancels a stalled connection, and stops everything on an abort signal', async (t) => {
  const silent = await scripted(t, [() => undefined]);
  const options = { url: silent.url, patience: { forMs: 0, tries: 2, baseMs: 1, capMs: 1 } };
  t.match(await failureOf(connect({ ...options, answerMs: 20 }).runs.show('r')), {
    code: 'connection_lost',
    message: /no answer/,
  });
  t.equal(silent.heads.length, 2);
  const controller = new AbortController();
  const reason = new Error('enough');
  const shown = connect({ ...options, signal: controller.signal }).runs.show('r');
  setImmediate(() => controller.abort(reason));
  t.equal(await shown.catch((error: unknown) => error), reason);
});

t.test('uploads a forgotten run again, and continues one stream after its last event', async (t) => {
  const accepted = (id: string): string => JSON.stringify({ run_id: id, status: 'accepted' });
  const record = (more: object): string => JSON.stringify({ ...running, ...more });
  const running = {
    ...{ run_id: 'b', pipeline_id: 'p', status: 'running', accepted_at: '2026-11-20T00:00:00Z' },
    ...{ finished_at: null, progress: null, error: null, destinations: [], ...untried },
  };
  const { url } = await scripted(t, [
    says('202 Accepted', accepted('a')),
    says('404 Not Found', ...problem('run_not_found', false)),
    says('202 Accepted', accepted('b')),
    says('200 OK', record({ status: 'succeeded', finished_at: 'now' })),
  ]);
  const upload: Upload = {
    open: async function* () {
      yield Buffer.from('bytes');
    },
    contentType: 'application/gzip',
    idempotencyKey: 'key',
  };
  t.match(await connect({ url, ...quick }).push('p', upload), { runId: 'b', run: { status: 'succeeded' } });

  const events = (text: string): ((socket: net.Socket) => void) =>
    says('200 OK', text, { 'content-type': 'text/event-stream' });
  const stream = await scripted(t, [
    events(`event: snapshot\nid: e-1\ndata: {"reason":"start","runs":[${record({})}]}\n\nevent: ru`),
    events(
      `event: run\nid: e-2\ndata: ${record({ status: 'succeeded' })}\n\nevent: end\ndata: {"reason":"finished"}\n\n`,
    ),
  ]);
  const statuses: string[] = [];
  for await (const run of connect({ url: stream.url, ...quick }).runs.follow({ runId: 'b' }))
    statuses.push(run.status);
  t.same(statuses, ['running', 'succeeded']);
  t.equal(stream.heads[1]?.['last-event-id'], 'e-1');
});

t.test('refuses events and records that are no answer of a daemon, rather than asking again', async (t) => {
  for (const event of [
    'event: run\ndata: {"run_id":',
    'event: snapshot\ndata: {"runs":7}',
    'event: snapshot\ndata: null',
    'event: end\ndata: [',
  ]) {
    const { url, heads } = await scripted(t, [
      says('200 OK', `${event}\n\n`, { 'content-type': 'text/event-stream' }),
      says('204 No Content', ''),
    ]);
    await t.rejects(
      connect({ url, ...quick })
        .runs.follow({ runId: 'b' })
        .next(),
      {
        code: 'unexpected_answer',
      },
    );
    t.equal(heads.length, 1, event);
  }
  const record = {
    ...{ run_id: 'b', pipeline_id: 'p', status: 'waiting', accepted_at: '2026-11-20T00:00:00Z' },
    ...{ finished_at: null, progress: null, error: null, destinations: [], ...untried },
  };
  const { url } = await scripted(t, [says('200 OK', JSON.stringify(record)), says('200 OK', '{}')]);
  await t.rejects(connect({ url, ...quick }).runs.retry('b'), { code: 'unexpected_answer' });
});

t.test('an answer 200 that is not from a daemon is one error that names the URL', async (t) => {
  const place = { pipeline: 'p', destination: 'd' };
  const upload: Upload = {
    open: async function* () {
      yield Buffer.from('bytes');
    },
    contentType: 'application/gzip',
    idempotencyKey: 'key',
  };
  const calls: Record<string, (client: Client) => Promise<unknown>> = {
    'v1/runs': (client) => client.runs.list().next(),
    'runs/r': (client) => client.runs.show('r'),
    'v1/pipelines': (client) => client.pipelines(),
    'v1/pipelines/p/runs': (client) => client.runs.start('p'),
    'v1/pipelines/p/upload': (client) => client.push('p', upload, { resumable: 'never' }),
    'v1/pipelines/p/destinations/d/releases': (client) => client.releases.list(place),
    'v1/pipelines/p/destinations/d/releases/a': (client) => client.releases.show(place, 'a'),
    'v1/pipelines/p/destinations/d/releases/a/diff': (client) => client.releases.diff(place, 'a', 'b'),
    'v1/pipelines/p/destinations/d/releases/a/activate': (client) => client.releases.activate(place, 'a'),
  };
  const answers: [body: string, fault: RegExp][] = [
    ['<html>', /is not JSON$/],
    ['null', /is not the expected JSON document$/],
    ['[]', /is not the expected JSON document$/],
    ['{}', /has no valid \w+$/],
    ['{"runs":[{}],"pipelines":[{}],"paths":[{}],"run_id":7,"release":{}}', /has no valid [\w/]+$/],
  ];
  for (const [path, call] of Object.entries(calls))
    for (const [body, fault] of answers) {
      const { url } = await scripted(t, [says('200 OK', body)]);
      const failure = await failureOf(call(connect({ url, ...quick })));
      t.match(failure, { code: 'unexpected_answer', message: fault }, `${path} with ${body}`);
      const start = `${new URL(url).origin} does not answer like a waybill daemon: the answer of /base/${path} `;
      t.ok(failure.message.startsWith(start), failure.message);
    }
  const { url } = await scripted(t, [says('200 OK', '{}')]);
  const resumed = connect({ url, ...quick }).push('p', upload, { resumable: 'always' });
  t.match(await failureOf(resumed), { code: 'unexpected_answer', message: /has no Location of the upload$/ });
});

t.test('an outage while waiting for a run ends with its id, and no later than the time limit', async (t) => {
  const { url } = await scripted(t, [(socket) => socket.destroy()]);
  const waiting = connect({ url, ...quick }).runs.wait('maps.7', { timeoutMs: 0 });
  t.match(await failureOf(waiting), {
    code: 'run_unfinished',
    message: 'the run maps.7 has not ended in time: the daemon does not answer',
  });
  const short = { patience: { baseMs: 1, capMs: 1, forMs: 1, tries: 2 } };
  t.match(await failureOf(connect({ url, ...short }).runs.wait('maps.7')), {
    code: 'connection_lost',
    message: /^the result of the run maps\.7 is unknown: /,
    hint: /waybill runs follow maps\.7$/,
  });
});

t.test('exchanges a token again if the answer is cut off', async (t) => {
  const token = JSON.stringify({ access_token: 'a', expires_in: 600, publisher_id: 'ci' });
  const { url, heads } = await scripted(t, [
    says('200 OK', token.slice(0, 20), { 'content-length': String(token.length) }),
    says('200 OK', token),
    says('200 OK', JSON.stringify({ pipelines: [] })),
  ]);
  const source = exchangedToken({ idToken: async () => 'id', isRenewable: true, clock: systemClock });
  t.same(await connect({ url, ...quick, token: source }).pipelines(), []);
  t.equal(heads[2]?.authorization, 'Bearer a');
});
