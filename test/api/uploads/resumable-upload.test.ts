import { rm, writeFile } from 'node:fs/promises';
import http from 'node:http';
import path from 'node:path';
import t from 'tap';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { runResult } from '../../contract/queue.ts';
import { type Api, connect, startApi, tokens, upload, uploadHead } from '../harness.ts';
import { begin, offsetOf, send, tus } from '../resumable/tus.ts';

/** Resumable uploads to a daemon whose runs wait: the requirements of tus 1.0, and our additions. */

const recordOf = async ({ ports }: Api, response: Response) =>
  ports.queue.find(response.headers.get('location')?.split('/').at(-1) ?? 'none');
const codeOf = async (response: Response): Promise<string> =>
  ((await response.json()) as { code: string }).code;

t.test('an upload in parts results in the same run as one request', async (t) => {
  const api = await startApi(t);
  const url = await begin(api.origin, 6, { headers: { 'upload-metadata': 'filename c2l0ZS50YXI=' } });
  const first = await send(url, 0, 'abc');
  t.same([first.status, first.headers.get('upload-offset')], [204, '3']);
  t.equal(first.headers.get('location'), null);
  t.ok(Date.parse(first.headers.get('upload-expires') ?? '') > Date.now());
  const head = await tus('HEAD', url);
  t.same(
    ['upload-offset', 'upload-length', 'upload-metadata', 'tus-resumable', 'cache-control'].map((name) =>
      head.headers.get(name),
    ),
    ['3', '6', 'filename c2l0ZS50YXI=', '1.0.0', 'no-store'],
  );
  const last = await send(url, 3, 'def');
  t.same([last.status, last.headers.get('upload-offset')], [204, '6']);
  t.match(await recordOf(api, last), { pipeline_id: 'maps', status: 'queued' });
  const shown = await tus('GET', url);
  t.equal(shown.headers.get('location'), last.headers.get('location'), 'GET repeats it');
  t.match(await shown.json(), { offset: 6, length: 6, position: 1, replayed: false, run_id: /^maps\./ });
  t.equal(await offsetOf(url), 6);
  const again = await send(url, 6, '');
  t.equal(
    again.headers.get('location'),
    last.headers.get('location'),
    'and so does the last PATCH, repeated',
  );
  t.equal((await api.staged()).length, 1, 'one bundle is staged');
  t.same(api.ports.uploads.partialUploads.stats(), { uploads: 0, bytes: 0 });
});

t.test('accepts a length with or after the last part', async (t) => {
  const api = await startApi(t);
  const one = await begin(api.origin, null);
  t.equal((await tus('HEAD', one)).headers.get('upload-defer-length'), '1');
  await send(one, 0, 'abc');
  t.equal(
    (await recordOf(api, await send(one, 3, 'def', { headers: { 'upload-length': '6' } })))?.status,
    'queued',
  );
  const other = await begin(api.origin, null);
  t.equal((await send(other, 0, 'abcdef')).headers.get('location'), null);
  const accepted = await send(other, 6, '', { headers: { 'upload-length': '6' } });
  t.equal((await recordOf(api, accepted))?.status, 'queued');
  const large = await begin(api.origin, null);
  t.equal((await send(large, 0, 'x'.repeat(1_001))).status, 413, 'more than the pipeline accepts');
  t.equal(
    (await send(await begin(api.origin, null), 0, '', { headers: { 'upload-length': '0' } })).status,
    400,
  );
});

t.test('the last byte counts once the queue has accepted the bundle, and is resent until then', async (t) => {
  const api = await startApi(t, { http: { queueSize: 1 } });
  const url = await begin(api.origin, 6);
  const slot = await api.ports.queue.reserve({ pipelineId: 'docs' });
  const refused = await send(url, 0, 'abcdef');
  t.same([refused.status, await codeOf(refused)], [503, 'queue_full']);
  t.ok(Number(refused.headers.get('retry-after')) > 0);
  t.equal(await offsetOf(url), 5, 'it does not look complete to a client');
  t.equal(await codeOf(await send(url, 5, 'f')), 'queue_full');
  await slot.release();
  const last = await send(url, 5, 'f');
  t.same([last.status, last.headers.get('upload-offset')], [204, '6']);
  t.same((await api.staged()).length, 1);
});

t.test('removes a permanently rejected upload with its bytes', async (t) => {
  const api = await startApi(t, {
    stage: () => Promise.reject(new WaybillError('invalid_bundle', 'refused by the test')),
  });
  const url = await begin(api.origin, 3);
  t.equal(await codeOf(await send(url, 0, 'abc')), 'invalid_bundle');
  t.equal(await offsetOf(url), null);
  t.same(api.ports.uploads.partialUploads.stats(), { uploads: 0, bytes: 0 });
  t.same(await api.staged(), []);
});

t.test('a key works as for an upload in one request', async (t) => {
  const api = await startApi(t);
  const headers = { 'idempotency-key': 'k' };
  const plain = await upload(api.origin, { headers, body: 'abc' });
  const last = await send(await begin(api.origin, 3, { headers }), 0, 'abc');
  t.equal(last.headers.get('location'), plain.headers.get('location'));
  t.equal(last.headers.get('idempotency-replayed'), 'true');
  t.equal(
    await codeOf(await send(await begin(api.origin, 3, { headers }), 0, 'abd')),
    'idempotency_conflict',
  );
  const [lost, begun] = [await begin(api.origin, 3, { headers }), await begin(api.origin, 3, { headers })];
  t.equal(await offsetOf(lost), null, 'an upload whose Location never arrived is replaced');
  await send(begun, 0, 'a');
  await begin(api.origin, 3, { headers });
  t.equal(await offsetOf(begun), 1, 'an active upload is not replaced');
});

t.test('restarts a failed run under its key if the upload requested that at its creation', async (t) => {
  const api = await startApi(t);
  await api.ports.queue.start(async () => runResult('failed'));
  const headers = { 'idempotency-key': 'k' };
  const runOf = async (query = ''): Promise<string> => {
    const last = await send(await begin(api.origin, 3, { headers, query }), 0, 'abc');
    const id = last.headers.get('location')?.split('/').at(-1) ?? 'none';
    await api.ports.queue.untilFinished(id, new AbortController().signal);
    return id;
  };
  const first = await runOf();
  t.equal(await runOf(), first);
  const second = await runOf('?rerun_failed=true');
  t.not(second, first);
  t.equal((await api.ports.queue.find(second))?.status, 'failed');
});

t.test('rejects wrong offsets, versions, types and tokens', async (t) => {
  const api = await startApi(t);
  const url = await begin(api.origin, 6);
  await send(url, 0, 'abc');
  const refused: [Response, number, string][] = [
    [await send(url, 0, 'abc'), 409, 'upload_offset_conflict'],
    [await send(url, 4, 'e'), 409, 'upload_offset_conflict'],
    [await send(url, -1, 'a'), 400, 'invalid_request'],
    [await send(url, 3, 'defg'), 413, 'upload_too_large'],
    [
      await send(url, 3, 'd', { headers: { 'content-type': 'application/x-tar' } }),
      415,
      'unsupported_media_type',
    ],
    [await send(url, 3, 'd', { headers: { 'tus-resumable': '0.2.2' } }), 412, 'unsupported_tus_version'],
    [await send(url, 3, 'd', { token: tokens.writer }), 404, 'upload_not_found'],
    [await send(url.replace('/maps/', '/docs/'), 3, 'd', { token: tokens.writer }), 404, 'upload_not_found'],
    [await send(`${url}x`, 3, 'd'), 404, 'upload_not_found'],
  ];
  for (const [response, status, code] of refused)
    t.same([response.status, await codeOf(response)], [status, code], code);
  t.equal(await offsetOf(url), 3, 'nothing has changed');
  const old = await tus('HEAD', url, { headers: { 'tus-resumable': '0.2.2' } });
  t.same([old.status, old.headers.get('tus-version')], [412, '1.0.0']);
  for (const length of ['0', '-1', 'x', '1001']) {
    const response = await tus('POST', `${api.origin}/v1/pipelines/maps/uploads`, {
      headers: { 'upload-length': length },
    });
    t.equal(response.status, length === '1001' ? 413 : 400, length);
  }
  t.equal(api.ports.uploads.partialUploads.stats().uploads, 1);
});

t.test('refusals of the protocol name the value that is wrong', async (t) => {
  const { origin } = await startApi(t);
  const url = await begin(origin, 6);
  const create = (headers: Record<string, string>): Promise<Response> =>
    tus('POST', `${origin}/v1/pipelines/maps/uploads`, { headers });
  for (const [response, detail] of [
    [await create({ 'upload-length': '1001' }), /more than 1000 bytes, .* \(Upload-Length: 1001\)/],
    [await create({ 'upload-length': 'x' }), /invalid headers: upload-length: x/],
    [await create({}), /needs either Upload-Length or Upload-Defer-Length/],
    [await create({ 'upload-length': '9', 'upload-concat': 'partial' }), /concatenation is not supported/],
    [await send(url, 4, 'a'), /does not continue at this offset \(Upload-Offset: 4\)/],
    [await send(url, 0, 'abcdefg'), /goes beyond the end of the upload/],
    [await send(url, 0, 'a', { headers: { 'upload-length': '7' } }), /the length is known already/],
  ] as const)
    t.match(await response.json(), { detail });
});

t.test('keeps received bytes after a disconnect, and lets a later request take over', async (t) => {
  const api = await startApi(t);
  const url = await begin(api.origin, 6);
  const { socket, until } = await connect(t, api.origin);
  const head = (offset: number) =>
    `PATCH ${new URL(url).pathname} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${tokens.maps}\r\n` +
    `Tus-Resumable: 1.0.0\r\nContent-Type: application/offset+octet-stream\r\n` +
    `Upload-Offset: ${offset}\r\nContent-Length: ${6 - offset}\r\n\r\n`;
  const received = async (bytes: number): Promise<void> => {
    while (api.ports.uploads.partialUploads.stats().bytes < bytes)
      await new Promise((resolve) => setImmediate(resolve));
  };
  socket.write(`${head(0)}ab`);
  await received(2);
  t.equal(await offsetOf(url), 2, 'HEAD ends the active request');
  t.match(await until(/"code"/), /^HTTP\/1.1 423 [^]*"code":"upload_locked","retryable":true/);
  const gone = await connect(t, api.origin);
  gone.socket.write(`${head(2)}cd`);
  await received(4);
  gone.socket.destroy();
  t.equal(await offsetOf(url), 4);
  t.equal((await recordOf(api, await send(url, 4, 'ef')))?.status, 'queued');
});

t.test(
  'answers other requests with a Retry-After during the handover, which continues without its client',
  async (t) => {
    let go: () => void = () => undefined;
    let isStaging: () => void = () => undefined;
    const staging = new Promise<void>((resolve) => (isStaging = resolve));
    const gate = new Promise<void>((resolve) => (go = resolve));
    const api = await startApi(t, {
      holdWaitMs: 20,
      stage: async ({ input, directory }) => {
        isStaging();
        await gate;
        for await (const chunk of input) t.ok(chunk.length > 0);
        const contentDigest = `sha256:${'0'.repeat(64)}` as never;
        const manifest = { name: null, files: [], document: {} };
        return { directory, bundlePath: 's', manifest, contentDigest, description: contentDigest, bytes: 3 };
      },
    });
    const url = await begin(api.origin, 3);
    const request = http.request(url, {
      method: 'PATCH',
      headers: {
        'tus-resumable': '1.0.0',
        authorization: `Bearer ${tokens.maps}`,
        'content-type': 'application/offset+octet-stream',
        'upload-offset': 0,
      },
    });
    request.on('error', () => undefined).end('abc');
    await staging;
    request.destroy();
    for (const method of ['HEAD', 'DELETE']) t.equal((await tus(method, url)).status, 423, method);
    t.equal(await codeOf(await send(url, 2, 'c')), 'upload_locked');
    go();
    while ((await offsetOf(url)) !== 3) await new Promise((resolve) => setImmediate(resolve));
    t.match(await (await tus('GET', url)).json(), { run_id: /^maps\./ });
  },
);

t.test('partial uploads are limited in number and bytes, and DELETE ends them', async (t) => {
  const api = await startApi(t, { resumable: { maxUploads: 2, maxBytes: 1_500 } });
  const [one, two] = [await begin(api.origin, 600), await begin(api.origin, 600)];
  const post = (length: string) =>
    tus('POST', `${api.origin}/v1/pipelines/maps/uploads`, { headers: { 'upload-length': length } });
  t.equal(await codeOf(await post('1')), 'partial_uploads_full');
  t.equal((await tus('DELETE', one)).status, 204);
  t.equal(await offsetOf(one), null);
  t.equal(await codeOf(await post('901')), 'partial_uploads_full', 'each counts with its whole archive');
  t.equal((await post('900')).status, 201);
  t.equal(await offsetOf(two), 0);
  t.match(await (await fetch(`${api.origin}/metrics`)).text(), /^waybill_partial_uploads 2$/m);
});

t.test('a full disk rejects further bytes, and keeps the others', async (t) => {
  const api = await startApi(t);
  const url = await begin(api.origin, 6);
  const { partialUploads } = api.ports.uploads;
  const write = partialUploads.write.bind(partialUploads);
  partialUploads.write = async (id, offset, chunks) => {
    await write(id, offset, chunks);
    throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC', syscall: 'write' });
  };
  t.equal(await codeOf(await send(url, 0, 'abc')), 'insufficient_storage');
  t.equal(await offsetOf(url), 3);
});

t.test('the last byte is 503 while staging is unavailable, and accepted afterwards', async (t) => {
  const api = await startApi(t);
  const url = await begin(api.origin, 6);
  await rm(api.stagingDirectory, { recursive: true });
  await writeFile(api.stagingDirectory, 'a file where the directory was');
  const refused = await send(url, 0, 'abcdef');
  t.same([refused.status, await codeOf(refused)], [503, 'staging_unavailable']);
  t.equal(await offsetOf(url), 5);
  await rm(api.stagingDirectory);
  const last = await send(url, 5, 'f');
  t.equal(last.status, 204);
  t.equal((await recordOf(api, last))?.status, 'queued');
});

t.test('an upload whose bytes were deleted is gone, and new ones can start', async (t) => {
  const api = await startApi(t);
  const partial = path.join(path.dirname(api.contentDirectory), 'partial');
  const removed = await begin(api.origin, 6);
  t.equal((await send(removed, 0, 'abc')).status, 204);
  await rm(partial, { recursive: true });
  t.equal(await codeOf(await send(removed, 3, 'def')), 'upload_not_found');
  t.equal(await offsetOf(removed), null, 'its client starts over, a limited number of times');

  const removedWhileSent = await begin(api.origin, 6);
  const { socket, until } = await connect(t, api.origin);
  const headers = {
    'Tus-Resumable': '1.0.0',
    'Upload-Offset': 0,
    'Content-Type': 'application/offset+octet-stream',
    'Content-Length': 6,
  };
  socket.write(uploadHead(headers, new URL(removedWhileSent).pathname).replace('POST', 'PATCH'));
  socket.write('abc');
  const id = removedWhileSent.split('/').at(-1) ?? '';
  while (api.ports.uploads.partialUploads.find(id)?.received !== 3) await new Promise(setImmediate);
  await rm(partial, { recursive: true });
  socket.write('def');
  t.match(await until(/\r\n\r\n\{.*\}/), /^HTTP\/1.1 404 [^]*"code":"upload_not_found"/);
  t.equal(await offsetOf(removedWhileSent), null);

  const next = await begin(api.origin, 6);
  t.equal((await send(next, 0, 'abcdef')).status, 204);
});

t.test('counts an upload once, by its outcome', async (t) => {
  const api = await startApi(t);
  const url = await begin(api.origin, 2);
  await (await send(url, 0, 'a')).text();
  await (await send(url, 1, 'b')).text();
  const text = await (await fetch(`${api.origin}/metrics`)).text();
  t.match(text, /^waybill_uploads_total\{pipeline="maps",result="accepted"\} 1$/m);
  t.match(text, /^waybill_upload_received_bytes_total\{pipeline="maps"\} 2$/m);
});

t.test('lets only the owner of a key find an interrupted upload by it', async (t) => {
  const api = await startApi(t);
  const headers = { 'idempotency-key': 'k 1', 'upload-metadata': 'archive YWJj,private' };
  const list = async (query = '', token = tokens.maps, pipeline = 'maps'): Promise<unknown[]> => {
    const response = await tus('GET', `${api.origin}/v1/pipelines/${pipeline}/uploads${query}`, { token });
    return ((await response.json()) as { uploads: unknown[] }).uploads;
  };
  const url = await begin(api.origin, 6, { headers });
  await send(url, 0, 'abc');
  const id = url.split('/').at(-1);
  const found = { upload_id: id, offset: 3, length: 6, idempotency_key: 'k 1', run_id: null };
  t.match(await list('?idempotency_key=k%201'), [{ ...found, metadata: { archive: 'abc', private: null } }]);
  t.same(await list('?idempotency_key=k'), []);
  t.same(await list('', tokens.writer), [], 'another token cannot see it');
  t.same(await list('', tokens.writer, 'docs'), []);
  const later = await begin(api.origin, 6);
  t.match(await list(), [
    { upload_id: later.split('/').at(-1), idempotency_key: null, metadata: null },
    found,
  ]);
  await send(url, 3, 'def');
  t.match(await list('?idempotency_key=k%201'), [{ upload_id: id, offset: 6, run_id: /^maps\./ }]);
});

t.test('if disabled, their paths do not exist', async (t) => {
  const api = await startApi(t, { resumable: { maxUploads: 0 } });
  const uploads = `${api.origin}/v1/pipelines/maps/uploads`;
  for (const [method, url] of [
    ...(['POST', 'GET', 'OPTIONS'] as const).map((name) => [name, uploads] as const),
    ...(['GET', 'HEAD', 'PATCH', 'DELETE'] as const).map((name) => [name, `${uploads}/x`] as const),
  ])
    t.equal((await tus(method, url)).status, 404, `${method} ${url}`);
  t.equal((await upload(api.origin, { body: 'abc' })).status, 202, 'everything else works as before');
});

t.test('uses the supported protocol', async (t) => {
  const { origin } = await startApi(t);
  const response = await tus('OPTIONS', `${origin}/v1/pipelines/maps/uploads`);
  t.equal(response.status, 204);
  t.equal(response.headers.get('tus-extension'), 'creation,creation-defer-length,termination,expiration');
  t.equal(response.headers.get('tus-max-size'), '1000');
  t.equal(response.headers.get('access-control-allow-origin'), null, 'CORS headers match all other routes');
});
