import t from 'tap';
import { requestLevel } from '../../../src/api/http/request-log.ts';
import { manualClock } from '../../workers/manual-clock.ts';
import { connect, stageAnything, startApi, upload, uploadHead } from '../harness.ts';

t.test('a line has the route, the bytes in both directions and the time', async (t) => {
  const { origin, lines } = await startApi(t);
  const response = await upload(origin, { body: 'x'.repeat(321) });
  const body = await response.text();
  await (await fetch(`${origin}/runs/none`, { method: 'HEAD' })).text();
  await (await fetch(`${origin}/elsewhere?token=x`)).text();
  const [first, second, third] = lines.map(({ fields }) => fields);
  t.match(first, {
    method: 'POST',
    route: '/v1/pipelines/{pipeline_id}/upload',
    path: '/v1/pipelines/maps/upload',
    status: 202,
    bytes_received: 321,
    bytes_sent: body.length,
    request_id: response.headers.get('x-request-id'),
  });
  t.type(first?.['ms'], 'number');
  t.match(second, {
    route: '/runs/{run_id}',
    path: '/runs/none',
    status: 404,
    bytes_received: 0,
    bytes_sent: 0,
  });
  t.match(third, { route: null, path: '/elsewhere', status: 404, code: 'not_found' });
});

t.test('the client is the peer of the connection, or the address from a trusted proxy', async (t) => {
  const forwarded = { 'x-forwarded-for': '203.0.113.9' };
  for (const [trustedProxies, client] of [
    [[], '127.0.0.1'],
    [['192.0.2.1'], '127.0.0.1'],
    [['loopback'], '203.0.113.9'],
  ] as const) {
    const { origin, lines } = await startApi(t, { http: { trustedProxies: [...trustedProxies] } });
    await (await fetch(`${origin}/healthz`, { headers: forwarded })).text();
    t.equal(lines[0]?.fields['client'], client);
  }
});

t.test('the line of a request that its client aborted has the client', async (t) => {
  const { origin, lines, staged } = await startApi(t);
  for (const leave of ['destroy', 'resetAndDestroy'] as const) {
    const { socket, closed } = await connect(t, origin);
    socket.write(`${uploadHead({ 'Content-Length': 100 })}some`);
    while ((await staged()).length === 0) await new Promise((resolve) => setImmediate(resolve));
    const before = lines.length;
    socket[leave]();
    await closed.catch(() => undefined);
    while (lines.length === before) await new Promise((resolve) => setImmediate(resolve));
    t.match(lines.at(-1), {
      message: 'request aborted by the client',
      fields: { client: '127.0.0.1', status: null },
    });
  }
});

t.test('an address from a proxy header is logged if it is an IP address, without its port', async (t) => {
  const { origin, lines } = await startApi(t, { http: { trustedProxies: ['loopback'] } });
  for (const [sent, client] of [
    ['unknown', '127.0.0.1'],
    ['<script>', '127.0.0.1'],
    ['203.0.113.9:4711', '203.0.113.9'],
    ['[2001:db8::9]:4711', '2001:db8::9'],
    ['[2001:db8::9]', '2001:db8::9'],
    ['203.0.113.9:x', '127.0.0.1'],
    ['1.2.3:80', '127.0.0.1'],
    ['x'.repeat(4000), '127.0.0.1'],
    ['2001:db8::9', '2001:db8::9'],
  ] as const) {
    await (await fetch(`${origin}/healthz`, { headers: { 'x-forwarded-for': sent } })).text();
    t.equal(lines.at(-1)?.fields['client'], client, sent.slice(0, 20));
  }
});

t.test('a level is selected for each request by its result', async (t) => {
  const fine = { status: 200, isWhole: true, isDefect: false };
  const done = {
    fine,
    probe: { ...fine, isProbe: true },
    redirected: { ...fine, status: 304 },
    refused: { ...fine, status: 404 },
    'a probe that is refused': { ...fine, status: 503, isProbe: true },
    'left before the answer': { ...fine, status: null, isWhole: false },
    'left during the answer': { ...fine, isWhole: false },
    'failed by a defect': { ...fine, status: 500, isDefect: true },
  };
  const levels = Object.entries(done).map(([name, one]) => [
    name,
    ...(['all', 'errors', 'none'] as const).map((requests) => requestLevel(one, requests)),
  ]);
  t.strictSame(levels, [
    ['fine', 'info', null, null],
    ['probe', 'debug', null, null],
    ['redirected', 'info', null, null],
    ['refused', 'info', 'info', null],
    ['a probe that is refused', 'info', 'info', null],
    ['left before the answer', 'info', 'info', null],
    ['left during the answer', 'info', 'info', null],
    ['failed by a defect', 'error', 'error', 'error'],
  ]);
});

t.test('probes are logged at debug, and the level can change while the daemon runs', async (t) => {
  let isBroken = false;
  const { origin, lines, ports } = await startApi(t, {
    stage: (request) => (isBroken ? Promise.reject(new TypeError('a defect')) : stageAnything(request)),
  });
  const { logging } = ports;
  const linesOf = async (...calls: (() => Promise<Response>)[]): Promise<unknown[]> => {
    const before = lines.length;
    for (const call of calls) await (await call()).text();
    const head = 'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n';
    const { socket, closed } = await connect(t, origin);
    socket.write(head);
    await closed;
    return lines.slice(before).map(({ level, fields }) => [level, fields['path'], fields['status']]);
  };
  const get = (path: string) => () => fetch(`${origin}${path}`);
  const probes = ['/healthz', '/livez', '/metrics'].map(get);
  const all = [...probes, get('/openapi.json'), get('/runs/none')];
  t.strictSame(await linesOf(...all), [
    ['debug', '/healthz', 200],
    ['debug', '/livez', 200],
    ['debug', '/metrics', 200],
    ['info', '/openapi.json', 200],
    ['info', '/runs/none', 404],
    ['info', '/', 400],
  ]);
  logging.set({ level: 'info', requests: 'errors' });
  t.strictSame(await linesOf(...all), [
    ['info', '/runs/none', 404],
    ['info', '/', 400],
  ]);
  logging.set({ level: 'info', requests: 'none' });
  t.strictSame(await linesOf(...all), []);
  isBroken = true;
  t.strictSame(await linesOf(() => upload(origin)), [['error', '/v1/pipelines/maps/upload', 500]]);
});

t.test('logs the time since accept for the first request of a connection', async (t) => {
  const clock = manualClock();
  const { origin, lines, ports } = await startApi(t, { clock });
  const { socket, until } = await connect(t, origin);
  const isAccepted = async () => /^waybill_connections 1$/m.test((await ports.metrics?.text()) ?? '');
  while (!(await isAccepted())) await new Promise((resolve) => setImmediate(resolve));
  await clock.advance(60);
  socket.write('GET /runs/first HTTP/1.1\r\nHost: x\r\n\r\n');
  await until(/404/);
  while (lines.length < 1) await new Promise((resolve) => setImmediate(resolve));
  socket.write('GET /runs/second HTTP/1.1\r\nHost: x\r\n\r\n');
  while (lines.length < 2) await new Promise((resolve) => setImmediate(resolve));
  const [first, second] = lines.map(({ fields }) => fields);
  t.match(first, { ms_since_accept: 60, ms: 0 }, 'including the time in which the client sent it');
  t.notHas(second, 'ms_since_accept');
  const text = (await ports.metrics?.text()) ?? '';
  const labels = '{method="GET",route="/runs/{run_id}"}';
  t.match(text, `waybill_http_since_accept_seconds_count${labels} 1`);
  t.match(text, `waybill_http_request_duration_seconds_count${labels} 2`);
});
