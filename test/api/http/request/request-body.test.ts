import path from 'node:path';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { serve } from '../../../../src/cli/daemon/serve.ts';
import { stageUpload } from '../../../../src/core/bundle/stage-upload.ts';
import { WaybillError } from '../../../../src/core/lib/errors.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import { bundleTar } from '../../../fixtures/tar.ts';
import { connect, startApi, tokens, uploadHead } from '../../harness.ts';
import { answered, headOf, isHeldInMemory, pathOf, stalledClients, withBody } from '../../stalled-bodies.ts';

/** The timeout of bodies, on every route that has one. */

t.test('every route with a body declares that the body may stall', async (t) => {
  t.ok(withBody.length >= 7, `${withBody.length} kinds of bodies`);
  for (const { name, problems } of withBody)
    t.ok(problems.includes('upload_timeout') && problems.includes('shutting_down'), name);
});

for (const begun of ['', '-'])
  t.test(`a body that stalls after ${begun.length} bytes is 408, on every route that has one`, async (t) => {
    const api = await startApi(t, { http: { idleTimeoutMs: 20 } });
    const clients = await stalledClients(t, api, begun);
    for (const { name, until } of clients)
      t.match(await until(answered), /^HTTP\/1.1 408 [^]*"code":"upload_timeout","retryable":true/, name);
    t.ok(api.ports.bodyMemory.held() <= clients.length);
    for (const { socket } of clients) socket.destroy();
  });

t.test('an archive that stalls in the middle is 408, not malformed', async (t) => {
  const settings = { stage: stageUpload, maxUploadSize: 1e6, http: { idleTimeoutMs: 50 } };
  const { origin, staged } = await startApi(t, settings);
  const archive = bundleTar({ 'a.txt': 'x'.repeat(10_000) }, { name: 'session-1' });
  const form = 'multipart/form-data; boundary=x';
  const part = '--x\r\nContent-Disposition: form-data; name="bundle"; filename="b.tar"\r\n\r\n';
  const begun: [string, string, Buffer][] = [
    ['upload', 'application/x-tar', archive.subarray(0, 700)],
    ['upload', 'application/x-tar', archive.subarray(0, 3_000)],
    ['upload', 'application/gzip', gzipSync(archive).subarray(0, 60)],
    ['upload/form', form, Buffer.from(part.slice(0, 20))],
    ['upload/form', form, Buffer.concat([Buffer.from(part), archive.subarray(0, 3_000)])],
  ];
  for (const [route, type, bytes] of begun) {
    const { socket, until } = await connect(t, origin);
    const headers = { 'Content-Type': type, 'Content-Length': 100_000 };
    socket.write(uploadHead(headers, `/v1/pipelines/maps/${route}`));
    socket.write(bytes);
    const name = `${bytes.length} bytes of ${type}`;
    t.match(await until(answered), /^HTTP\/1.1 408 [^]*"code":"upload_timeout"/, name);
    socket.destroy();
  }
  t.same(await staged(), []);
});

t.test('a body that arrives byte by byte is 408 at its deadline, on every route', async (t) => {
  const api = await startApi(t, { http: { uploadTimeoutMs: 100 } });
  const clients = await stalledClients(t, api, '');
  const trickle = setInterval(() => clients.forEach(({ socket }) => socket.write(' ')), 5);
  t.teardown(() => clearInterval(trickle));
  for (const { name, until } of clients)
    t.match(await until(answered), /^HTTP\/1.1 408 [^]*was not complete after 100 ms/, name);
  for (const { socket } of clients) socket.destroy();
});

t.test('ends stalled bodies with a shutdown error on every route, without delays', async (t) => {
  const api = await startApi(t);
  const clients = await stalledClients(t, api, '-');
  while (api.ports.bodyMemory.held() < 3) await new Promise((resolve) => setImmediate(resolve));
  api.stop(new WaybillError('shutting_down', 'the daemon stopped before the body was complete'));
  for (const { name, until } of clients)
    t.match(await until(answered), /^HTTP\/1.1 503 [^]*"code":"shutting_down"/, name);
  for (const { socket } of clients) socket.destroy();
});

t.test('a daemon stops even if bodies never arrive, on every route that has one', async (t) => {
  const root = t.testdir({
    'waybill.yaml': `upload_tokens: [{id: ci, value_env: TOKEN, pipelines: [docs, files]}]
server:
  http: {listen: "127.0.0.1:0", shutdown_timeout: 1s, idle_timeout: 1h, upload_timeout: 1h}
  admin_token_env: ADMIN
  staging: {directory: ./staging}
pipelines:
  - {id: docs, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./web}]}
  - {id: files, source: {backend: local, path: ./files}, destinations: [{id: out, backend: local, path: ./out}]}
`,
  });
  const env = { TOKEN: tokens.docs, ADMIN: tokens.admin, HOME: root };
  const warnings: Error[] = [];
  const onWarning = (warning: Error): void => void warnings.push(warning);
  process.on('warning', onWarning);
  t.teardown(() => process.off('warning', onWarning));
  const served = await serve({ configFile: path.join(root, 'waybill.yaml'), log: silentLog, env });
  t.teardown(() => served.close());
  const api = { origin: served.url.replace(/\/$/, '') };
  const clients = (await Promise.all([1, 2, 3, 4].map(() => stalledClients(t, api, '-')))).flat();
  const metric = async (form: RegExp): Promise<number> =>
    Number(form.exec(await (await fetch(`${api.origin}/metrics`)).text())?.[1]);
  while ((await metric(/^waybill_connections (\d+)$/m)) <= clients.length)
    await new Promise((resolve) => setImmediate(resolve));
  // Without ending these bodies, close would wait for an hour.
  t.same(await served.close(), { unfinished: [] });
  for (const { name, closed, received } of clients) {
    await closed.catch(() => 'reset');
    t.match(received(), /^HTTP\/1.1 503 [^]*"code":"shutting_down"/, name);
  }
  t.ok(clients.length > 10, 'more than the number of listeners at which Node.js warns of a leak');
  t.same(warnings, []);
});

t.test('memory of stalled documents is freed when their clients disconnect', async (t) => {
  const { origin, ports } = await startApi(t);
  const route = withBody.find(({ name }) => name === 'validateSceneMap (application/json)');
  if (route === undefined) throw new TypeError('the route is gone');
  const clients = await Promise.all(
    Array.from({ length: 5 }, async () => {
      const client = await connect(t, origin);
      client.socket.write(headOf(route, 4_000_000));
      client.socket.write(Buffer.alloc(3_999_999, ' '));
      return client;
    }),
  );
  const refused = await Promise.any(clients.map(({ until }) => until(answered)));
  t.match(refused, /^HTTP\/1.1 503 [^]*Retry-After: 5\r\n[^]*"code":"server_busy","retryable":true/);
  for (const { socket } of clients) socket.destroy();
  while (ports.bodyMemory.held() > 0) await new Promise((resolve) => setImmediate(resolve));
  const { status } = await fetch(`${origin}/v1/scene-maps/validate`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: Buffer.alloc(4_000_000, ' '),
  });
  t.equal(status, 200);
});

t.test('a body of another type is 415 with the accepted types, on every route that has one', async (t) => {
  const { origin } = await startApi(t);
  for (const route of withBody) {
    const { method, type } = route;
    const path = await pathOf(origin, route);
    const others = [{ type: 'application/x-other' }, { type: `${type}\r\nContent-Encoding: gzip` }];
    for (const other of others) {
      const { socket, until } = await connect(t, origin);
      socket.write(`${headOf({ ...route, ...other, path }, 1)}-`);
      const answer = await until(answered);
      const name = `${route.name} as ${other.type}`;
      t.match(answer, /^HTTP\/1.1 415 [^]*"code":"unsupported_media_type"/, name);
      const acceptHeader = method === 'PATCH' ? /\r\nAccept-Patch: (.*)\r\n/i : /\r\nAccept-Post: (.*)\r\n/i;
      t.ok(
        acceptHeader
          .exec(answer)?.[1]
          ?.split(', ')
          .includes(type.split(';')[0] ?? ''),
        name,
      );
      socket.destroy();
    }
  }
});

t.test('an endless document is rejected, on every route that has one', async (t) => {
  const { origin } = await startApi(t);
  const chunk = Buffer.concat([Buffer.from('10000\r\n'), Buffer.alloc(0x10000, ' '), Buffer.from('\r\n')]);
  const answerTo = async (route: (typeof withBody)[number]): Promise<string> => {
    const { socket, until } = await connect(t, origin);
    socket.write(headOf(route).replace('Content-Length: 1000', 'Transfer-Encoding: chunked'));
    const pump = (): void => {
      while (!socket.destroyed && socket.write(chunk));
      socket.once('drain', pump);
    };
    pump();
    const answer = await until(answered);
    socket.destroy();
    return answer;
  };
  for (const route of withBody.filter(isHeldInMemory)) {
    let answer = await answerTo(route);
    // The client's share of memory is released when the socket of its last body has closed.
    while (answer.startsWith('HTTP/1.1 503')) answer = await answerTo(route);
    t.match(answer, /^HTTP\/1.1 4(00|13) [^]*"code":"(invalid_request|upload_too_large)"/, route.name);
  }
});

t.test('a document with an excessive length gets no 100 Continue', async (t) => {
  const { origin } = await startApi(t);
  const documents = withBody.filter(({ type }) => type === 'application/json');
  t.ok(documents.length > 5);
  for (const route of documents) {
    const { socket, until } = await connect(t, origin);
    socket.write(headOf(route, 20_000_000).replace('Host: x', 'Host: x\r\nExpect: 100-continue'));
    const answer = await until(/\r\n\r\n/);
    t.match(answer, /^HTTP\/1.1 4(00|13) /, route.name);
    socket.destroy();
  }
});

t.test('a client that expects 100 Continue for its document gets it', async (t) => {
  const { origin } = await startApi(t);
  const { socket, until } = await connect(t, origin);
  const headers = { 'Content-Type': 'application/json', 'Content-Length': 2, Expect: '100-continue' };
  socket.write(uploadHead(headers, '/v1/scene-maps/validate'));
  t.match(await until(/\r\n\r\n/), /^HTTP\/1.1 100 /);
  socket.write('{}');
  t.match(await until(/\}/), /HTTP\/1.1 200 /);
});

t.test('a connection that never sends a request is closed', async (t) => {
  // Bytes that arrive after the end would reset the connection, so leave ample time for them.
  const { origin, lines } = await startApi(t, { headersTimeoutMs: 8_000 });
  const beginnings = ['', 'GET /healthz HT', 'GET /healthz HTTP/1.1\r\nHost: x\r\n'];
  await Promise.all(
    beginnings.map(async (begun) => {
      const { socket, closed } = await connect(t, origin);
      socket.write(begun);
      const answer = await closed;
      t.match(answer, /^(HTTP\/1.1 408 |$)/, JSON.stringify(begun));
      t.match(
        answer,
        begun === '' ? /^$/ : /"code":"request_timeout","retryable":true/,
        JSON.stringify(begun),
      );
    }),
  );
  t.same(
    lines.map(({ fields }) => fields['code']),
    ['request_timeout', 'request_timeout'],
    'only active requests are logged',
  );
});

t.test('a body that no route reads does not keep its connection open', async (t) => {
  const { origin } = await startApi(t);
  const { socket, until, closed } = await connect(t, origin);
  socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n');
  await until(/"status":"ok"/);
  const trickle = setInterval(() => socket.write(' '), 100);
  t.teardown(() => clearInterval(trickle));
  await closed.catch(() => 'reset');
  t.pass('it was closed');
});

t.test('connections above max_connections are closed immediately, counted and logged once', async (t) => {
  const { origin, lines } = await startApi(t, { http: { maxConnections: 2 } });
  const [first] = [await connect(t, origin), await connect(t, origin)];
  for (let more = 0; more < 3; more++) {
    const { closed } = await connect(t, origin);
    t.equal(await closed.catch(() => ''), '');
  }
  const warnings = lines.filter(({ message }) =>
    message.startsWith('the maximum number of connections is open'),
  );
  t.match(warnings, [{ fields: { max_connections: 2, refused: 1 } }]);
  t.equal(warnings.length, 1);
  first.socket.write('GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  const metrics = await first.closed;
  t.match(metrics, /\nwaybill_connections 2\n/);
  t.match(metrics, /\nwaybill_connections_refused_total 3\n/);
});
