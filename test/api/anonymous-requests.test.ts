import { EventEmitter, once } from 'node:events';
import http, { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { createBodyMemory, smallBodyBytes } from '../../src/api/http/request/request-body.ts';
import { requestContext } from '../../src/api/http/request/request-context.ts';
import { createShares } from '../../src/api/http/request/shares.ts';
import { metricsRoute } from '../../src/api/metrics/metrics-route.ts';
import { maxRequestBytes } from '../../src/api/scene-maps/document-body.ts';
import { parseConfig } from '../../src/core/config/load-config.ts';
import { systemClock } from '../../src/core/lib/clock.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import { sceneMapPool } from '../../src/workers/threads/scene-map-pool.ts';
import { type Api, connect, type RawConnection, startApi, tokens, uploadHead } from './harness.ts';
import { answered } from './stalled-bodies.ts';

/** Requests without a token never keep the daemon from answering others. */

const validatePath = '/v1/scene-maps/validate';
const json = { 'content-type': 'application/json' };
const hangingThread = new URL('../fixtures/workers/hanging-scene-maps.mjs', import.meta.url);

function hangingPool(t: Test, limitMs: number): ReturnType<typeof sceneMapPool> {
  const { config } = parseConfig(Buffer.from('pipelines: []'), '/etc/waybill.yml', { home: '/' });
  const options = { config, env: {}, clock: systemClock, log: silentLog, workerFile: hangingThread };
  const pool = sceneMapPool(options, limitMs);
  t.teardown(() => pool.close());
  return pool;
}

/** A client that has sent all bytes of a document except the last. */
async function nearlyWhole(t: Test, { origin }: Pick<Api, 'origin'>): Promise<RawConnection> {
  const client = await connect(t, origin);
  const head = { 'Content-Type': 'application/json', 'Content-Length': maxRequestBytes };
  client.socket.write(uploadHead(head, validatePath));
  client.socket.write(Buffer.alloc(maxRequestBytes - 1, ' '));
  return client;
}

/** The status of the response to a small document from another client. */
function validateFrom(localAddress: string, { origin }: Pick<Api, 'origin'>): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const options = { method: 'POST', localAddress, headers: json, agent: false };
    const request = http.request(`${origin}${validatePath}`, options, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    request.on('error', reject).end('{}');
  });
}

t.test('nearly complete bodies never delay login, reload, missing or other clients', async (t) => {
  const api = await startApi(t);
  const clients = await Promise.all(Array.from({ length: 16 }, () => nearlyWhole(t, api)));
  const refused = await Promise.any(clients.map(({ until }) => until(answered)));
  t.match(refused, /^HTTP\/1.1 503 [^]*Retry-After: 5\r\n[^]*"code":"server_busy"/);
  const post = async (path: string, init: RequestInit): Promise<number> =>
    (await fetch(`${api.origin}${path}`, { method: 'POST', redirect: 'manual', ...init })).status;
  const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });
  t.equal(await post('/console/login', { body: new URLSearchParams({ token: tokens.maps }) }), 303, 'login');
  t.equal(await post('/v1/reload', { headers: bearer(tokens.admin) }), 200, 'reload');
  const missing = { headers: { ...json, ...bearer(tokens.maps) }, body: '{}' };
  t.equal(await post('/v1/pipelines/maps/missing', missing), 422, 'missing');
  t.equal(await validateFrom('127.0.0.2', api), 200, 'a document of another client');
  for (const { socket } of clients) socket.destroy();
});

t.test('bodies with a token, bodies without one and small bodies have separate pools', async (t) => {
  const mebibyte = 1024 * 1024;
  const memory = createBodyMemory(64 * mebibyte);
  const hold = (context: object, bytes: number, maxBytes = 9 * mebibyte): void => {
    const req = new http.IncomingMessage(null as never);
    Object.assign(requestContext(req), context);
    memory.hold(req, new http.ServerResponse(req), bytes, maxBytes);
  };
  const of = (tokenId: string): object => ({ fields: { token_id: tokenId } });
  const from = (client: string): object => ({ client });
  const busy = { code: 'server_busy' };
  hold(from('192.0.2.1'), 9 * mebibyte);
  t.throws(() => hold(from('192.0.2.1'), 1), busy, 'a client has its own limit');
  hold(from('2001:db8::1'), 7 * mebibyte);
  t.throws(() => hold(from('2001:db8::2'), 1), busy, 'all clients together have a limit');
  hold(of('ci'), 32 * mebibyte);
  t.throws(() => hold(of('ci'), 1), busy, 'a token has its own limit');
  hold(of('docs'), 32 * mebibyte);
  t.throws(() => hold(of('maps'), 1), busy, 'all tokens together have a limit');
  hold(from('192.0.2.1'), 100, smallBodyBytes);
  hold(of('ci'), 100, smallBodyBytes);
  t.equal(memory.held(), 80 * mebibyte + 200);
});

t.test('a body that is read after its client has disconnected uses no memory', async (t) => {
  const memory = createBodyMemory(64 * 1024 * 1024);
  const server = http.createServer();
  t.teardown(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const client = http.request({ host: '127.0.0.1', port, method: 'POST' }).on('error', () => undefined);
  client.write('body');
  const [req, res] = (await once(server, 'request')) as [http.IncomingMessage, http.ServerResponse];
  memory.hold(req, res, 100, smallBodyBytes);
  client.destroy();
  await once(res, 'close');
  memory.hold(req, res, 100, smallBodyBytes);
  t.equal(memory.held(), 0);
});

t.test('a released share can be taken again', (t) => {
  const shares = createShares({ total: 3, perOwner: 2 });
  t.equal(shares.take('a', 2), null);
  t.equal(shares.take('a', 1), 'owner');
  t.equal(shares.take('b', 2), 'total');
  shares.give('a', 2);
  t.equal(shares.take('b', 2), null);
  t.equal(shares.taken(), 2);
  t.end();
});

t.test('an endless check of a scene map does not delay other requests', async (t) => {
  const api = await startApi(t, { ports: { sceneMaps: hangingPool(t, 600_000) } });
  const checks = Array.from({ length: 5 }, async () => {
    const body = { method: 'POST', headers: json, body: '{}' };
    return (await fetch(`${api.origin}${validatePath}`, body)).status;
  });
  const unanswered = checks.map((check) => check.catch(() => 0));
  t.equal(await Promise.race(unanswered), 503, 'a client may have four concurrent checks');
  t.equal((await fetch(`${api.origin}/livez`)).status, 200);
});

t.test('a scene map that is not checked in time is 503, and its thread is terminated', async (t) => {
  const pool = hangingPool(t, 100);
  const file = { name: 'map.json', bytes: Buffer.from('{}') };
  const request = { runId: 'scene-map.1', pipelineId: '', file, transcript: null };
  const check = pool.check({ ...request, schemaOnly: false, maxReported: 10 });
  await t.rejects(check, { code: 'server_busy', message: /not checked within/ });
});

t.test('a report has at most 1,000 findings, and notes that there are more', async (t) => {
  const { origin } = await startApi(t);
  const body = JSON.stringify({ scenes: Array.from({ length: 2_000 }, () => ({})) });
  const response = await fetch(`${origin}${validatePath}`, { method: 'POST', headers: json, body });
  const { files } = (await response.json()) as { files: { findings: { code: string }[] }[] };
  t.equal(files[0]?.findings.length, 1_001);
  t.equal(files[0]?.findings.at(-1)?.code, 'too_many_findings');
});

t.test('protect_scene_maps requires a token before it reads the document', async (t) => {
  const { origin } = await startApi(t, { http: { protectSceneMaps: true } });
  const { socket, until } = await connect(t, origin);
  const head = { 'Content-Type': 'application/json', 'Content-Length': 2, Expect: '100-continue' };
  socket.write(uploadHead({ ...head, Authorization: 'Bearer guess' }, validatePath));
  t.match(await until(answered), /^HTTP\/1.1 401 [^]*WWW-Authenticate: Bearer /i);
  const headers = { ...json, authorization: `Bearer ${tokens.maps}` };
  const response = await fetch(`${origin}${validatePath}`, { method: 'POST', headers, body: '{}' });
  t.equal(response.status, 200);
});

t.test('requests for metrics that arrive together share one collection', async (t) => {
  let collections = 0;
  let arrived = 0;
  const both = new EventEmitter();
  const text = async (): Promise<string> => {
    collections += 1;
    if (arrived < 2) await once(both, 'arrived');
    return `collection ${collections}`;
  };
  const configured = { get: () => ({ metricsToken: null }) };
  const handle = metricsRoute.handle({ metrics: { contentType: 'text/plain', text }, configured }, []);
  const server = createServer((req, res) => {
    (handle as unknown as RequestListener)(req, res);
    if ((arrived += 1) === 2) both.emit('arrived');
  });
  t.teardown(() => server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const collect = async (): Promise<string> => (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  t.same(await Promise.all([collect(), collect()]), ['collection 1', 'collection 1']);
  t.equal(await collect(), 'collection 2');
});
