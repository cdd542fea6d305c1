import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { stageUpload } from '../../../src/core/bundle/stage-upload.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { bundleTar } from '../../fixtures/tar.ts';
import { type Api, connect, startApi, tokens, uploadHead } from '../harness.ts';

/** Uploads from a browser, with real staging. */

const boundary = '----WebKitFormBoundary7MA4YWxkTrZu0gW';
const route = '/v1/pipelines/maps/upload/form';
const bundle = bundleTar({ 'index.html': '<p>42</p>' }, { name: 'session-42' });

interface Part {
  name?: string;
  filename?: string | null;
  type?: string;
  body: Buffer | string;
}

function part({ name = 'bundle', filename = 'bundle.tar', type, body }: Part): Buffer {
  const file = filename === null ? '' : `; filename="${filename}"`;
  const contentType = type === undefined ? '' : `Content-Type: ${type}\r\n`;
  const head = `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${file}\r\n${contentType}\r\n`;
  return Buffer.concat([Buffer.from(head), Buffer.from(body), Buffer.from('\r\n')]);
}

const formOf = (...parts: Part[]): Buffer =>
  Buffer.concat([...parts.map(part), Buffer.from(`--${boundary}--\r\n`)]);

const start = (test: Test, settings: Parameters<typeof startApi>[1] = {}): Promise<Api> =>
  startApi(test, { stage: stageUpload, maxUploadSize: 20_000, ...settings });

function post(
  { origin }: Api,
  body: Buffer | ReadableStream,
  headers: Record<string, string> = {},
): Promise<Response> {
  return fetch(origin + route, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${tokens.maps}`,
      'content-type': `multipart/form-data; boundary=${boundary}`,
      ...headers,
    },
    body,
    duplex: 'half',
  });
}

t.test('a form with a bundle is accepted like the bundle itself', async (t) => {
  const api = await start(t);
  const ways: [string, Part][] = [
    ['a tar', { body: bundle, type: 'application/x-tar' }],
    ['a tar.gz', { body: gzipSync(bundle), type: 'application/gzip' }],
    [
      'of a type that the browser does not know',
      { body: gzipSync(bundle), type: 'application/octet-stream' },
    ],
    ['of no type', { body: bundle }],
    ['with a name that leads elsewhere', { body: bundle, filename: '../../etc/passwd' }],
  ];
  for (const [name, sent] of ways)
    await t.test(name, async (t) => {
      const before = new Set(await api.staged());
      const response = await post(api, formOf(sent));
      t.equal(response.status, 202, JSON.stringify(await response.clone().json()));
      const { run_id: run, status } = (await response.json()) as Record<string, string>;
      t.equal(status, 'accepted');
      t.equal(response.headers.get('location'), `/runs/${run}`);
      const [staged = ''] = (await api.staged()).filter((each) => !before.has(each));
      const queued = await api.ports.queue.find(run ?? '');
      t.equal(queued?.pipeline_id, 'maps');
      t.ok(staged);
    });
});

t.test("keeps the file's bytes, wherever the transfer splits them", async (t) => {
  const sizes: number[] = [];
  const api = await start(t, {
    stage: async (request) => {
      const staged = await stageUpload(request);
      const files = path.join(staged.directory, 'files');
      t.same((await readdir(files)).sort(), ['index.html', 'manifest.json']);
      t.equal(await readFile(path.join(files, 'index.html'), 'utf8'), '<p>42</p>');
      return staged;
    },
  });
  const form = formOf({ body: gzipSync(bundle) });
  for (const size of [1, 7, 64, 1000]) {
    const pieces = Array.from({ length: Math.ceil(form.length / size) }, (_, index) =>
      form.subarray(index * size, (index + 1) * size),
    );
    const response = await post(api, new Blob(pieces).stream());
    sizes.push(response.status);
    const { socket, until } = await connect(t, api.origin);
    socket.setNoDelay();
    const headers = {
      'Content-Type': `multipart/form-data; boundary=${boundary}`,
      'Content-Length': form.length,
    };
    socket.write(uploadHead(headers, route));
    for (const piece of pieces) await new Promise((resolve) => socket.write(piece, resolve));
    t.match(await until(/\r\n\r\n\{.*\}/), /^HTTP\/1.1 (202|503)/);
    socket.destroy();
  }
  t.same(sizes, [202, 202, 202, 202]);
});

t.test('an Idempotency-Key works for a form as for the bundle itself', async (t) => {
  const api = await start(t);
  const headers = { 'idempotency-key': 'once' };
  const first = (await (await post(api, formOf({ body: bundle }), headers)).json()) as { run_id: string };
  const again = await post(api, formOf({ body: gzipSync(bundle) }), headers);
  t.equal(again.headers.get('idempotency-replayed'), 'true');
  t.same(await again.json(), first);
  const plain = await fetch(api.origin + route.replace('/form', ''), {
    method: 'POST',
    headers: { authorization: `Bearer ${tokens.maps}`, 'content-type': 'application/x-tar', ...headers },
    body: bundle,
  });
  t.same(await plain.json(), first);
  t.equal((await api.staged()).length, 1);
});

t.test('each malformed form has its answer, and leaves no files', async (t) => {
  const api = await start(t);
  const whole = formOf({ body: bundle });
  const cases: [string, Buffer, number, string, RegExp, Record<string, string>?][] = [
    ['no part', Buffer.from(`--${boundary}--\r\n`), 400, 'invalid_request', /no file/],
    ['no body', Buffer.alloc(0), 400, 'invalid_request', /./],
    ['another name', formOf({ body: bundle, name: 'archive' }), 400, 'invalid_request', /file "archive"/],
    ['no name', formOf({ body: bundle, name: '' }), 400, 'invalid_request', /./],
    ['two bundles', formOf({ body: bundle }, { body: bundle }), 400, 'invalid_request', /second file/],
    [
      'a bundle as text',
      formOf({ body: 'x', filename: null }),
      400,
      'invalid_request',
      /text and not a file/,
    ],
    [
      'a field before',
      formOf({ body: 'x', name: 'comment', filename: null }, { body: bundle }),
      400,
      'invalid_request',
      /field "comment"/,
    ],
    [
      'a field after',
      formOf({ body: bundle }, { body: 'x', name: 'comment', filename: null }),
      400,
      'invalid_request',
      /field "comment"/,
    ],
    ['cut within the file', whole.subarray(0, 900), 400, 'invalid_request', /./],
    ['cut before its end', whole.subarray(0, -6), 400, 'invalid_request', /^the form ends/],
    ['not a form', bundle, 400, 'invalid_request', /./],
    [
      'another boundary',
      whole,
      400,
      'invalid_request',
      /./,
      { 'content-type': 'multipart/form-data; boundary=no' },
    ],
    [
      'a part with a head without end',
      Buffer.concat([
        Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; x="`),
        Buffer.alloc(30_000, 'x'),
      ]),
      400,
      'invalid_request',
      /./,
    ],
    ['an empty file', formOf({ body: '' }), 400, 'malformed_archive', /./],
    ['a file that is no archive', formOf({ body: 'hello' }), 400, 'malformed_archive', /./],
    ['a bundle that is not whole', formOf({ body: bundle.subarray(0, 700) }), 400, 'malformed_archive', /./],
    ['a bundle that is too large', formOf({ body: Buffer.alloc(30_000) }), 413, 'upload_too_large', /./],
    [
      'no boundary',
      whole,
      415,
      'unsupported_media_type',
      /boundary/,
      { 'content-type': 'multipart/form-data' },
    ],
    [
      'another type',
      whole,
      415,
      'unsupported_media_type',
      /application/,
      { 'content-type': 'application/x-tar' },
    ],
    ['an encoding', whole, 415, 'unsupported_media_type', /Content-Encoding/, { 'content-encoding': 'gzip' }],
  ];
  for (const [name, body, status, code, detail, headers] of cases)
    await t.test(name, async (t) => {
      const response = await post(api, body, headers);
      const answer = (await response.json()) as Record<string, string>;
      t.equal(response.status, status, JSON.stringify(answer));
      t.equal(response.headers.get('content-type'), 'application/problem+json');
      t.equal(answer['code'], code);
      t.match(answer['detail'], detail);
      if (status === 415) t.equal(response.headers.get('accept-post'), 'multipart/form-data');
      t.same(await api.staged(), []);
    });
  t.equal((await post(api, whole)).status, 202, 'the next upload is accepted');
});

t.test('a client that disconnects within its form leaves no files', async (t) => {
  const api = await start(t);
  const whole = formOf({ body: bundle });
  for (const bytes of [0, 50, 200, 900, whole.length - 5]) {
    const { socket, closed } = await connect(t, api.origin);
    const headers = {
      'Content-Type': `multipart/form-data; boundary=${boundary}`,
      'Content-Length': whole.length,
    };
    const left = api.lines.length;
    socket.write(uploadHead(headers, route));
    await new Promise((resolve) => socket.write(whole.subarray(0, bytes), resolve));
    socket.destroy();
    await closed;
    while (api.lines.length === left || (await api.staged()).length > 0) await systemClock.sleep(5);
  }
  t.equal((await post(api, whole)).status, 202);
});
