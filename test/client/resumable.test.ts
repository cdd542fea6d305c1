import { once } from 'node:events';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import type net from 'node:net';
import path from 'node:path';
import t, { type Test } from 'tap';
import { type RunningServer, serve } from '../../src/cli/daemon/serve.ts';
import { type Client, connect, type ConnectionOptions, type RunRecord } from '../../src/client/client.ts';
import { systemClock } from '../../src/core/lib/clock.ts';
import { asWaybillError, type WaybillError } from '../../src/core/lib/errors.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import { startApi, tokens } from '../api/harness.ts';
import { noise } from '../fixtures/noise.ts';
import { startCuttingProxy } from '../services/cutting-proxy.ts';
import { freePort } from '../services/free-port.ts';

/** Uploads in several requests: a real daemon, broken connections, killed processes, and unusual servers. */

const token = 'the-token-of-ci-on-this-host';
const chunkBytes = 64 << 10;
const size = 3 << 20;
const quick = {
  patience: { baseMs: 1, capMs: 20, forMs: 60_000, tries: 3 },
  // A stopping daemon requests a pause of half a minute.
  clock: {
    ...systemClock,
    sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(Math.min(ms, 100), signal),
  },
};

interface Place {
  root: string;
  port: number;
  site: string;
  start: () => Promise<RunningServer>;
}

async function layOut(t: Test, server = ''): Promise<Place> {
  const port = await freePort();
  const root = t.testdir({
    'waybill.yaml': `upload_tokens: [{id: ci, value_env: TOKEN, pipelines: [maps]}]
server:
  http: {listen: "127.0.0.1:${port}"}
  staging: {directory: ./staging}
${server}
pipelines:
  - {id: maps, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./web}]}
`,
    site: {},
  });
  const site = path.join(root, 'site');
  writeFileSync(path.join(site, 'data.bin'), noise(size));
  const configFile = path.join(root, 'waybill.yaml');
  return {
    ...{ root, port, site },
    start: () => serve({ configFile, log: silentLog, env: { TOKEN: token, HOME: root } }),
  };
}

async function started(t: Test, place: Place): Promise<RunningServer> {
  const daemon = await place.start();
  t.teardown(() => daemon.close());
  return daemon;
}

const clientAt = (port: number, options: Partial<ConnectionOptions> = {}): Client =>
  connect({ url: `http://127.0.0.1:${port}`, token, ...quick, ...options });

async function runsOf(client: Client): Promise<RunRecord[]> {
  const runs: RunRecord[] = [];
  for await (const run of client.runs.list()) runs.push(run);
  return runs;
}

const wasPublished = ({ root }: Place): boolean =>
  readFileSync(path.join(root, 'web/n/data.bin')).equals(noise(size));

const failureOf = (work: Promise<unknown>): Promise<WaybillError> =>
  work.then(
    () => t.fail('it succeeded') as never,
    (error: unknown) => asWaybillError(error),
  );

/** Bytes in addition to the archive that a push may take: headers, and polling the run. */
const besides = 30_000;

t.test(
  'a connection cut many times transfers the archive once, and one more chunk for each cut',
  async (t) => {
    const place = await layOut(t);
    await started(t, place);
    const proxy = await startCuttingProxy(t, place.port);
    let [retries, sent] = [0, 0];
    const client = clientAt(proxy.port, { onRetry: () => void (retries += 1) });
    const cuts = 10;
    let left = cuts;
    const outcome = await client.push('maps', await tarOf(place), {
      ...{ resumable: 'always', chunkBytes },
      onSent(bytes) {
        sent += bytes;
        // The previous connection was accepted.
        if (left === 0 || proxy.cuts() < cuts - left) return;
        left -= 1;
        proxy.cutAfter(Math.floor((chunkBytes * left) / cuts));
      },
    });
    t.match(outcome, { isReplayed: false, run: { status: 'succeeded' } });
    t.equal(proxy.cuts(), cuts);
    t.ok(retries >= cuts);
    t.ok(
      proxy.passed('to the server') <= size + (cuts + 1) * chunkBytes + besides,
      `${proxy.passed('to the server')} bytes of ${size}`,
    );
    t.ok(sent >= size && sent < size + 5000, 'a resent byte counts once');
    t.ok(wasPublished(place));
    t.equal((await runsOf(client)).length, 1);
  },
);

t.test('lost answers and a restart in the middle and at the last byte lead to one publication', async (t) => {
  const place = await layOut(t, '  queue: {driver: embedded, directory: ./queue}');
  let daemon = await place.start();
  t.teardown(() => daemon.close());
  const proxy = await startCuttingProxy(t, place.port);
  const client = clientAt(proxy.port);
  let [sent, restarting] = [0, null as Promise<void> | null];
  const outcome = await client.push('maps', await tarOf(place), {
    ...{ resumable: 'always', chunkBytes },
    onSent(bytes) {
      sent += bytes;
      if (sent > size / 2)
        restarting ??= (async () => {
          await daemon.close();
          daemon = await place.start();
          // From here on, every second response is lost.
          proxy.cutAfter(0, 6, 'from the server');
        })();
    },
  });
  await restarting;
  t.match(outcome.run, { status: 'succeeded' });
  t.ok(proxy.cuts() > 0);
  t.ok(wasPublished(place));
  t.equal((await runsOf(clientAt(place.port))).length, 1);
});

for (const kind of ['directory', 'archive'] as const)
  t.test(`a push continues the upload of one that ended, in another process (${kind})`, async (t) => {
    const place = await layOut(t);
    await started(t, place);
    const proxy = await startCuttingProxy(t, place.port);
    const bundle = kind === 'directory' ? place.site : path.join(place.root, 'site.tar');
    const naming = kind === 'directory' ? { name: 'n' } : {};
    if (kind === 'archive') writeFileSync(bundle, await packed(place.site));
    const ended = new AbortController();
    let sent = 0;
    const options = { ...naming, resumable: 'always', chunkBytes } as const;
    const reason = new Error('killed');
    const first = clientAt(proxy.port, { signal: ended.signal }).push('maps', bundle, {
      ...options,
      onSent: (bytes) => (sent += bytes) > size / 2 && ended.abort(reason),
    });
    t.equal(await first.catch((error: unknown) => error), reason);
    const before = proxy.passed('to the server');
    t.ok(before > size / 3);
    let progressBytes = 0;
    const client = clientAt(proxy.port);
    const outcome = await client.push('maps', bundle, {
      ...options,
      onSent: (bytes) => (progressBytes += bytes),
    });
    t.match(outcome, { isReplayed: false, run: { status: 'succeeded' } });
    const after = proxy.passed('to the server') - before;
    t.ok(after < size - before + chunkBytes + besides, `${after} bytes of ${size} were sent the second time`);
    t.ok(progressBytes >= size, 'progress begins at the resumed offset');
    t.ok(wasPublished(place));

    const third = await client.push('maps', bundle, options);
    t.match(third, { runId: outcome.runId, isReplayed: true, run: { status: 'succeeded' } });
    t.ok(proxy.passed('to the server') - before - after < besides, 'received bytes are not sent again');
    t.equal((await runsOf(client)).length, 1);
  });

async function packed(directory: string): Promise<Buffer> {
  const { packDirectory } = await import('../../src/core/bundle/pack/pack-directory.ts');
  const { parsePackSettings } = await import('../../src/core/bundle/pack/pack-settings.ts');
  const chunks: Uint8Array[] = [];
  const bundle = await packDirectory(directory, parsePackSettings({ name: 'n' }));
  for await (const chunk of bundle.open()) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** Pushes until part of the upload has arrived, then aborts. */
async function endedInTheMiddle(place: Place): Promise<void> {
  const ended = new AbortController();
  let sent = 0;
  const work = clientAt(place.port, { signal: ended.signal }).push('maps', place.site, {
    ...{ name: 'n', resumable: 'always', chunkBytes },
    onSent: (bytes) => (sent += bytes) > size / 2 && ended.abort(),
  });
  await work.catch(() => undefined);
}

t.test("if the daemon's copy is damaged, the whole archive is sent again", async (t) => {
  const place = await layOut(t);
  const daemon = await place.start();
  await endedInTheMiddle(place);
  await daemon.close();
  const partial = path.join(place.root, 'staging/partial');
  const bytes = readdirSync(partial).find((name) => name.endsWith('.bytes')) ?? 'none';
  // Like a file after a power failure whose bytes were never written to disk.
  writeFileSync(path.join(partial, bytes), Buffer.alloc(statSync(path.join(partial, bytes)).size));
  await started(t, place);
  const options = { name: 'n', resumable: 'always', chunkBytes } as const;
  t.match(await clientAt(place.port).push('maps', place.site, options), { run: { status: 'succeeded' } });
  t.ok(wasPublished(place));
});

t.test('does not continue the upload of another archive of the same bundle', async (t) => {
  const place = await layOut(t);
  await started(t, place);
  await endedInTheMiddle(place);
  const other = path.join(place.root, 'site.tar');
  const { gunzipSync } = await import('node:zlib');
  writeFileSync(other, gunzipSync(await packed(place.site)));
  const retries: string[] = [];
  const client = clientAt(place.port, { onRetry: ({ code }) => void retries.push(code) });
  const outcome = await client.push('maps', other, { resumable: 'always', chunkBytes });
  t.match(outcome, { run: { status: 'succeeded' } });
  t.same(retries, []);
  t.ok(wasPublished(place));
});

t.test('two concurrent pushes of one bundle lead to one run', async (t) => {
  const place = await layOut(t);
  await started(t, place);
  const options = { name: 'n', resumable: 'always', chunkBytes } as const;
  const outcomes = await Promise.all(
    [1, 2, 3].map(() => clientAt(place.port).push('maps', place.site, options)),
  );
  t.equal(new Set(outcomes.map(({ runId }) => runId)).size, 1);
  t.equal((await runsOf(clientAt(place.port))).length, 1);
  t.ok(wasPublished(place));
});

t.test('restarts an upload that the daemon has lost, a limited number of times', async (t) => {
  const place = await layOut(t);
  await started(t, place);
  const methods: string[] = [];
  let lost = 2;
  // Like a load balancer that sends part of an upload to another host.
  const balancer = http.createServer((req, res) => {
    methods.push(req.method ?? '');
    const isLost = req.method === 'PATCH' && (lost -= 1) >= 0;
    const target = http.request(
      { port: place.port, path: isLost ? `${req.url}x` : req.url, method: req.method, headers: req.headers },
      (answer) => {
        res.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(res);
      },
    );
    target.on('error', () => res.destroy());
    req.pipe(target);
  });
  balancer.listen(0, '127.0.0.1');
  await once(balancer, 'listening');
  t.teardown(() => {
    balancer.closeAllConnections();
    balancer.close();
  });
  const { port } = balancer.address() as net.AddressInfo;
  const options = { resumable: 'always', chunkBytes } as const;
  t.match(await clientAt(port).push('maps', place.site, { ...options, name: 'n' }), {
    run: { status: 'succeeded' },
  });
  t.ok(wasPublished(place));
  lost = Infinity;
  methods.length = 0;
  const never = await failureOf(clientAt(port).push('maps', place.site, { ...options, name: 'm' }));
  t.match(never, { code: 'upload_not_found' });
  t.equal(methods.filter((method) => method === 'PATCH').length, 5);
});

t.test('without resumable uploads, the archive is sent in one request', async (t) => {
  const large = 17 << 20;
  const place = await layOut(t, '  resumable: {max_uploads: 0}');
  writeFileSync(path.join(place.site, 'large.bin'), Buffer.alloc(large));
  const daemon = await place.start();
  const reasons: string[] = [];
  const onPlain = ({ code }: WaybillError): void => void reasons.push(code);
  const push = (options: object): Promise<unknown> =>
    clientAt(place.port).push('maps', place.site, {
      name: 'n',
      onPlain,
      salt: String(Math.random()),
      ...options,
    });
  t.match(await push({}), { run: { status: 'succeeded' } });
  t.same(reasons.splice(0), ['not_found'], 'disabled, or an older version');
  t.match(await failureOf(push({ resumable: 'always' })), { code: 'not_found' });
  t.match(await push({ resumable: 'never' }), { run: { status: 'succeeded' } });
  t.same(reasons, []);
  await daemon.close();

  const full = await layOut(t, '  resumable: {max_bytes: 1MiB}');
  writeFileSync(path.join(full.site, 'large.bin'), Buffer.alloc(large));
  await started(t, full);
  const outcome = await clientAt(full.port).push('maps', full.site, { name: 'n', onPlain });
  t.match(outcome, { run: { status: 'succeeded' } });
  t.same(reasons, ['upload_too_large'], 'it exceeds the limit');
});

t.test('archives of 16 MiB or more are sent in several requests', async (t) => {
  const place = await layOut(t);
  await started(t, place);
  const paths: string[] = [];
  const proxy = http.createServer((req, res) => {
    paths.push(`${req.method} ${req.url}`);
    res.writeHead(503, { 'content-type': 'text/plain' }).end();
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.teardown(() => proxy.close());
  const { port } = proxy.address() as net.AddressInfo;
  const patience = { forMs: 0, tries: 1, baseMs: 1, capMs: 1 };
  for (const [bytes, path] of [
    [(16 << 20) + 1, 'GET /v1/pipelines/maps/uploads?idempotency_key='],
    [1 << 20, 'POST /v1/pipelines/maps/upload?'],
  ] as const) {
    writeFileSync(`${place.site}/data.bin`, Buffer.alloc(bytes));
    await failureOf(clientAt(port, { patience }).push('maps', place.site, { whole: true }));
    t.equal(paths.splice(0)[0]?.startsWith(path), true, path);
  }
});

t.test('waits for a full queue with the last byte only, as long as requested', async (t) => {
  const api = await startApi(t, { http: { queueSize: 1 }, maxUploadSize: 2 << 20 });
  const slot = await api.ports.queue.reserve({ pipelineId: 'docs' });
  await slot.release();
  const site = t.testdir({ 'data.bin': Buffer.alloc(1000).toString('latin1') });
  const [codes, pauses]: [string[], number[]] = [[], []];
  let held: typeof slot | null = null;
  const client = connect({
    ...{ url: api.origin, token: tokens.maps, ...quick },
    clock: {
      ...systemClock,
      sleep: async (ms) => {
        pauses.push(ms);
        if (codes.length === 3) await held?.release();
      },
    },
    onRetry: ({ code }) => void codes.push(code),
  });
  const archive = await packed(site);
  let opened = 0;
  const outcome = await client.push(
    'maps',
    {
      contentType: 'application/gzip',
      idempotencyKey: 'k',
      size: archive.length,
      open: async function* () {
        opened += 1;
        // Once the upload has started, which also needs a slot.
        held ??= await api.ports.queue.reserve({ pipelineId: 'docs' });
        yield archive;
      },
    },
    { resumable: 'always', wait: false },
  );
  t.match(outcome, { isReplayed: false, position: 1 });
  t.same(codes, ['queue_full', 'queue_full', 'queue_full']);
  t.ok(
    pauses.every((ms) => ms >= 1000),
    'as requested by the daemon',
  );
  t.equal(opened, 1, 'no file is read again');
});

t.test('a proxy that accepts only short bodies gets short ones', async (t) => {
  const place = await layOut(t);
  await started(t, place);
  const most = 100_000;
  let refused = 0;
  const proxy = http.createServer();
  const handle = (req: http.IncomingMessage, res: http.ServerResponse): void => {
    if (Number(req.headers['content-length'] ?? 0) > most) {
      refused += 1;
      res.writeHead(413, { 'content-type': 'text/html', connection: 'close' }).end('<h1>413</h1>');
      return;
    }
    if (req.headers.expect !== undefined) res.writeContinue();
    const { port } = place;
    const target = http.request(
      { port, path: req.url, method: req.method, headers: req.headers },
      (answer) => {
        res.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(res);
      },
    );
    target.on('error', () => res.destroy());
    req.pipe(target);
  };
  proxy.on('request', handle).on('checkContinue', handle);
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.teardown(() => {
    proxy.closeAllConnections();
    proxy.close();
  });
  const client = clientAt((proxy.address() as net.AddressInfo).port);
  t.match(await failureOf(client.push('maps', await tarOf(place), { resumable: 'never' })), {
    code: 'upload_too_large',
    hint: /proxy/,
  });
  const outcome = await client.push('maps', place.site, {
    ...{ name: 'n', resumable: 'always', chunkBytes: 256 << 10 },
  });
  t.match(outcome, { run: { status: 'succeeded' } });
  t.equal(refused, 3, 'the plain upload, and two shortened requests');
  t.ok(wasPublished(place));
});

async function tarOf({ root, site }: Place): Promise<string> {
  const file = path.join(root, 'site.tgz');
  writeFileSync(file, await packed(site));
  return file;
}
