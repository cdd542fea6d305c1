import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import * as tar from 'tar';
import { type RunningServer, serve } from '../../../src/cli/daemon/serve.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import type { RunRecord } from '../../../src/workers/queue/run-record.ts';
import { runResult } from '../../contract/queue.ts';
import { stagedIn } from '../../support/staged.ts';
import { type Api, startApi, tokens, upload } from '../harness.ts';

interface Page {
  runs: RunRecord[];
  next: string | null;
}

const asOperator = { authorization: `Bearer ${tokens.docs}` };

function startRun(base: string, pipeline: string, init: RequestInit = {}): Promise<Response> {
  return fetch(`${base}/v1/pipelines/${pipeline}/runs`, {
    method: 'POST',
    ...init,
    headers: { ...asOperator, ...(init.headers as Record<string, string> | undefined) },
  });
}

/**
 * A daemon with a pipeline of a local source, `files`, and one that accepts uploads, `docs`.
 *
 * @param settings More settings of `files`.
 */
async function startDaemon(
  t: Test,
  settings = 'max_waiting: 100%',
): Promise<{ served: RunningServer; root: string }> {
  const root = t.testdir({ incoming: { one: {}, two: {} }, public: {} });
  for (const name of ['one', 'two']) addBundle(root, name);
  const configFile = path.join(root, 'waybill.yaml');
  writeFileSync(
    configFile,
    `
upload_tokens: [{id: ops, value_env: TOKEN, pipelines: [files, docs]}]
server: {http: {listen: "127.0.0.1:0", base_path: /w/}, staging: {directory: ./staging}}
pipelines:
  - {id: docs, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./docs}]}
  - {id: files, ${settings}, source: {backend: local, path: ./incoming}, destinations: [{id: web, backend: local, path: ./public}]}
`,
  );
  const served = await serve({ configFile, log: silentLog, env: { TOKEN: tokens.docs, HOME: root } });
  t.teardown(() => served.close());
  return { served, root };
}

function addBundle(root: string, name: string): void {
  const directory = path.join(root, 'incoming', name);
  mkdirSync(directory, { recursive: true });
  writeFileSync(path.join(directory, 'a.txt'), name);
  writeFileSync(
    path.join(directory, 'manifest.json'),
    JSON.stringify({ schema_version: 1, created: '2026-11-20T01:02:03Z', files: ['a.txt'] }),
  );
}

async function follow(served: RunningServer, response: Response): Promise<RunRecord> {
  const url = new URL(response.headers.get('location') ?? '', served.url);
  for (;;) {
    const run = (await (await fetch(url)).json()) as RunRecord;
    if (run.finished_at !== null) return run;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

t.test('an operator publishes from the source, and the run looks like any other', async (t) => {
  const { served, root } = await startDaemon(t);
  const base = served.url.replace(/\/$/, '');
  const response = await startRun(base, 'files');
  t.equal(response.status, 202);
  const accepted = (await response.json()) as { run_id: string; status: string };
  t.match(accepted.run_id, /^files\.\d{8}T\d{6}Z\.[0-9a-z]{10}$/);
  t.equal(response.headers.get('location'), `/w/runs/${accepted.run_id}`);
  const run = await follow(served, response);
  t.match(run, { status: 'succeeded', pipeline_id: 'files', error: null, summary: { publish_new: 2 } });
  t.same(run.destinations.map(({ destination_path }) => destination_path).sort(), ['one', 'two']);
  t.equal(readFileSync(path.join(root, 'public/one/a.txt'), 'utf8'), 'one');

  addBundle(root, 'three');
  const second = await follow(served, await startRun(base, 'files'));
  t.match(second, { status: 'succeeded', summary: { publish_new: 1, skip_same: 2 } });
  const { runs, next } = (await (
    await fetch(`${base}/v1/pipelines/files/runs`, { headers: asOperator })
  ).json()) as Page;
  t.same([runs, next], [[second, run], null]);
});

t.test('a broken source fails its run, and the daemon continues', async (t) => {
  const { served, root } = await startDaemon(t);
  writeFileSync(path.join(root, 'incoming/two/manifest.json'), '{');
  const base = served.url.replace(/\/$/, '');
  const run = await follow(served, await startRun(base, 'files'));
  t.match(run, { status: 'failed', error: { code: 'invalid_bundle' }, summary: { publish_new: 1 } });
  t.notMatch(JSON.stringify(run), root, 'no host path is reported');
  t.equal((await fetch(`${served.url}healthz`)).status, 200);
});

t.test('rejects force and other unsupported properties, and queues nothing', async (t) => {
  const { origin, ports } = await startApi(t);
  const json = { 'content-type': 'application/json' };
  for (const [body, detail] of [
    ['{"force": true}', /there is no property "force".*command line/],
    ['{"dry_run": true}', /there is no property "dry_run"/],
    ['[]', /the body must be an object;/],
    ['null', /the body must be an object;/],
    ['{', /the body is not JSON/],
    [' '.repeat(20_000), /more than 16384 bytes/],
  ] as const) {
    const response = await startRun(origin, 'files', { headers: json, body });
    t.equal(response.status, 400, body.slice(0, 20));
    t.match(await response.json(), { code: 'invalid_request', detail });
  }
  const streamed = await startRun(origin, 'files', {
    headers: json,
    body: new Blob([' '.repeat(20_000)]).stream(),
    duplex: 'half',
  });
  t.match(await streamed.json(), { code: 'invalid_request' }, 'a body without a length is counted');
  t.same(await ports.queue.depth(), { reserved: 0, queued: 0, running: 0 });
  for (const init of [{}, { headers: json }, { headers: json, body: '{}' }])
    t.equal((await startRun(origin, 'files', init)).status, 202);
});

t.test('reports the first of several errors in the documented order', async (t) => {
  const { origin, ports } = await startApi(t, { http: { queueSize: 1 } });
  await ports.queue.reserve({ pipelineId: 'docs' });
  const bad = { 'idempotency-key': '', 'content-type': 'text/plain' };
  for (const [pipeline, headers, body, code] of [
    ['none', { ...bad, authorization: 'Bearer guess' }, 'x', 'unauthorized'],
    ['none', bad, 'x', 'pipeline_not_found'],
    ['maps', bad, 'x', 'forbidden'],
    ['docs', bad, 'x', 'pipeline_takes_uploads'],
    ['files', bad, 'x', 'invalid_idempotency_key'],
    ['files', { 'content-type': 'text/plain' }, 'x', 'unsupported_media_type'],
    ['files', { 'content-type': 'application/json' }, 'x', 'invalid_request'],
    ['files', {}, null, 'queue_full'],
  ] as const) {
    const response = await startRun(origin, pipeline, { headers, body });
    t.match(await response.json(), { code });
  }
});

t.test('a key starts one run, however often the request is repeated', async (t) => {
  const { origin, ports } = await startApi(t);
  const headers = { 'idempotency-key': 'nightly of the 21st' };
  const first = await startRun(origin, 'files', { headers });
  const again = await startRun(origin, 'files', { headers });
  t.equal(again.headers.get('idempotency-replayed'), 'true');
  t.same(await again.json(), await first.json());
  t.match(await ports.queue.depth(), { queued: 1 });
});

t.test('repeats a failed run under its key on request', async (t) => {
  const { origin, ports } = await startApi(t);
  await ports.queue.start(async () => runResult('failed'));
  const headers = { 'idempotency-key': 'nightly' };
  const ask = async (query = ''): Promise<string> => {
    const response = await fetch(`${origin}/v1/pipelines/files/runs${query}`, {
      method: 'POST',
      headers: { ...asOperator, ...headers },
    });
    const { run_id: id } = (await response.json()) as { run_id: string };
    await fetch(`${origin}/runs/${id}?wait=60`);
    return id;
  };
  const first = await ask();
  t.equal(await ask(), first);
  t.not(await ask('?rerun_failed=true'), first);
});

t.test('pages of a list follow each other without gaps while new runs arrive', async (t) => {
  const { origin } = await startApi(t);
  const ids: string[] = [];
  const add = async (): Promise<void> => {
    const { run_id: id } = (await (await upload(origin)).json()) as { run_id: string };
    ids.unshift(id);
  };
  const page = async (path: string): Promise<Page> =>
    (await (
      await fetch(origin + path, { headers: { authorization: `Bearer ${tokens.maps}` } })
    ).json()) as Page;
  for (let run = 0; run < 5; run++) await add();
  const wanted = [...ids];
  const seen: string[] = [];
  let next: string | null = '/v1/pipelines/maps/runs?limit=2&status=queued';
  while (next !== null) {
    const { runs, next: following }: Page = await page(next);
    seen.push(...runs.map(({ run_id }) => run_id));
    t.ok(runs.length <= 2);
    next = following;
    await add();
  }
  t.same(seen, wanted);
  t.match(await page('/v1/pipelines/maps/runs?status=failed'), { runs: { length: 0 }, next: null });
});

/** An upload whose run the test starts and ends. */
async function heldRun(t: Test): Promise<{ api: Api; url: string; finish: () => void }> {
  const api = await startApi(t);
  let finish: () => void = () => undefined;
  const finished = new Promise<void>((resolve) => (finish = resolve));
  await api.ports.queue.start(async () => {
    await finished;
    return runResult('ok');
  });
  t.teardown(() => finish());
  const { run_id: id } = (await (await upload(api.origin)).json()) as { run_id: string };
  return { api, url: `${api.origin}/runs/${id}`, finish };
}

t.test('a held answer is sent when the run has finished, for GET and HEAD, with its ETag', async (t) => {
  const { api, url, finish } = await heldRun(t);
  const { queue } = api.ports;
  const untilFinished = queue.untilFinished.bind(queue);
  let holding = 0;
  let allHeld: () => void = () => undefined;
  const held = new Promise<void>((resolve) => (allHeld = resolve));
  queue.untilFinished = (...call) => {
    holding += 1;
    if (holding === 4) allHeld();
    return untilFinished(...call);
  };
  const running = await fetch(url);
  const etag = running.headers.get('etag') ?? 'none';
  t.match(await running.json(), { status: 'running' });
  const answers = [{}, {}, { method: 'HEAD' }, { headers: { 'if-none-match': etag } }].map((init) =>
    fetch(`${url}?wait=60`, init),
  );
  await held;
  t.match(
    await (await fetch(`${url}?wait=0`)).json(),
    { status: 'running' },
    'others are answered meanwhile',
  );
  finish();
  const [first, second, head, changed] = (await Promise.all(answers)) as [
    Response,
    Response,
    Response,
    Response,
  ];
  for (const response of [first, second, changed]) {
    t.equal(response.status, 200);
    t.match(await response.json(), { status: 'succeeded' });
  }
  const last = first.headers.get('etag') ?? 'none';
  t.not(last, etag);
  t.same([head.status, head.headers.get('etag'), await head.text()], [200, last, '']);
  const same = await fetch(`${url}?wait=60`, { headers: { 'if-none-match': last } });
  t.equal(same.status, 304, 'a finished run is answered immediately');
});

t.test('a held answer is sent at its timeout, and when the daemon begins to stop', async (t) => {
  const { api, url } = await heldRun(t);
  const etag = (await fetch(url)).headers.get('etag') ?? 'none';
  const [unchanged, running] = await Promise.all([
    fetch(`${url}?wait=1`, { headers: { 'if-none-match': etag } }),
    fetch(`${url}?wait=1`),
  ]);
  t.equal(unchanged.status, 304, 'nothing changed in that second');
  t.match(await running.json(), { status: 'running' });
  const { queue } = api.ports;
  const untilFinished = queue.untilFinished.bind(queue);
  const isHeld = new Promise<void>((resolve) => {
    queue.untilFinished = (...call) => {
      resolve();
      return untilFinished(...call);
    };
  });
  const held = fetch(`${url}?wait=60`);
  await isHeld;
  api.drain();
  t.match(await (await held).json(), { status: 'running' });
  t.match(
    await (await fetch(`${url}?wait=60`)).json(),
    { status: 'running' },
    'and none is held from then on',
  );
});

t.test('a disconnected client ends its wait and its queries', async (t) => {
  const { api, url } = await heldRun(t);
  const { queue } = api.ports;
  const untilFinished = queue.untilFinished.bind(queue);
  let over: () => void = () => undefined;
  const waitIsOver = new Promise<void>((resolve) => (over = resolve));
  let reach: () => void = () => undefined;
  const reached = new Promise<void>((resolve) => (reach = resolve));
  queue.untilFinished = async (...call) => {
    reach();
    await untilFinished(...call);
    over();
  };
  const leave = new AbortController();
  const left = fetch(`${url}?wait=60`, { signal: leave.signal });
  await reached;
  let lookups = 0;
  queue.find = async () => {
    lookups += 1;
    return undefined;
  };
  leave.abort();
  await t.rejects(left);
  await waitIsOver;
  await new Promise((resolve) => setImmediate(resolve));
  t.equal(lookups, 0);
});

t.test('the time to hold an answer is 0 to 60 seconds, in digits', async (t) => {
  const { origin } = await startApi(t);
  for (const wait of ['61', '-1', '1.5', '1e1', '0x1', '', '+1', 'all'])
    t.match(await (await fetch(`${origin}/runs/none?wait=${encodeURIComponent(wait)}`)).json(), {
      status: 400,
      code: 'invalid_request',
      detail: /"wait" must be a whole number from 0 to 60/,
    });
  t.equal((await fetch(`${origin}/runs/none?wait=60`)).status, 404, 'an unknown run is answered immediately');
});

t.test(
  'a pipeline is paused with the admin token and resumed with a token of the scope cancel',
  async (t) => {
    const { origin, ports, lines } = await startApi(t);
    const workers: string[] = [];
    await ports.queue.start(async ({ runId }) => {
      workers.push(runId);
      return runResult('ok');
    });
    const send = (what: string, init: RequestInit = {}, token = tokens.admin): Promise<Response> =>
      fetch(`${origin}/v1/pipelines/maps/${what}`, {
        method: 'POST',
        ...init,
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      });
    const list = async (): Promise<unknown> =>
      (
        await fetch(`${origin}/v1/pipelines/maps/runs`, {
          headers: { authorization: `Bearer ${tokens.maps}` },
        })
      ).json();
    const health = async (): Promise<unknown> => (await fetch(`${origin}/healthz`)).json();
    const gauge = async (): Promise<string[]> =>
      (await (await fetch(`${origin}/metrics`)).text())
        .split('\n')
        .filter((line) => line.startsWith('waybill_pipeline_paused'));
    t.match(await list(), { paused: null });
    t.match(await send('pause', {}, tokens.docs), { status: 403 }, 'a token of another pipeline cannot');
    t.match(await send('pause', {}, tokens.reader), { status: 403 }, 'a token without the scope cannot');

    const reason = 'the web server is being replaced';
    const answer = (await (await send('pause', { body: JSON.stringify({ reason }) })).json()) as {
      paused: { since: string };
    };
    t.match(answer, { pipeline_id: 'maps', paused: { reason } });
    t.match(await list(), { paused: answer.paused });
    t.match(await health(), { status: 'ok', details: { paused: ['maps'] } });
    t.match((await gauge()).sort(), [/docs"} 0$/, /files"} 0$/, /maps"} 1$/]);
    const { run_id: id } = (await (await upload(origin)).json()) as { run_id: string };
    const other = await upload(origin, { pipeline: 'docs', token: tokens.docs });
    const { run_id: otherId } = (await other.json()) as { run_id: string };
    await ports.queue.untilFinished(otherId, new AbortController().signal);
    t.same(workers, [otherId]);
    t.match(await (await fetch(`${origin}/runs/${id}`)).json(), { status: 'queued' });

    t.same(await (await send('resume', {}, tokens.maps)).json(), { pipeline_id: 'maps', paused: null });
    await ports.queue.untilFinished(id, new AbortController().signal);
    t.same(workers, [otherId, id]);
    t.same(await (await send('resume', { body: '{}' })).json(), { pipeline_id: 'maps', paused: null });
    t.notMatch(await health(), { details: { paused: [] } });
    t.match((await gauge()).sort()[2], /maps"} 0$/);
    const pauses = lines.filter(({ message }) => /^pipeline (paused|resumed)$/.test(message));
    t.match(pauses, [{ fields: { pipeline_id: 'maps', reason } }, { message: 'pipeline resumed' }]);
    t.equal(pauses.length, 2);

    for (const [body, detail] of [
      ['{"reason": 1}', /"reason" must be a string or null;/],
      ['{"reason": ""}', /"reason" is empty;/],
      [JSON.stringify({ reason: 'x'.repeat(201) }), /"reason" has more than 200 characters;/],
      [
        JSON.stringify({ reason: 'two\nlines' }),
        /"reason" has a character that is not allowed, such as a line break;/,
      ],
      [
        '{"reason": "two\\u2028lines"}',
        /"reason" has a character that is not allowed, such as a line break;/,
      ],
      ['{"until": "noon"}', /no property "until"/],
    ] as const) {
      const response = await send('pause', { body });
      t.equal(response.status, 400, body.slice(0, 20));
      t.match(await response.json(), { code: 'invalid_request', detail });
    }
    t.same(await ports.queue.pauses(), new Map());
  },
);

t.test('a run is cancelled by a token of its pipeline, whether it is waiting or running', async (t) => {
  const { origin, ports, lines } = await startApi(t);
  await ports.queue.start(
    (_job, { signal }) =>
      new Promise((_resolve, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason as Error)),
      ),
  );
  const start = async (): Promise<string> =>
    ((await (await upload(origin)).json()) as { run_id: string }).run_id;
  const [running, waiting, last] = [await start(), await start(), await start()];
  const cancel = (id: string, { pipeline = 'maps', token = tokens.maps } = {}): Promise<Response> =>
    fetch(`${origin}/v1/pipelines/${pipeline}/runs/${id}/cancel`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
    });
  t.equal((await cancel(waiting, { token: tokens.docs })).status, 403);
  t.equal(
    (await cancel(waiting, { pipeline: 'docs', token: tokens.docs })).status,
    404,
    'of another pipeline',
  );
  const cancelled = { status: 'failed', started_at: null, error: { code: 'cancelled' } };
  const first = await cancel(waiting);
  t.equal(first.status, 200);
  t.match(await first.json(), { run_id: waiting, ...cancelled });
  const again = await cancel(waiting);
  t.equal(again.status, 200);
  t.match(await again.json(), cancelled);
  const stopping = await cancel(running);
  t.equal(stopping.status, 202);
  t.match(await stopping.json(), { run_id: running, status: 'running' });
  const ended = await (await fetch(`${origin}/runs/${running}?wait=60`)).json();
  t.match(ended, { status: 'failed', error: { code: 'cancelled' } });
  t.equal((await cancel(last, { token: tokens.admin })).status, 202, 'the admin token can, too');
  await (await fetch(`${origin}/runs/${last}?wait=60`)).text();
  const metrics = await (await fetch(`${origin}/metrics`)).text();
  t.match(
    metrics,
    /waybill_runs_total\{pipeline="maps",status="cancelled"\} 1\n/,
    'reported once, by the API',
  );
  t.equal(lines.filter(({ message }) => message === 'run cancelled').length, 3);
});

t.test('notifies of the cancellation of a waiting run', async (t) => {
  const root = t.testdir({ incoming: {}, public: {} });
  addBundle(root, 'one');
  const configFile = path.join(root, 'waybill.yaml');
  writeFileSync(
    configFile,
    `
upload_tokens: [{id: ops, value_env: TOKEN, pipelines: [files]}]
server: {http: {listen: "127.0.0.1:0"}, staging: {directory: ./staging}, admin_token_env: ADMIN}
notifiers: [{id: journal, kind: file, path: ./events.jsonl, events: [bundle.publish_failed]}]
pipelines:
  - {id: files, source: {backend: local, path: ./incoming}, destinations: [{id: web, backend: local, path: ./public}]}
`,
  );
  const env = { TOKEN: tokens.docs, ADMIN: tokens.admin, HOME: root };
  const served = await serve({ configFile, log: silentLog, env });
  t.teardown(() => served.close());
  const asAdmin = { method: 'POST', headers: { authorization: `Bearer ${tokens.admin}` } };
  const pipeline = `${served.url}v1/pipelines/files`;
  t.equal((await fetch(`${pipeline}/pause`, asAdmin)).status, 200);
  const started = await startRun(served.url.replace(/\/$/, ''), 'files');
  const { run_id: id } = (await started.json()) as { run_id: string };
  t.equal((await fetch(`${pipeline}/runs/${id}/cancel`, asAdmin)).status, 200);
  t.equal((await fetch(`${pipeline}/runs/${id}/cancel`, asAdmin)).status, 200);
  await served.close();
  const lines = readFileSync(path.join(root, 'events.jsonl'), 'utf8').trimEnd().split('\n');
  t.match(
    lines.map((line) => JSON.parse(line) as unknown),
    [
      {
        type: 'bundle.publish_failed',
        data: { run_id: id, destination_id: null, error: { code: 'cancelled' } },
      },
    ],
  );
  t.equal(lines.length, 1, 'once');
});

t.test('repeats a failed run with the same bytes, or reads its source again', async (t) => {
  const { served, root } = await startDaemon(t);
  const base = served.url.replace(/\/$/, '');
  const again = (pipeline: string, id: string): Promise<Response> =>
    fetch(`${base}/v1/pipelines/${pipeline}/runs/${id}/rerun`, { method: 'POST', headers: asOperator });
  const archive: Buffer[] = [];
  for await (const chunk of tar.create({ cwd: path.join(root, 'incoming/one'), portable: true }, ['.']))
    archive.push(chunk);
  // A file at the bundle's destination.
  const blocked = path.join(root, 'docs');
  writeFileSync(blocked, 'in the way');
  const uploaded = await fetch(`${base}/v1/pipelines/docs/upload`, {
    method: 'POST',
    headers: { ...asOperator, 'content-type': 'application/x-tar' },
    body: new Uint8Array(Buffer.concat(archive)),
  });
  const failed = await follow(served, uploaded);
  t.match(failed, { status: 'failed', rerun_of: null });
  t.equal(stagedIn(path.join(root, 'staging')).length, 1, 'its bundle is stored');
  rmSync(blocked);
  const response = await again('docs', failed.run_id);
  t.equal(response.status, 202);
  t.equal(response.headers.get('idempotency-replayed'), null);
  const done = await follow(served, response);
  t.match(done, { status: 'succeeded', rerun_of: failed.run_id, pipeline_id: 'docs' });
  const [published = 'nothing'] = readdirSync(blocked);
  t.equal(readFileSync(path.join(blocked, published, 'a.txt'), 'utf8'), 'one');
  const repeated = await again('docs', failed.run_id);
  t.equal(repeated.headers.get('idempotency-replayed'), 'true');
  t.match(await repeated.json(), { run_id: done.run_id });
  t.match(await follow(served, await again('docs', done.run_id)), { summary: { skip_same: 1 } });
  t.equal(stagedIn(path.join(root, 'staging')).length, 1, 'one bundle for all three');

  const read = await follow(served, await startRun(base, 'files'));
  addBundle(root, 'three');
  t.match(await follow(served, await again('files', read.run_id)), {
    status: 'succeeded',
    rerun_of: read.run_id,
    summary: { publish_new: 1, skip_same: 2 },
  });
  t.match(await (await again('docs', read.run_id)).json(), { status: 404, code: 'run_not_found' });
});

t.test('names the invalid parameters of a list', async (t) => {
  const { origin } = await startApi(t);
  const headers = { authorization: `Bearer ${tokens.maps}` };
  for (const [query, detail] of [
    ['limit=0', /"limit" must be a whole number from 1 to 500/],
    ['limit=501', /"limit" must be a whole number from 1 to 500/],
    ['limit=two', /"limit" must be a whole number from 1 to 500/],
    ['limit=', /"limit" must be a whole number from 1 to 500/],
    ['limit=1&limit=2', /"limit" is given 2 times/],
    ['status=done', /"status" must be one of accepted, queued, running, succeeded, failed/],
    ['before=%ZZ', /"before" is not valid percent-encoding/],
    [`before=${'x'.repeat(256)}`, /"before" must be at most 255 characters long/],
    ['state=failed', /"state" is not a parameter of this route; it takes limit, status, before/],
    ['__proto__=1', /"__proto__" is not a parameter of this route/],
    ['limit=0&status=done', /"limit" must be .*; "status" must be one of/],
  ] as const) {
    const response = await fetch(`${origin}/v1/pipelines/maps/runs?${query}`, { headers });
    t.equal(response.status, 400, query);
    t.match(await response.json(), { code: 'invalid_request', detail }, query);
  }
});

t.test('a daemon starts scheduled runs, shows the next ones, and counts them', async (t) => {
  const self = 'schedule: "0 0 1 1 *", timezone: Asia/Tokyo, catch_up: once, watch: true, settle: 100ms';
  const { served, root } = await startDaemon(t, self);
  const base = served.url.replace(/\/$/, '');
  const list = async (): Promise<RunRecord[]> => {
    const response = await fetch(`${base}/v1/pipelines/files/runs`, { headers: asOperator });
    return ((await response.json()) as Page).runs;
  };
  const until = async (right: (runs: RunRecord[]) => boolean): Promise<RunRecord[]> => {
    for (;;) {
      const runs = await list();
      if (right(runs) && runs.every(({ finished_at }) => finished_at !== null)) return runs;
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const [first] = await until(({ length }) => length > 0);
  t.match(first, { status: 'succeeded', triggered_by: { kind: 'watch', tick: null } });
  addBundle(root, 'three');
  await until((runs) =>
    runs.some(({ destinations }) => destinations.some((one) => one.destination_path === 'three')),
  );
  t.equal(readFileSync(path.join(root, 'public/three/a.txt'), 'utf8'), 'three');

  const pipelines: unknown = await (await fetch(`${base}/v1/pipelines`, { headers: asOperator })).json();
  const year = new Date(Date.now() + 9 * 3_600_000).getUTCFullYear() + 1;
  t.match(pipelines, {
    pipelines: [
      { pipeline_id: 'docs', schedule: null, watch: false, next_run: null },
      {
        pipeline_id: 'files',
        schedule: { cron: '0 0 1 1 *', timezone: 'Asia/Tokyo', catch_up: 'once' },
        watch: true,
        next_run: new Date(Date.UTC(year, 0, 1) - 9 * 3_600_000).toISOString(),
      },
    ],
  });
  const metrics = await (await fetch(`${base}/metrics`)).text();
  t.match(metrics, /^waybill_triggers_total\{pipeline="files",kind="watch",outcome="started"\} [1-9]/m);
  t.match(metrics, /^waybill_triggers_total\{pipeline="files",kind="schedule",outcome="started"\} 0$/m);
  t.match(metrics, /^waybill_schedule_missed_total\{pipeline="files",reason="down"\} 0$/m);
  t.match(metrics, /^waybill_watch_polled\{pipeline="files"\} [01]$/m);
});
