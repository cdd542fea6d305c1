import { readFileSync } from 'node:fs';
import t from 'tap';
import { statusOf } from '../../../src/api/http/answer/error-status.ts';
import { problemOf } from '../../../src/api/http/answer/problem.ts';
import { type ErrorCode, errorTable } from '../../../src/core/lib/error-codes.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { connect, startApi, tokens, upload, uploadHead, type UploadOptions } from '../harness.ts';

const problemType = 'application/problem+json';

async function problem(
  response: Response,
): Promise<{ status: number; code: string; retryable: boolean; instance: string; detail: string }> {
  return (await response.json()) as never;
}

t.test('every error code that a client can get is in docs/errors.md with its status', async (t) => {
  const rows = [
    ...readFileSync('docs/errors.md', 'utf8').matchAll(
      /^\| `([a-z_]+)` +\|.*\| *(\d{3})?[^|\d]*(?:exit \d+)? *\|$/gm,
    ),
  ];
  const documented = new Map(rows.map(([, code, status]) => [code as ErrorCode, Number(status ?? 500)]));
  for (const code of Object.keys(errorTable) as ErrorCode[])
    t.equal(documented.get(code), statusOf[code], code);
});

t.test('an internal fault reveals no details', async (t) => {
  const error = new WaybillError('storage_denied', 'cannot write /srv/secret-place', { hint: 'chmod it' });
  const problemDocument = problemOf(error, 'id');
  t.match(problemDocument, {
    status: 500,
    code: 'internal_error',
    retryable: false,
    instance: 'urn:uuid:id',
    title: 'Internal Server Error',
  });
  t.notMatch(JSON.stringify(problemDocument), /secret-place|chmod/);
});

t.test('the hint is a member of its own, and names no path on the host', async (t) => {
  const busy = new WaybillError('database_unavailable', 'the database is open already', {
    hint: "stop that process; if none uses it, delete '/srv/my data/weather.lock' or ~/other",
  });
  const hint = "stop that process; if none uses it, delete '<path>' or <path>";
  t.match(problemOf(busy, 'id'), { hint, detail: `the database is open already; ${hint}` });
  const refused = new WaybillError('reload_refused', 'no', { hint: 'look at /etc/waybill.yml' });
  t.equal(
    problemOf(refused, 'id').hint,
    'look at /etc/waybill.yml',
    'tokens with the reload right can read it',
  );
  t.notOk('hint' in problemOf(new WaybillError('queue_full', 'full'), 'id'));

  const { origin } = await startApi(t);
  const unknown = await fetch(`${origin}/v1/pipelines/maps/upload`, { method: 'POST' });
  t.match(await unknown.json(), { code: 'unauthorized', hint: 'send `Authorization: Bearer <token>`' });
});

t.test('an upload is answered with 202, the run and its location', async (t) => {
  const { origin, staged } = await startApi(t);
  const response = await upload(origin);
  t.equal(response.status, 202);
  const body = (await response.json()) as { run_id: string; status: string };
  t.match(body.run_id, /^maps\.\d{8}T\d{6}Z\.[0-9a-z]{10}$/);
  t.same(body, { run_id: body.run_id, status: 'accepted', position: 1 });
  t.equal(response.headers.get('location'), `/runs/${body.run_id}`);
  t.equal(response.headers.get('idempotency-replayed'), null);
  t.equal((await staged()).length, 1, 'the staged bundle waits for its run');
  const run = await fetch(`${origin}${response.headers.get('location') ?? ''}`);
  t.match(await run.json(), { run_id: body.run_id, pipeline_id: 'maps', status: 'queued' });
});

t.test('each refusal has its status, code and headers, and leaves no files', async (t) => {
  const { origin, staged } = await startApi(t);
  const big = 'x'.repeat(1001);
  const cases: [string, UploadOptions, number, string, Record<string, RegExp>?][] = [
    ['no token', { token: null }, 401, 'unauthorized', { 'www-authenticate': /^Bearer realm="waybill"$/ }],
    [
      'malformed token',
      { headers: { authorization: 'Basic eDp5' } },
      401,
      'unauthorized',
      { 'www-authenticate': /invalid_token/ },
    ],
    [
      'expired token',
      { token: tokens.expired },
      401,
      'token_expired',
      { 'www-authenticate': /invalid_token/ },
    ],
    [
      'a token that may not upload',
      { token: tokens.reader },
      403,
      'insufficient_scope',
      { 'www-authenticate': /^Bearer realm="waybill", error="insufficient_scope", scope="upload"$/ },
    ],
    ['unknown token', { token: 'guess' }, 401, 'unauthorized', { 'www-authenticate': /invalid_token/ }],
    ['unknown pipeline', { pipeline: 'none' }, 404, 'pipeline_not_found'],
    ['prototype as pipeline', { pipeline: '__proto__' }, 404, 'pipeline_not_found'],
    ['token of another pipeline', { token: tokens.docs }, 403, 'forbidden'],
    ['query', { query: '?dry_run=1' }, 400, 'invalid_request'],
    ['unknown parameter', { query: '?dryrun=true' }, 400, 'invalid_request'],
    ['long key', { headers: { 'idempotency-key': 'k'.repeat(256) } }, 400, 'invalid_idempotency_key'],
    ['key outside ASCII', { headers: { 'idempotency-key': '\xe4' } }, 400, 'invalid_idempotency_key'],
    ['empty key', { headers: { 'idempotency-key': '' } }, 400, 'invalid_idempotency_key'],
    [
      'content type',
      { headers: { 'content-type': 'application/zip' } },
      415,
      'unsupported_media_type',
      { 'accept-post': /application\/x-tar, application\/gzip, application\/x-gzip/ },
    ],
    [
      'content encoding',
      { headers: { 'content-encoding': 'gzip' } },
      415,
      'unsupported_media_type',
      { 'accept-post': /x-tar/ },
    ],
    ['length', { body: big }, 413, 'upload_too_large'],
  ];
  for (const [name, options, status, code, headers = {}] of cases) {
    const response = await upload(origin, options);
    t.equal(response.status, status, name);
    t.equal(response.headers.get('content-type'), problemType);
    const body = await problem(response);
    t.match(
      body,
      { status, code, instance: `urn:uuid:${response.headers.get('x-request-id') ?? 'none'}` },
      name,
    );
    for (const [header, form] of Object.entries(headers))
      t.match(response.headers.get(header), form, `${name}: ${header}`);
  }
  t.same(await staged(), []);
});

t.test('reports the first of several errors in the documented order', async (t) => {
  const { origin, ports } = await startApi(t, { http: { queueSize: 1 } });
  await ports.queue.reserve({ pipelineId: 'docs' });
  const wrong = { 'idempotency-key': 'ä', 'content-type': 'text/plain' };
  const body = 'x'.repeat(1001);
  const order: [UploadOptions, string][] = [
    [{ token: 'guess', pipeline: 'none', headers: wrong, body }, 'unauthorized'],
    [{ token: tokens.docs, pipeline: 'none', headers: wrong, body }, 'pipeline_not_found'],
    [{ token: tokens.docs, headers: wrong, body }, 'forbidden'],
    [{ query: '?x', headers: wrong, body }, 'invalid_request'],
    [{ headers: wrong, body }, 'invalid_idempotency_key'],
    [{ headers: { 'content-type': 'text/plain' }, body }, 'unsupported_media_type'],
    [{ body }, 'queue_full'],
  ];
  for (const [options, code] of order) {
    const response = await upload(origin, options);
    t.equal((await problem(response)).code, code);
    if (code === 'queue_full') t.match(response.headers.get('retry-after'), /^\d+$/);
  }
});

t.test('rejects an oversized body before a key in use; a key in use gets a Retry-After', async (t) => {
  const { origin, ports } = await startApi(t);
  await ports.queue.reserve({ pipelineId: 'maps', idempotency: { caller: 'ci', key: 'k' } });
  const headers = { 'idempotency-key': 'k' };
  t.equal(
    (await problem(await upload(origin, { headers, body: 'x'.repeat(1001) }))).code,
    'upload_too_large',
  );
  const response = await upload(origin, { headers });
  t.equal(response.status, 409);
  t.match(await problem(response), { code: 'idempotency_in_progress', retryable: true });
  t.match(response.headers.get('retry-after'), /^\d+$/);
});

t.test('a key with the same bundle replays the first answer; with another it is a conflict', async (t) => {
  const { origin, staged } = await startApi(t);
  const headers = { 'idempotency-key': 'release 42' };
  const first = await upload(origin, { headers, body: 'A' });
  const again = await upload(origin, { headers, body: 'A' });
  t.equal(again.status, 202);
  t.equal(again.headers.get('idempotency-replayed'), 'true');
  t.equal(again.headers.get('location'), first.headers.get('location'));
  t.same(await again.json(), await first.json());
  const other = await upload(origin, { headers, body: 'B' });
  t.equal(other.status, 409);
  t.match(await problem(other), { code: 'idempotency_conflict', retryable: false });
  t.equal((await staged()).length, 1, 'only the first upload is staged');
});

t.test('a dry run ignores other uses of its key, and does not use the key', async (t) => {
  const { origin, ports } = await startApi(t);
  const headers = { 'idempotency-key': 'k' };
  const idempotency = { caller: 'ci', key: 'k', rerunFailed: false };
  const other = await ports.queue.reserve({ pipelineId: 'maps', idempotency });
  const dryRun = (): Promise<Response> => upload(origin, { headers, query: '?dry_run=true' });
  t.equal((await upload(origin, { headers })).status, 409);
  t.equal((await dryRun()).status, 200);
  await other.release();
  t.equal((await dryRun()).status, 200);
  const first = await upload(origin, { headers });
  t.same([first.status, first.headers.get('idempotency-replayed')], [202, null]);
});

t.test('a draining daemon refuses uploads and is not ready', async (t) => {
  const { origin, ports } = await startApi(t, { draining: true });
  ports.queue.drain();
  for (const response of [await upload(origin), await fetch(`${origin}/healthz`)]) {
    t.equal(response.status, 503);
    t.match(await problem(response), { code: 'shutting_down', retryable: true });
    t.match(response.headers.get('retry-after'), /^\d+$/);
  }
});

t.test('a refusal by staging is answered, and its directory is removed', async (t) => {
  const codes = [
    'malformed_archive',
    'too_many_files',
    'archive_bomb',
    'unsafe_archive_entry',
    'invalid_bundle',
  ] as const;
  for (const code of codes) {
    const { origin, staged } = await startApi(t, {
      stage: async () => {
        throw new WaybillError(code, 'the archive is invalid');
      },
    });
    const response = await upload(origin);
    t.equal(response.status, statusOf[code], code);
    t.match(await problem(response), { code, detail: 'the archive is invalid' });
    t.same(await staged(), []);
  }
});

t.test('answers a full disk with 507 and other errors with 500, without a path', async (t) => {
  const noSpace = Object.assign(new Error('ENOSPC: no space left, write /srv/staging/upload-1'), {
    code: 'ENOSPC',
  });
  for (const [thrown, status, code] of [
    [noSpace, 507, 'insufficient_storage'],
    [new WaybillError('internal_error', 'writing failed', { cause: noSpace }), 507, 'insufficient_storage'],
    [new TypeError('undefined is not /srv/staging'), 500, 'internal_error'],
  ] as const) {
    const { origin, lines } = await startApi(t, {
      stage: async () => {
        throw thrown;
      },
    });
    const response = await upload(origin);
    t.equal(response.status, status);
    const text = await response.text();
    t.match(JSON.parse(text), { code });
    t.notMatch(text, /srv/);
    if (status === 500)
      t.ok(
        lines.some(({ message }) => message === 'request failed'),
        'the log has the details',
      );
  }
});

t.test(
  'unknown routes are 404, then wrong methods are 405 with Allow, before any token is checked',
  async (t) => {
    const { origin } = await startApi(t);
    for (const path of [
      '/',
      '/healthz/',
      '/HEALTHZ',
      '/v1',
      '/v1/pipelines/maps',
      '/runs',
      '/%ff',
      '/v1/pipelines/%ff/upload',
    ]) {
      const response = await fetch(`${origin}${path}`);
      t.equal(response.status, 404, path);
      t.match(await problem(response), { code: 'not_found' }, path);
    }
    for (const [path, method, allow] of [
      ['/v1/pipelines/maps/upload', 'GET', 'POST'],
      ['/v1/pipelines/maps/upload', 'PUT', 'POST'],
      ['/healthz', 'DELETE', 'GET, HEAD'],
      ['/runs/x', 'OPTIONS', 'GET, HEAD'],
    ] as const) {
      const response = await fetch(`${origin}${path}`, { method });
      t.equal(response.status, 405, path);
      t.equal(response.headers.get('allow'), allow);
      t.match(await problem(response), { code: 'method_not_allowed' });
    }
  },
);

t.test('HEAD answers like GET, without a body', async (t) => {
  const { origin } = await startApi(t);
  for (const [path, status] of [
    ['/healthz', 200],
    ['/runs/none', 404],
  ] as const) {
    const response = await fetch(`${origin}${path}`, { method: 'HEAD' });
    t.equal(response.status, status);
    t.equal(await response.text(), '');
  }
});

t.test('every route and Location have the base path', async (t) => {
  const { origin } = await startApi(t, { http: { basePath: '/waybill/' } });
  t.equal((await fetch(`${origin}/healthz`)).status, 404);
  for (const other of ['/Waybill/healthz', '/WAYBILL/metrics', '/waybilL/console'])
    t.equal(
      (await fetch(`${origin}${other}`)).status,
      404,
      'a proxy with case-sensitive paths cannot be bypassed',
    );
  const health = (await (await fetch(`${origin}/waybill/healthz`)).json()) as { checks: object[] };
  const { checks, ...rest } = health;
  t.same(rest, { status: 'ok', details: { weather: 'ok' } });
  t.equal(checks.length, 4);
  const response = await upload(`${origin}/waybill`);
  t.equal(response.status, 202);
  const location = response.headers.get('location') ?? '';
  t.match(location, /^\/waybill\/runs\/maps\./);
  t.equal((await fetch(`${origin}${location}`)).status, 200);
});

t.test('shows a run to any client with its ID unless runs are protected', async (t) => {
  for (const protectRuns of [false, true]) {
    const { origin } = await startApi(t, { http: { protectRuns } });
    const run = `${origin}${(await upload(origin)).headers.get('location') ?? ''}`;
    const status = async (token?: string) =>
      (await fetch(run, token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } })).status;
    t.equal(await status(), protectRuns ? 401 : 200);
    t.equal(await status('guess'), protectRuns ? 401 : 200);
    t.equal(await status(tokens.docs), protectRuns ? 403 : 200);
    t.equal(await status(tokens.maps), 200);
    const missing = await fetch(`${origin}/runs/maps.x.y`, {
      headers: { authorization: `Bearer ${tokens.maps}` },
    });
    t.match([missing.status, (await problem(missing)).code], [404, 'run_not_found']);
  }
});

t.test(
  "the request line has the request's id, token id, pipeline and run, but no token or query",
  async (t) => {
    const { origin, lines } = await startApi(t);
    const { run_id: runId } = (await (await upload(origin)).json()) as { run_id: string };
    await (await fetch(`${origin}/healthz?secret=1`)).text();
    t.match(lines[0]?.fields, {
      method: 'POST',
      path: '/v1/pipelines/maps/upload',
      status: 202,
      token_id: 'ci',
      pipeline_id: 'maps',
      run_id: runId,
    });
    t.notMatch(JSON.stringify(lines), new RegExp(`${tokens.maps}|secret`));
  },
);

t.test('a repeated Idempotency-Key header is rejected', async (t) => {
  const { origin } = await startApi(t);
  const { socket, until } = await connect(t, origin);
  socket.write(uploadHead({ 'Idempotency-Key': 'a\r\nIdempotency-Key: b', 'Content-Length': 1 }));
  socket.write('x');
  t.match(await until(/\r\n\r\n\{.*\}/), /invalid_idempotency_key/);
});
