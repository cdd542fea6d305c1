import t from 'tap';
import type { StageUpload } from '../../../src/api/uploads/upload-service.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { manualClock } from '../../workers/manual-clock.ts';
import { connect, stageAnything, startApi, tokens, upload, uploadHead } from '../harness.ts';

t.test('with Expect: 100-continue, the body is requested only after all checks', async (t) => {
  const { origin } = await startApi(t);
  const { socket, until, received } = await connect(t, origin);
  socket.write(uploadHead({ Expect: '100-continue', 'Content-Length': 4 }));
  await until(/\r\n\r\n/);
  t.equal(received(), 'HTTP/1.1 100 Continue\r\n\r\n');
  socket.write('body');
  t.match(await until(/202 Accepted[^]*\}/), /"status":"accepted"/);
});

t.test('with Expect: 100-continue, every refusal replaces the 100', async (t) => {
  const { origin, ports } = await startApi(t, { http: { queueSize: 1 } });
  const path = '/v1/pipelines/maps/upload';
  const cases: [Record<string, string | number>, string, string][] = [
    [{ Authorization: 'Bearer guess' }, path, '401'],
    [{}, '/v1/pipelines/none/upload', '404'],
    [{}, '/nowhere', '404'],
    [{ Authorization: `Bearer ${tokens.docs}` }, path, '403'],
    [{ 'Idempotency-Key': 'x'.repeat(300) }, path, '400'],
    [{ 'Content-Type': 'text/plain' }, path, '415'],
    [{ 'Content-Length': 1001 }, path, '413'],
  ];
  const refused = async (headers: Record<string, string | number>, where: string, status: string) => {
    const { socket, until } = await connect(t, origin);
    socket.write(uploadHead({ Expect: '100-continue', 'Content-Length': 4, ...headers }, where));
    const answer = await until(/\r\n\r\n\{.*\}/);
    t.match(answer, new RegExp(`^HTTP/1.1 ${status} `));
    t.match(answer, /\r\nConnection: close\r\n/i);
  };
  for (const [headers, where, status] of cases) await refused(headers, where, status);
  await ports.queue.reserve({ pipelineId: 'maps' });
  await refused({}, path, '503');
});

t.test('a client that is still sending gets the whole answer and no reset', async (t) => {
  // A refused client is disconnected after five seconds. Here, that time does not pass.
  const { origin } = await startApi(t, { maxUploadSize: 50_000_000, clock: manualClock() });
  const { socket, until, closed } = await connect(t, origin);
  const length = 20_000_000;
  socket.write(uploadHead({ Authorization: 'Bearer guess', 'Content-Length': length }));
  await until(/\r\n\r\n\{.*\}/);
  // Still sends after the response has arrived, like a client that reads only when it is done.
  const chunk = Buffer.alloc(1_000_000);
  for (let sent = 0; sent < length; sent += chunk.length) {
    if (!socket.write(chunk))
      await Promise.race([new Promise((resolve) => socket.once('drain', resolve)), closed]);
  }
  t.match(await closed, /^HTTP\/1.1 401 [^]*"code":"unauthorized"/);
});

t.test('a refusal in the middle of the body is answered while the client is still sending', async (t) => {
  const stage: StageUpload = async ({ input }) => {
    for await (const chunk of input) if (chunk.length > 0) break;
    throw new WaybillError('upload_too_large', 'more than the pipeline takes');
  };
  const { origin, staged } = await startApi(t, { stage });
  const { socket, until, closed } = await connect(t, origin);
  socket.write(uploadHead({ 'Transfer-Encoding': 'chunked' }));
  socket.write('4\r\nbody\r\n');
  await until(/\r\n\r\n\{.*\}/);
  t.same(await staged(), [], 'staging was cleared before the answer');
  socket.write('4\r\nmore\r\n0\r\n\r\n');
  t.match(await closed, /^HTTP\/1.1 413 [^]*"code":"upload_too_large"/);
});

t.test('a refused client that sends endlessly is disconnected, however fast it sends', async (t) => {
  // The disconnect is not caused by a timeout.
  const { origin } = await startApi(t, { clock: manualClock() });
  const { socket, closed } = await connect(t, origin);
  socket.write(uploadHead({ Authorization: 'Bearer guess', 'Transfer-Encoding': 'chunked' }));
  const chunk = Buffer.concat([Buffer.from('100000\r\n'), Buffer.alloc(0x100000), Buffer.from('\r\n')]);
  const pump = (): void => {
    while (!socket.destroyed && socket.write(chunk));
    socket.once('drain', pump);
  };
  pump();
  // The test expects the reset.
  await closed.catch(() => undefined);
  t.ok(socket.destroyed);
});

t.test(
  'an upload that its client aborts leaves no staging directory and does not affect the daemon',
  async (t) => {
    let begun: () => void = () => undefined;
    let ended: (error: unknown) => void = () => undefined;
    const stage: StageUpload = async (request) => {
      begun();
      return stageAnything(request).catch((error: unknown) => {
        ended(error);
        throw error;
      });
    };
    const { origin, staged, ports } = await startApi(t, { stage });
    for (const leave of ['destroy', 'resetAndDestroy'] as const) {
      const isBegun = new Promise<void>((resolve) => (begun = resolve));
      const isEnded = new Promise<unknown>((resolve) => (ended = resolve));
      const { socket, closed } = await connect(t, origin);
      socket.write(`${uploadHead({ 'Content-Length': 100 })}some`);
      await isBegun;
      t.equal((await staged()).length, 1);
      socket[leave]();
      t.match(await isEnded, { code: 'aborted' });
      await closed.catch(() => undefined);
      await until(async () => (await staged()).length === 0 && (await ports.queue.depth()).reserved === 0);
    }
    t.equal((await upload(origin)).status, 202, 'the next upload is accepted');
  },
);

t.test('a body that stalls is 408, and its slot and directory are released', async (t) => {
  const { origin, staged, ports } = await startApi(t, { http: { idleTimeoutMs: 20 } });
  const { socket, closed, until: received } = await connect(t, origin);
  socket.write(`${uploadHead({ 'Content-Length': 100 })}some`);
  await received(/\r\n\r\n\{.*\}/);
  t.same(await staged(), []);
  socket.end();
  t.match(await closed, /^HTTP\/1.1 408 [^]*"code":"upload_timeout"/);
  await until(async () => (await ports.queue.depth()).reserved === 0);
});

t.test('a body that takes longer than upload_timeout is 408, however steadily it arrives', async (t) => {
  const { origin, staged } = await startApi(t, { http: { uploadTimeoutMs: 50 }, maxUploadSize: 1e9 });
  const { socket, until: received } = await connect(t, origin);
  socket.write(uploadHead({ 'Content-Length': 1e8 }));
  const trickle = setInterval(() => socket.write('x'), 1);
  t.teardown(() => clearInterval(trickle));
  t.match(await received(/\r\n\r\n\{.*\}/), /^HTTP\/1.1 408 [^]*"code":"upload_timeout"/);
  t.same(await staged(), []);
});

t.test('time spent in staging does not count as inactivity of the client', async (t) => {
  const clock = manualClock();
  const stage: StageUpload = async (request) => {
    const { input } = request;
    async function* slowly(): AsyncIterable<Uint8Array> {
      for await (const chunk of input) {
        await clock.advance(60);
        yield chunk;
      }
    }
    return stageAnything({ ...request, input: slowly() });
  };
  const { origin } = await startApi(t, { stage, clock, http: { idleTimeoutMs: 30 } });
  const { socket, until: received } = await connect(t, origin);
  socket.write(`${uploadHead({ 'Content-Length': 4 })}body`);
  t.match(await received(/\}/), /^HTTP\/1.1 202 /);
});

t.test('reports a shutdown to an active upload', async (t) => {
  let begun: () => void = () => undefined;
  const isBegun = new Promise<void>((resolve) => (begun = resolve));
  const stage: StageUpload = (request) => {
    begun();
    return stageAnything(request);
  };
  const { origin, stop, staged } = await startApi(t, { stage });
  const { socket, until: received } = await connect(t, origin);
  socket.write(`${uploadHead({ 'Content-Length': 100 })}some`);
  await isBegun;
  stop(new WaybillError('shutting_down', 'the daemon stopped before the upload was complete'));
  t.match(await received(/\r\n\r\n\{.*\}/), /^HTTP\/1.1 503 [^]*"code":"shutting_down"/);
  t.same(await staged(), []);
  socket.destroy();
});

t.test('a connection is kept after a good upload and after a refusal whose body was read', async (t) => {
  const { origin } = await startApi(t);
  const { socket, until: received } = await connect(t, origin);
  socket.write(`${uploadHead({ 'Content-Length': 4 })}body`);
  await received(/202 Accepted[^]*\}/);
  socket.write('GET /runs/none HTTP/1.1\r\nHost: x\r\n\r\n');
  await received(/404 Not Found[^]*\}/);
  socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
  t.match(await received(/200 OK[^]*\}/), /"status":"ok"/);
});

t.test('bytes that are not HTTP are rejected, and the daemon continues', async (t) => {
  const { origin } = await startApi(t);
  for (const bytes of [
    '\x16\x03\x01\x02\x00',
    'GET /healthz HTTP/1.1\r\nNo colon\r\n\r\n',
    `${uploadHead({ 'Transfer-Encoding': 'chunked' })}zz\r\n`,
  ]) {
    const { socket, closed } = await connect(t, origin);
    socket.write(bytes, 'latin1');
    t.match(await closed.catch(() => 'HTTP/1.1 400'), /^HTTP\/1.1 4\d\d/);
  }
  t.equal((await fetch(`${origin}/healthz`)).status, 200);
});

/** Requests that HTTP itself rejects, on any route. */
const get = (...lines: string[]): string => `GET /healthz HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`;
const refusals: [string, string, number, string][] = [
  ['no HTTP', '\x16\x03\x01\x02\x00', 400, 'malformed_request'],
  ['a header without a colon', get('Host: x', 'No colon'), 400, 'malformed_request'],
  ['a NUL in a header', get('Host: x', 'X-A: a\0b'), 400, 'malformed_request'],
  ['a DEL in a header', get('Host: x', 'X-A: a\x7fb'), 400, 'malformed_request'],
  ['no Host header', get('Accept: */*'), 400, 'malformed_request'],
  ['two Host headers', get('Host: x', 'Host: y'), 400, 'malformed_request'],
  [
    'two Authorization headers',
    get('Host: x', 'Authorization: Bearer a', 'authorization: Bearer b'),
    400,
    'malformed_request',
  ],
  ['two lengths', uploadHead({ 'Content-Length': '4, 5' }), 400, 'malformed_request'],
  [
    'a length and a coding',
    uploadHead({ 'Content-Length': 4, 'Transfer-Encoding': 'chunked' }),
    400,
    'malformed_request',
  ],
  [
    'a bad chunk that a route does not wait for',
    'POST /v1/token HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
    400,
    'malformed_request',
  ],
  ['a bad chunk', `${uploadHead({ 'Transfer-Encoding': 'chunked' })}zz\r\n`, 400, 'malformed_request'],
  ['an unknown expectation', get('Host: x', 'Expect: 200-ok'), 417, 'expectation_failed'],
  ['two expectations', get('Host: x', 'Expect: 100-continue, x'), 417, 'expectation_failed'],
  ['a head that is too long', get('Host: x', `X-A: ${'a'.repeat(20_000)}`), 431, 'headers_too_large'],
  ['a path that is too long', `GET /${'a'.repeat(20_000)}`, 431, 'headers_too_large'],
  ['an unknown coding', uploadHead({ 'Transfer-Encoding': 'gzip' }), 501, 'unsupported_transfer_coding'],
  [
    'an unknown coding before chunked',
    `${uploadHead({ 'Transfer-Encoding': 'gzip, chunked' })}4\r\nbody\r\n0\r\n\r\n`,
    501,
    'unsupported_transfer_coding',
  ],
];

for (const [what, bytes, status, code] of refusals)
  t.test(`${what} is ${status} ${code}: a problem document, logged once and counted`, async (t) => {
    const { origin, lines, staged } = await startApi(t);
    const { socket, closed } = await connect(t, origin);
    socket.write(bytes, 'latin1');
    const answer = await closed;
    t.match(
      answer,
      new RegExp(`^HTTP/1.1 ${status} [^]*\\r\\nContent-Type: application/problem\\+json\\r\\n`),
    );
    t.match(answer, /\r\nConnection: close\r\n/i);
    const [head = '', body = ''] = answer.split('\r\n\r\n');
    const length = /\r\nContent-Length: (\d+)/.exec(head)?.[1];
    t.equal(Number(length), Buffer.byteLength(body), 'nothing follows it');
    const id = /\r\nX-Request-Id: (\S+)/.exec(head)?.[1];
    t.match(JSON.parse(body), { type: 'about:blank', status, code, instance: `urn:uuid:${id}` });
    while (lines.length === 0) await new Promise((resolve) => setImmediate(resolve));
    t.match(lines, [{ fields: { status, code, request_id: id, client: '127.0.0.1' } }]);
    t.not(lines[0]?.message, 'request failed');
    t.equal(lines.length, 1);
    const metrics = await (await fetch(`${origin}/metrics`)).text();
    const counted = metrics.split('\n').filter((line) => line.startsWith('waybill_http_requests_total{'));
    t.equal(counted.length, 1, 'nothing else was counted');
    t.match(counted[0], new RegExp(`status="${status}"\\} 1$`));
    await until(async () => (await staged()).length === 0);
  });

t.test('HTTP/1.0 requires no Host header and ignores expectations', async (t) => {
  const { origin } = await startApi(t);
  for (const line of ['', 'Expect: x\r\n']) {
    const { socket, closed } = await connect(t, origin);
    socket.write(`GET /healthz HTTP/1.0\r\n${line}\r\n`);
    t.match(await closed, /^HTTP\/1.1 200 /);
  }
});

t.test('a client whose body exceeds its length still gets its answer', async (t) => {
  let goOn: () => void = () => undefined;
  const mayGoOn = new Promise<void>((resolve) => (goOn = resolve));
  const stage: StageUpload = async (request) => {
    const staged = await stageAnything(request);
    await mayGoOn;
    return staged;
  };
  const { origin, lines } = await startApi(t, { stage });
  const { socket, closed, received } = await connect(t, origin);
  socket.write(`${uploadHead({ 'Content-Length': 4 })}body and more`);
  // The rest is rejected long before the upload is accepted.
  await new Promise((resolve) => setTimeout(resolve, 50));
  t.equal(received(), '');
  goOn();
  const answers = (await closed).split(/(?=HTTP\/1\.1 )/);
  t.match(answers[0], /^HTTP\/1.1 202 [^]*"status":"accepted"/);
  t.match(answers[1], /^HTTP\/1.1 400 [^]*"code":"malformed_request"/);
  t.equal(answers.length, 2);
  t.match(
    lines.map(({ fields }) => fields['status']),
    [202, 400],
  );
});

t.test('a client that keeps sending after invalid HTTP gets its answer and is disconnected', async (t) => {
  const { origin } = await startApi(t, { clock: manualClock() });
  const { socket, until, closed } = await connect(t, origin);
  socket.write(`${uploadHead({ 'Transfer-Encoding': 'chunked' })}zz\r\n`);
  t.match(await until(/\r\n\r\n\{.*\}/), /^HTTP\/1.1 400 /);
  const pump = (): void => {
    while (!socket.destroyed && socket.write(Buffer.alloc(0x100000)));
    socket.once('drain', pump);
  };
  pump();
  await closed.catch(() => undefined);
  t.ok(socket.destroyed);
});

/** Polls until the condition is true. The test's own timeout ends the loop. */
async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setImmediate(resolve));
}
