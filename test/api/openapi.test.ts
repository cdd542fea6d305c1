import { readFile } from 'node:fs/promises';
import { Validator } from '@seriousme/openapi-schema-validator';
import type { Router } from 'express';
import type { Test } from 'tap';
import t from 'tap';
import type { OpenApiDocument, Operation, ResponseObject } from '../../src/api/http/route.ts';
import { expressPath } from '../../src/api/http/router.ts';
import { openApiDocument } from '../../src/api/openapi/document.ts';
import { createDaemonApp, daemonRoutes as routes } from '../../src/cli/daemon/daemon-app.ts';
import type { ErrorCode } from '../../src/core/lib/error-codes.ts';
import { WaybillError } from '../../src/core/lib/errors.ts';
import { weatherFamilies } from '../../src/weather/families.ts';
import type { WeatherReader } from '../../src/weather/reader.ts';
import { runResult } from '../contract/queue.ts';
import { sha } from '../fixtures/hostile-archives.ts';
import { manifestOf } from '../fixtures/tar.ts';
import { startIssuer } from '../services/issuer.ts';
import { readerThat } from '../weather/api/weather-reader-stub.ts';
import {
  type Api,
  type ApiSettings,
  connect,
  startApi,
  tokens,
  upload,
  uploadForm,
  uploadHead,
} from './harness.ts';
import { claims, exchangeForm, publisherOf } from './publishers/exchange.ts';
import { begin, send as sendPart, tus, type TusOptions } from './resumable/tus.ts';
import { schemaErrors } from './schema-errors.ts';

const document = openApiDocument(routes, '/');
const errorsOf = schemaErrors(document);

t.test('the document is valid OpenAPI 3.1', async (t) => {
  const { valid, errors } = await new Validator().validate(structuredClone(document) as never);
  t.ok(valid, JSON.stringify(errors));
  const ids = operations().map(({ operation }) => operation.operationId);
  t.equal(new Set(ids).size, ids.length, 'operation ids are unique');
  const names = new Set(Object.keys(document.components.schemas));
  for (const [, name] of JSON.stringify(document).matchAll(/"#\/components\/schemas\/([^"]+)"/g))
    t.ok(names.has(name ?? ''), `${name ?? ''} is there`);
  for (const { path, operation } of operations())
    t.same(
      (operation.parameters ?? []).filter((one) => one.in === 'path').map(({ name }) => name),
      [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name),
      `${operation.operationId} describes the parameters of its path`,
    );
});

t.test('the daemon serves the document that is in the repository, with its own base path', async (t) => {
  const { origin } = await startApi(t, { http: { basePath: '/waybill/' } });
  const served = (await (await fetch(`${origin}/waybill/openapi.json`)).json()) as OpenApiDocument;
  const file = JSON.parse(await readFile('schemas/openapi.json', 'utf8')) as OpenApiDocument;
  t.same(served.servers, [{ url: '/waybill' }]);
  t.same({ ...served, servers: file.servers }, file);
});

t.test('the document has every route of the router except pages, and no others', async (t) => {
  const { ports } = await startApi(t);
  const described = operations().map(({ method, path }) => `${method} ${expressPath(path)}`);
  // Request pages first: one of them below the path of a route would hide that route.
  const isOfPages = (route: string): boolean => /^\w+ \/(admin|assets|console|weather)(\/|$)/.test(route);
  t.same(described.filter(isOfPages), []);
  const served = routesOf(createDaemonApp(ports).router);
  t.ok(served.includes('get /assets/:asset'));
  t.same(served.filter((route) => !isOfPages(route)).sort(), described.sort());
  const without = createDaemonApp({ ...ports, metrics: null });
  t.notOk(routesOf(without.router).includes('get /metrics'), 'disabled routes are not listed');
});

t.test('a path accepts the methods of the document and no others', async (t) => {
  const { origin } = await startApi(t);
  for (const [path, item] of Object.entries(document.paths)) {
    const response = await fetch(origin + path.replaceAll(/[{}]/g, ''), { method: 'PUT' });
    t.equal(response.status, 405, path);
    const allowed = Object.keys(item).flatMap((method) =>
      method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()],
    );
    t.same(response.headers.get('allow')?.split(', ').sort(), allowed.sort());
    t.same(errorsOf({ $ref: '#/components/schemas/Problem' }, await response.json()), []);
  }
});

t.test('a route names the scopes that a token needs for it', async (t) => {
  for (const { operationId, problems, scopes = [] } of routes)
    t.equal(
      scopes.some((scope) => scope !== 'admin'),
      problems.includes('insufficient_scope'),
      operationId,
    );
  t.same(document.paths['/v1/audit']?.get?.security, [{ token: ['audit'] }, { token: ['admin'] }]);
});

type Call = (api: Api) => Response | Promise<Response>;
/** How to make an operation return an answer: the state of the daemon, and the request. */
type Provocation = Call | [ApiSettings, Call];

const authorized = (token: string): { headers: Record<string, string> } => ({
  headers: { authorization: `Bearer ${token}` },
});
const get =
  (path: string, init: RequestInit = {}): Call =>
  ({ origin }) =>
    fetch(origin + path, init);
const start =
  (
    pipeline = 'files',
    { token = tokens.docs, headers = {}, body = null as string | null, query = '' } = {},
  ): Call =>
  ({ origin }) =>
    fetch(`${origin}/v1/pipelines/${pipeline}/runs${query}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, ...headers },
      body,
    });
const list =
  (query = '', token = tokens.maps, pipeline = 'maps'): Call =>
  ({ origin }) =>
    fetch(`${origin}/v1/pipelines/${pipeline}/runs${query}`, authorized(token));
const stagingThrows = (code: ErrorCode, send: typeof upload): [ApiSettings, Call] => [
  { stage: () => Promise.reject(new WaybillError(code, 'refused by the test')) },
  ({ origin }) => send(origin),
];
/** Sends the request once, and again with the ETag of the answer. */
const again =
  (path: string): Call =>
  async (api) => {
    const first = await get(path)(api);
    await first.text();
    const headers = { 'if-none-match': first.headers.get('etag') ?? 'none', 'cache-control': 'max-age=0' };
    return get(path, { headers })(api);
  };
const ofAnUpload =
  (call: (path: string) => Call): Call =>
  async (api) =>
    call((await upload(api.origin)).headers.get('location') ?? 'none')(api);
const protectRuns: ApiSettings = { http: { protectRuns: true } };
/** The run of an upload, which failed because the queue closed. */
const ofAFinishedRun =
  (call: (path: string) => Call): Call =>
  async (api) => {
    const path = (await upload(api.origin)).headers.get('location') ?? 'none';
    await api.ports.queue.close(0);
    return call(path)(api);
  };
const noStreamOfOwn: ApiSettings = { http: { maxStreamsPerClient: 0 } };
const noUploads: ApiSettings = { http: { maxUploadsPerToken: 0 } };
const noStreams: ApiSettings = { http: { maxStreams: 0 } };
/** Follows a run whose last event the client has already received. */
const followedAgain =
  (path: string): Call =>
  async (api) => {
    const first = await (await get(`${path}/events`)(api)).text();
    const lastId = [...first.matchAll(/^id: (.+)$/gm)].at(-1)?.[1] ?? 'none';
    return get(`${path}/events`, { headers: { 'last-event-id': lastId } })(api);
  };
const full: ApiSettings = { http: { queueSize: 1 } };
const occupied =
  (call: Call, request: Parameters<Api['ports']['queue']['reserve']>[0]): Call =>
  async (api) => {
    await api.ports.queue.reserve(request);
    return call(api);
  };
const drained =
  (call: Call): Call =>
  (api) => {
    api.ports.queue.drain();
    return call(api);
  };
const broken =
  (call: Call): Call =>
  (api) => {
    const fail = (): never => {
      throw new Error('broken by the test');
    };
    Object.assign(api.ports.queue, {
      find: fail,
      list: fail,
      overview: fail,
      reserve: fail,
      pause: fail,
      resume: fail,
    });
    Object.assign(api.ports.health, { readiness: { look: fail } });
    if (api.ports.metrics !== null) Object.assign(api.ports.metrics, { text: fail });
    return call(api);
  };
const away =
  (call: Call): Call =>
  (api) => {
    const fail = async (): Promise<never> => {
      throw new WaybillError('queue_unavailable', 'unreachable in this test');
    };
    const { queue } = api.ports;
    Object.assign(queue, {
      find: fail,
      list: fail,
      overview: fail,
      reserve: fail,
      depth: fail,
      pause: fail,
      resume: fail,
    });
    return call(api);
  };
const stalled = (head: string): Provocation => [
  { http: { idleTimeoutMs: 20 } },
  (api) => stalledUpload(api, head),
];
const stopping =
  (call: Call): Call =>
  (api) => {
    api.stop(new WaybillError('shutting_down', 'stopped by the test'));
    return call(api);
  };
/** The bodies of other clients use all the memory. */
const memoryTaken = (call: Call): [ApiSettings, Call] => [{ http: { maxBodyMemory: 1 } }, call];
const unchecked = (error: Error): Provocation => [
  { ports: { sceneMaps: { check: () => Promise.reject(error) } } },
  validate('{}'),
];
const unready = (code: ErrorCode, call: Call): Provocation => {
  const check = (): Promise<never> => Promise.reject(new WaybillError(code, 'by the will of the test'));
  return [{ checks: [{ name: 'staging', timeoutCode: code, remedy: '', check }] }, call];
};
function ofReadiness(path: string): Record<string, Provocation> {
  return {
    200: get(path),
    shutting_down: [{ draining: true }, get(path)],
    queue_unavailable: away(get(path)),
    staging_unavailable: unready('staging_unavailable', get(path)),
    insufficient_storage: unready('insufficient_storage', get(path)),
    audit_unavailable: unready('audit_unavailable', get(path)),
    internal_error: broken(get(path)),
  };
}
const key = { 'idempotency-key': 'k' };
const keyInUse = (caller: string, pipelineId: string) => ({
  pipelineId,
  idempotency: { caller, key: 'k' },
});
const validate = (
  body: NonNullable<RequestInit['body']>,
  headers: Record<string, string> = { 'content-type': 'application/json' },
) => get('/v1/scene-maps/validate', { method: 'POST', headers, body });
const sceneMap = await readFile('examples/scene-maps/session-42-findings.json');

const weatherReads: Record<string, string> = Object.fromEntries(
  Object.values(weatherFamilies).map(({ endpoint }) => [endpoint.operationId, endpoint.path]),
);
/** No template is ready for data of another type, which the document does not describe either. */
const oddReader = readerThat(async () => ({ data: {}, lastModified: new Date() }));
const ofWeather = (path: string): Record<string, Provocation> => {
  const url = path.replace('{id}', 'urn:x') + (path === '/observations/history' ? '?station=KNYC' : '');
  const asking = (query: string): string => `${url}${url.includes('?') ? '&' : '?'}${query}`;
  return {
    200: [{ reader: exampleReader(path) }, get(url)],
    304: again(url),
    invalid_parameter: get(asking('colour=red')),
    unsupported_format: get(asking('format=pdf')),
    database_unavailable: [{ reader: failingReader('database_unavailable') }, get(url)],
    schema_mismatch: [{ reader: failingReader('schema_mismatch') }, get(url)],
    template_error: [{ reader: oddReader }, get(asking('format=text'))],
    internal_error: [{ reader: failingReader('internal_error') }, get(url)],
    ...(path === '/alerts/{id}'
      ? { alert_not_found: [{ reader: failingReader('alert_not_found') }, get(url)] }
      : {}),
  };
};

const formPath = '/v1/pipelines/maps/upload/form';
const formType = 'multipart/form-data; boundary=another';
const ofUploads = (send: typeof upload, head: string): Record<string, Provocation> => {
  const throws = (code: ErrorCode): Provocation => stagingThrows(code, send);
  return {
    200: ({ origin }) => send(origin, { query: '?dry_run=true' }),
    202: ({ origin }) => send(origin),
    invalid_request: ({ origin }) => send(origin, { query: '?dry_run=perhaps' }),
    channel_not_found: ({ origin }) => send(origin, { query: '?channel=none' }),
    unauthorized: ({ origin }) => send(origin, { token: 'guess' }),
    pipeline_not_found: ({ origin }) => send(origin, { pipeline: 'files', token: tokens.docs }),
    forbidden: ({ origin }) => send(origin, { token: tokens.docs }),
    token_expired: ({ origin }) => send(origin, { token: tokens.expired }),
    insufficient_scope: ({ origin }) => send(origin, { token: tokens.reader }),
    invalid_idempotency_key: ({ origin }) => send(origin, { headers: { 'idempotency-key': '' } }),
    unsupported_media_type: ({ origin }) => send(origin, { headers: { 'content-type': 'text/plain' } }),
    shutting_down: drained(({ origin }) => send(origin)),
    queue_full: [full, occupied(({ origin }) => send(origin), { pipelineId: 'docs' })],
    quota_exceeded: [noUploads, ({ origin }) => send(origin)],
    pipeline_full: [{ maxWaiting: 1 }, occupied(({ origin }) => send(origin), { pipelineId: 'maps' })],
    queue_unavailable: away(({ origin }) => send(origin)),
    upload_too_large: ({ origin }) => send(origin, { body: 'x'.repeat(70_000) }),
    idempotency_in_progress: occupied(({ origin }) => send(origin, { headers: key }), keyInUse('ci', 'maps')),
    idempotency_conflict: async ({ origin }) => {
      await send(origin, { headers: key, body: 'A' });
      return send(origin, { headers: key, body: 'B' });
    },
    upload_timeout: stalled(head),
    malformed_archive: throws('malformed_archive'),
    too_many_files: throws('too_many_files'),
    archive_bomb: throws('archive_bomb'),
    unsafe_archive_entry: throws('unsafe_archive_entry'),
    invalid_bundle: throws('invalid_bundle'),
    files_missing: throws('files_missing'),
    signature_missing: throws('signature_missing'),
    signature_invalid: throws('signature_invalid'),
    signing_key_untrusted: throws('signing_key_untrusted'),
    insufficient_storage: throws('insufficient_storage'),
    staging_unavailable: throws('staging_unavailable'),
    internal_error: broken(({ origin }) => send(origin)),
  };
};

/** The refusals that all requests about resumable uploads have in common. */
const ofCallers = (ask: (options?: TusOptions, pipeline?: string) => Call): Record<string, Provocation> => ({
  unauthorized: ask({ token: 'guess' }),
  pipeline_not_found: ask({ token: tokens.docs }, 'files'),
  forbidden: ask({ token: tokens.docs }),
  token_expired: ask({ token: tokens.expired }),
  insufficient_scope: ask({ token: tokens.reader }),
});
const begun =
  (options: TusOptions = {}, pipeline = 'maps', query = ''): Call =>
  ({ origin }) =>
    tus('POST', `${origin}/v1/pipelines/${pipeline}/uploads${query}`, {
      ...options,
      headers: { 'upload-length': '3', ...options.headers },
    });
/** Sends a request about a new upload of three bytes. */
const ofUpload =
  (method: string, options: TusOptions = {}, isLost = false): Call =>
  async ({ origin }) =>
    tus(method, isLost ? `${origin}/v1/pipelines/maps/uploads/none` : await begin(origin, 3), options);
const ofNoUpload = (method: string) =>
  ofCallers(
    (options = {}, pipeline = 'maps') =>
      ({ origin }) =>
        tus(method, `${origin}/v1/pipelines/${pipeline}/uploads/none`, {
          ...options,
          ...(method === 'PATCH' ? { headers: { 'upload-offset': '0' } } : {}),
        }),
  );
const whole =
  (change: (api: Api) => void = () => undefined, headers: Record<string, string> = {}): Call =>
  async (api) => {
    const url = await begin(api.origin, 3, { headers });
    change(api);
    return sendPart(url, 0, 'abc');
  };
const holdsIt =
  (method: string): Call =>
  async (api) => {
    const url = await begin(api.origin, 3);
    await api.ports.uploads.partialUploads.hold(url.split('/').at(-1) ?? '');
    return tus(method, url, method === 'PATCH' ? { headers: { 'upload-offset': '0' }, body: 'abc' } : {});
  };
const oldVersion = { headers: { 'tus-resumable': '0.1.0' } };
const breakUploads =
  (call: Call): Call =>
  (api) => {
    const fail = (): never => {
      throw new Error('broken by the test');
    };
    Object.assign(api.ports.uploads.partialUploads, { find: fail, create: fail, list: fail });
    return call(api);
  };
const ofSending = (): Record<string, Provocation> => {
  const throws = (code: ErrorCode): Provocation => [
    { stage: () => Promise.reject(new WaybillError(code, 'refused by the test')) },
    whole(),
  ];
  const sending = (options: TusOptions): Call =>
    ofUpload('PATCH', { body: 'abc', ...options, headers: { 'upload-offset': '0', ...options.headers } });
  return {
    204: whole(),
    ...ofNoUpload('PATCH'),
    upload_not_found: ofUpload('PATCH', { headers: { 'upload-offset': '0' } }, true),
    unsupported_tus_version: sending(oldVersion),
    unsupported_media_type: sending({ headers: { 'content-type': 'text/plain' } }),
    invalid_request: sending({ headers: { 'upload-offset': 'x' } }),
    upload_locked: [{ holdWaitMs: 10 }, holdsIt('PATCH')],
    upload_offset_conflict: sending({ headers: { 'upload-offset': '1' }, body: 'bc' }),
    upload_too_large: sending({ body: 'abcd' }),
    queue_full: [full, whole((api) => void api.ports.queue.reserve({ pipelineId: 'docs' }))],
    quota_exceeded: [noUploads, whole()],
    pipeline_full: [{ maxWaiting: 1 }, whole((api) => void api.ports.queue.reserve({ pipelineId: 'maps' }))],
    queue_unavailable: whole((api) => {
      const gone = new WaybillError('queue_unavailable', 'unreachable in this test');
      Object.assign(api.ports.queue, { reserve: () => Promise.reject(gone) });
    }),
    idempotency_in_progress: whole((api) => void api.ports.queue.reserve(keyInUse('ci', 'maps')), key),
    idempotency_conflict: async (api) => {
      await upload(api.origin, { headers: key, body: 'A' });
      return whole(undefined, key)(api);
    },
    upload_timeout: [
      { http: { idleTimeoutMs: 20 } },
      async (api) => {
        const { pathname } = new URL(await begin(api.origin, 3));
        const head = { 'Tus-Resumable': '1.0.0', 'Upload-Offset': 0, 'Content-Length': 3 };
        const type = { 'Content-Type': 'application/offset+octet-stream' };
        return stalledUpload(api, uploadHead({ ...head, ...type }, pathname).replace('POST', 'PATCH'));
      },
    ],
    shutting_down: whole((api) => api.ports.queue.drain()),
    malformed_archive: throws('malformed_archive'),
    too_many_files: throws('too_many_files'),
    archive_bomb: throws('archive_bomb'),
    unsafe_archive_entry: throws('unsafe_archive_entry'),
    invalid_bundle: throws('invalid_bundle'),
    files_missing: throws('files_missing'),
    signature_missing: throws('signature_missing'),
    signature_invalid: throws('signature_invalid'),
    signing_key_untrusted: throws('signing_key_untrusted'),
    insufficient_storage: throws('insufficient_storage'),
    staging_unavailable: throws('staging_unavailable'),
    internal_error: breakUploads(ofUpload('PATCH', { headers: { 'upload-offset': '0' } }, true)),
  };
};
const listed =
  (options: TusOptions = {}, pipeline = 'maps', query = ''): Call =>
  async ({ origin }) => {
    await begin(origin, 3, { headers: { 'upload-metadata': 'filename eA==,empty' } });
    return tus('GET', `${origin}/v1/pipelines/${pipeline}/uploads${query}`, options);
  };
const creating =
  (code: ErrorCode): Call =>
  (api) => {
    const refused = new WaybillError(code, 'refused by the test');
    Object.assign(api.ports.uploads.partialUploads, { create: () => Promise.reject(refused) });
    return begun()(api);
  };
const asked =
  (options: { token?: string; pipeline?: string; type?: string; body?: string } = {}): Call =>
  ({ origin }) => {
    const { token = tokens.maps, pipeline = 'maps', type = 'application/json' } = options;
    return fetch(`${origin}/v1/pipelines/${pipeline}/missing`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': type },
      body: options.body ?? manifestOf([{ path: 'a', digest: sha('a') }]),
    });
  };
const ofResumables: Record<string, Record<string, Provocation>> = {
  findMissing: {
    200: asked(),
    unauthorized: asked({ token: 'guess' }),
    pipeline_not_found: asked({ pipeline: 'files', token: tokens.docs }),
    forbidden: asked({ token: tokens.docs }),
    token_expired: asked({ token: tokens.expired }),
    insufficient_scope: asked({ token: tokens.reader }),
    unsupported_media_type: asked({ type: 'text/plain' }),
    upload_too_large: asked({ body: ' '.repeat(16 * 2 ** 20 + 1) }),
    upload_timeout: stalled(
      uploadHead({ 'Content-Type': 'application/json', 'Content-Length': 2 }, '/v1/pipelines/maps/missing'),
    ),
    shutting_down: stopping(asked()),
    too_many_files: asked({
      body: manifestOf(Array.from({ length: 11 }, (_, index) => ({ path: String(index) }))),
    }),
    invalid_bundle: asked({ body: '{}' }),
    server_busy: memoryTaken(asked()),
    internal_error: (api) => {
      Object.assign(api.ports.uploads.content, {
        missing: () => {
          throw new Error('broken by the test');
        },
      });
      return asked()(api);
    },
  },
  createUpload: {
    201: begun(),
    ...ofCallers(begun),
    invalid_request: begun({ headers: { 'upload-length': 'many' } }),
    channel_not_found: begun({}, 'maps', '?channel=none'),
    invalid_idempotency_key: begun({ headers: { 'idempotency-key': '' } }),
    unsupported_tus_version: begun(oldVersion),
    shutting_down: drained(begun()),
    queue_unavailable: away(begun()),
    queue_full: [full, occupied(begun(), { pipelineId: 'docs' })],
    pipeline_full: [{ maxWaiting: 1 }, occupied(begun(), { pipelineId: 'maps' })],
    upload_too_large: begun({ headers: { 'upload-length': '1001' } }),
    idempotency_in_progress: occupied(begun({ headers: key }), keyInUse('ci', 'maps')),
    quota_exceeded: [
      { resumable: { maxUploadsPerToken: 1 } },
      async (api) => (await begin(api.origin, 3), begun()(api)),
    ],
    partial_uploads_full: [
      { resumable: { maxBytes: 5 } },
      async (api) => (await begin(api.origin, 3), begun()(api)),
    ],
    insufficient_storage: creating('insufficient_storage'),
    staging_unavailable: creating('staging_unavailable'),
    internal_error: broken(begun()),
  },
  getUploadOptions: {
    204: ({ origin }) => tus('OPTIONS', `${origin}/v1/pipelines/maps/uploads`),
    ...ofCallers(
      (options = {}, pipeline = 'maps') =>
        ({ origin }) =>
          tus('OPTIONS', `${origin}/v1/pipelines/${pipeline}/uploads`, options),
    ),
  },
  listUploads: {
    200: listed(),
    ...ofCallers((options, pipeline) => listed(options, pipeline)),
    invalid_request: listed({}, 'maps', '?idempotency_key=k&x=1'),
    internal_error: breakUploads(listed()),
  },
  getUpload: {
    200: ofUpload('GET'),
    ...ofNoUpload('GET'),
    upload_not_found: ofUpload('GET', {}, true),
    internal_error: breakUploads(ofUpload('GET', {}, true)),
  },
  sendUpload: ofSending(),
  removeUpload: {
    204: ofUpload('DELETE'),
    ...ofNoUpload('DELETE'),
    upload_not_found: ofUpload('DELETE', {}, true),
    unsupported_tus_version: ofUpload('DELETE', oldVersion),
    upload_locked: [{ holdWaitMs: 10 }, holdsIt('DELETE')],
    internal_error: breakUploads(ofUpload('DELETE', {}, true)),
  },
};

const json = { 'content-type': 'application/json' };
/** @param path The path of the run's record. */
const acting =
  (what: 'cancel' | 'rerun' | 'retry') =>
  (path: string, { pipeline = 'maps', token = tokens.maps, headers = {}, body = '' } = {}): Call =>
    get(`/v1/pipelines/${pipeline}${path}/${what}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, ...headers },
      body: body === '' ? null : body,
    });
const [cancel, rerun, retry] = [acting('cancel'), acting('rerun'), acting('retry')];
/** The path of an upload whose run has ended. */
const withRun =
  (outcome: 'ok' | 'failed', call: (path: string) => Call): Call =>
  async (api) => {
    await api.ports.queue.start(async () => runResult(outcome));
    return ofAnUpload((path) => async (api) => {
      await (await fetch(`${api.origin}${path}?wait=60`)).text();
      return call(path)(api);
    })(api);
  };
const ofPauses = (what: 'pause' | 'resume'): Record<string, Provocation> => {
  const send = (pipeline = 'maps', { token = tokens.admin, headers = {}, body = '' } = {}): Call =>
    get(`/v1/pipelines/${pipeline}/${what}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, ...headers },
      body: body === '' ? null : body,
    });
  const head = { Authorization: `Bearer ${tokens.admin}`, 'Content-Type': 'application/json' };
  const stalling = uploadHead({ ...head, 'Content-Length': 2 }, `/v1/pipelines/maps/${what}`);
  return {
    200: send('maps', { headers: json, body: '{}' }),
    unauthorized: send('maps', { token: 'guess' }),
    forbidden: send('maps', { token: tokens.docs }),
    token_expired: send('maps', { token: tokens.expired }),
    insufficient_scope: send('maps', { token: tokens.reader }),
    pipeline_not_found: send('none'),
    invalid_request: send('maps', { headers: json, body: '{"for": "ever"}' }),
    unsupported_media_type: send('maps', { headers: { 'content-type': 'text/plain' }, body: '{}' }),
    queue_unavailable: away(send()),
    upload_timeout: stalled(stalling),
    shutting_down: stopping(send('maps', { headers: json, body: '{}' })),
    internal_error: broken(send()),
  };
};

const reloads = (): Record<string, Provocation> => {
  const send = ({ token = tokens.admin, headers = {}, body = '' } = {}): Call =>
    get('/v1/reload', {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, ...headers },
      body: body === '' ? null : body,
    });
  const failing =
    (error: Error): Call =>
    (api) => {
      Object.assign(api.ports, { reload: () => Promise.reject(error) });
      return send()(api);
    };
  const head = { Authorization: `Bearer ${tokens.admin}`, 'Content-Type': 'application/json' };
  return {
    200: send({ headers: json, body: '{}' }),
    unauthorized: send({ token: 'guess' }),
    forbidden: send({ token: tokens.maps }),
    invalid_request: send({ headers: json, body: '{"force": true}' }),
    unsupported_media_type: send({ headers: { 'content-type': 'text/plain' }, body: '{}' }),
    reload_refused: failing(new WaybillError('reload_refused', 'nothing was changed: it has an error')),
    queue_unavailable: failing(new WaybillError('queue_unavailable', 'unreachable in this test')),
    upload_timeout: stalled(uploadHead({ ...head, 'Content-Length': 2 }, '/v1/reload')),
    shutting_down: stopping(send({ headers: json, body: '{}' })),
    internal_error: failing(new Error('by the will of the test')),
  };
};

const issuer = await startIssuer(t);
const unusedSessions = { add: async () => undefined, findRevoked: async () => new Map<string, Date>() };
const tooManyLogins = (): Promise<never> =>
  Promise.reject(new WaybillError('too_many_logins', 'by the will of the test'));

const exchanges = (): Record<string, Provocation> => {
  const publishers = [publisherOf(issuer.url)];
  const away = { iss: 'http://127.0.0.1:1' };
  const send =
    (form: Record<string, string> | null, signed?: Promise<string>): Call =>
    async ({ origin }) => {
      const idToken = await (signed ?? issuer.sign(claims));
      const body = new URLSearchParams({ ...exchangeForm, subject_token: idToken, ...form });
      return fetch(`${origin}/v1/token`, { method: 'POST', body: form === null ? '{}' : body });
    };
  const failing = (error: Error): Provocation => [
    {
      publishers,
      ports: { identity: { revokedSessions: { ...unusedSessions, addOnce: () => Promise.reject(error) } } },
    },
    send({}),
  ];
  const refused = (code: ErrorCode): Provocation =>
    failing(new WaybillError(code, 'by the will of the test'));
  const head = { 'Content-Type': 'application/x-www-form-urlencoded', 'Content-Length': 2 };
  return {
    200: [{ publishers }, send({})],
    invalid_request: [{ publishers }, send({ grant_type: 'password' })],
    unsupported_media_type: [{ publishers }, send(null)],
    id_token_refused: [{ publishers }, send({}, Promise.resolve('x'))],
    issuer_unavailable: [
      { publishers: [publisherOf(away.iss)] },
      send({}, issuer.sign({ ...claims, ...away })),
    ],
    too_many_logins: [
      {
        publishers,
        ports: { identity: { exchangeLimit: { admit: tooManyLogins, failed: async () => undefined } } },
      },
      send({}),
    ],
    queue_unavailable: refused('queue_unavailable'),
    insufficient_storage: refused('insufficient_storage'),
    server_busy: refused('server_busy'),
    upload_timeout: stalled(uploadHead(head, '/v1/token')),
    shutting_down: stopping(send({})),
    internal_error: failing(new Error('by the will of the test')),
  };
};

const ofUndelivered = (): Record<string, Provocation> => {
  const path = (id = 'hook'): string => `/v1/notifiers/${id}/undelivered`;
  const failing =
    (error: Error): Call =>
    (api) => {
      Object.assign(api.ports.notifier, { undelivered: () => Promise.reject(error) });
      return get(path(), authorized(tokens.admin))(api);
    };
  return {
    200: get(path(), authorized(tokens.admin)),
    unauthorized: get(path(), authorized('guess')),
    forbidden: get(path(), authorized(tokens.maps)),
    notifier_not_found: get(path('none'), authorized(tokens.admin)),
    invalid_request: get(`${path()}?all=1`, authorized(tokens.admin)),
    queue_unavailable: failing(new WaybillError('queue_unavailable', 'unreachable in this test')),
    internal_error: failing(new Error('by the will of the test')),
  };
};

const redeliveries = (): Record<string, Provocation> => {
  const send = ({ id = 'hook', token = tokens.admin, headers = {}, body = '' } = {}): Call =>
    get(`/v1/notifiers/${id}/redeliver`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, ...headers },
      body: body === '' ? null : body,
    });
  const failing =
    (error: Error): Call =>
    (api) => {
      Object.assign(api.ports.notifier, { redeliver: () => Promise.reject(error) });
      return send()(api);
    };
  const head = { Authorization: `Bearer ${tokens.admin}`, 'Content-Type': 'application/json' };
  return {
    200: send({ headers: json, body: '{}' }),
    unauthorized: send({ token: 'guess' }),
    forbidden: send({ token: tokens.maps }),
    notifier_not_found: send({ id: 'none' }),
    invalid_request: send({ headers: json, body: '{"force": true}' }),
    unsupported_media_type: send({ headers: { 'content-type': 'text/plain' }, body: '{}' }),
    redelivery_running: failing(new WaybillError('redelivery_running', 'by the will of the test')),
    queue_unavailable: failing(new WaybillError('queue_unavailable', 'unreachable in this test')),
    upload_timeout: stalled(uploadHead({ ...head, 'Content-Length': 2 }, '/v1/notifiers/hook/redeliver')),
    shutting_down: stopping(send({ headers: json, body: '{}' })),
    internal_error: failing(new Error('by the will of the test')),
  };
};

/** The refusals that both routes for releases have in common. */
const ofReleases = (
  send: (place?: string, options?: { token?: string; query?: string }) => Call,
): Record<string, Provocation> => ({
  200: send(),
  unauthorized: send('maps', { token: 'guess' }),
  forbidden: send('maps', { token: tokens.docs }),
  pipeline_not_found: send('none'),
  token_expired: send('maps', { token: tokens.expired }),
  invalid_request: send('maps', { query: '?path=..' }),
  ...Object.fromEntries(
    (
      [
        'destination_not_found',
        'no_releases',
        'state_conflict',
        'destination_unavailable',
        'server_busy',
        'shutting_down',
        'internal_error',
      ] as const
    ).map((code) => [code, releasesThrow(code, send())]),
  ),
});
const releasesThrow =
  (code: ErrorCode, call: Call): Call =>
  (api) => {
    const thrown = new WaybillError(code, 'by the will of the test');
    Object.assign(api.ports.threads, { releases: () => Promise.reject(thrown) });
    return call(api);
  };
const releasesOf = (pipeline: string): string => `/v1/pipelines/${pipeline}/destinations/web/releases`;
const listing = (pipeline = 'maps', { token = tokens.maps, query = '' } = {}): Call =>
  get(`${releasesOf(pipeline)}${query}`, authorized(token));
/** Reads a release, or compares it. */
const ofOneRelease = (below: string): Record<string, Provocation> => {
  const reading = (pipeline = 'maps', { token = tokens.maps, query = '' } = {}): Call =>
    get(`${releasesOf(pipeline)}/current${below}${query}`, authorized(token));
  return {
    ...ofReleases(reading),
    insufficient_scope: reading('maps', { token: tokens.writer }),
    ...Object.fromEntries(
      (['release_not_found', 'bundle_path_needed', 'not_published'] as const).map((code) => [
        code,
        releasesThrow(code, reading()),
      ]),
    ),
  };
};
const activating = (
  pipeline = 'maps',
  { token = tokens.maps, query = '', headers = json, body = '{}' } = {},
): Call =>
  get(`${releasesOf(pipeline)}/20261120T000000Z-00000001/activate${query}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, ...headers },
    body,
  });

const withTrailAt = (directory: string): ApiSettings => ({
  ports: {
    audit: {
      directory,
      trail: {
        requireWritable: async () => {
          throw new WaybillError('audit_unavailable', 'full by the will of the test');
        },
        append: async () => undefined,
      },
    },
  },
});
const noTrail = withTrailAt('/nowhere');

const provocations: Record<string, Record<string, Provocation>> = {
  ...ofResumables,
  ...Object.fromEntries(Object.entries(weatherReads).map(([name, path]) => [name, ofWeather(path)])),
  uploadBundle: ofUploads(upload, uploadHead({ 'Content-Length': 10 })),
  uploadBundleForm: {
    ...ofUploads(uploadForm, uploadHead({ 'Content-Length': 10, 'Content-Type': formType }, formPath)),
    invalid_request: ({ origin }) => uploadForm(origin, { headers: { 'content-type': formType } }),
  },
  getRun: {
    200: ofAnUpload((path) => get(path)),
    304: ofAnUpload(again),
    invalid_request: get('/runs/none?wait=61'),
    run_not_found: get('/runs/none'),
    unauthorized: [protectRuns, get('/runs/none')],
    forbidden: [protectRuns, ofAnUpload((path) => get(path, authorized(tokens.docs)))],
    token_expired: [protectRuns, get('/runs/none', authorized(tokens.expired))],
    insufficient_scope: [protectRuns, ofAnUpload((path) => get(path, authorized(tokens.writer)))],
    queue_unavailable: away(get('/runs/none')),
    internal_error: broken(get('/runs/none')),
  },
  followRun: {
    200: ofAFinishedRun((path) => get(`${path}/events`)),
    204: ofAFinishedRun(followedAgain),
    run_not_found: get('/runs/none/events'),
    unauthorized: [protectRuns, get('/runs/none/events')],
    forbidden: [protectRuns, ofAnUpload((path) => get(`${path}/events`, authorized(tokens.docs)))],
    token_expired: [protectRuns, get('/runs/none/events', authorized(tokens.expired))],
    insufficient_scope: [protectRuns, get('/runs/none/events', authorized(tokens.writer))],
    quota_exceeded: [noStreamOfOwn, ofAnUpload((path) => get(`${path}/events`))],
    too_many_streams: [noStreams, ofAnUpload((path) => get(`${path}/events`))],
    queue_unavailable: away(get('/runs/none/events')),
    internal_error: broken(get('/runs/none/events')),
  },
  followRuns: {
    200: [{ draining: true }, get('/v1/events', authorized(tokens.maps))],
    unauthorized: get('/v1/events', authorized('guess')),
    pipeline_not_found: get('/v1/events?pipeline=none', authorized(tokens.maps)),
    forbidden: get('/v1/events?pipeline=docs', authorized(tokens.maps)),
    token_expired: get('/v1/events', authorized(tokens.expired)),
    insufficient_scope: get('/v1/events', authorized(tokens.writer)),
    invalid_request: get('/v1/events?limit=501', authorized(tokens.maps)),
    quota_exceeded: [noStreamOfOwn, get('/v1/events', authorized(tokens.maps))],
    too_many_streams: [noStreams, get('/v1/events', authorized(tokens.maps))],
    queue_unavailable: away(get('/v1/events', authorized(tokens.maps))),
    internal_error: broken(get('/v1/events', authorized(tokens.maps))),
  },
  listPipelines: {
    200: async (api) => {
      await upload(api.origin);
      await api.ports.queue.start(async () => runResult('ok'));
      const { runs } = await api.ports.queue.list(['maps'], { limit: 1 });
      await api.ports.queue.untilFinished(runs[0]?.run_id ?? '', new AbortController().signal);
      return get('/v1/pipelines', authorized(tokens.maps))(api);
    },
    unauthorized: get('/v1/pipelines', authorized('guess')),
    token_expired: get('/v1/pipelines', authorized(tokens.expired)),
    insufficient_scope: get('/v1/pipelines', authorized(tokens.writer)),
    queue_unavailable: away(get('/v1/pipelines', authorized(tokens.maps))),
    internal_error: broken(get('/v1/pipelines', authorized(tokens.maps))),
  },
  listAllRuns: {
    200: async (api) => {
      for (const body of ['A', 'B']) await upload(api.origin, { body });
      const query = '?limit=1&status=queued&pipeline=maps&since=2026-01-01T00:00:00Z&q=maps';
      return get(`/v1/runs${query}`, authorized(tokens.maps))(api);
    },
    unauthorized: get('/v1/runs', authorized('guess')),
    pipeline_not_found: get('/v1/runs?pipeline=none', authorized(tokens.maps)),
    forbidden: get('/v1/runs?pipeline=maps,docs', authorized(tokens.maps)),
    token_expired: get('/v1/runs', authorized(tokens.expired)),
    insufficient_scope: get('/v1/runs', authorized(tokens.writer)),
    invalid_request: get('/v1/runs?since=yesterday', authorized(tokens.maps)),
    run_not_found: get('/v1/runs?before=maps.none', authorized(tokens.maps)),
    queue_unavailable: away(get('/v1/runs', authorized(tokens.maps))),
    internal_error: broken(get('/v1/runs', authorized(tokens.maps))),
  },
  startRun: {
    202: start('files', { headers: { 'content-type': 'application/json' }, body: '{}' }),
    unauthorized: start('files', { token: 'guess' }),
    pipeline_not_found: start('none'),
    forbidden: start('files', { token: tokens.maps }),
    token_expired: start('files', { token: tokens.expired }),
    insufficient_scope: start('files', { token: tokens.reader }),
    pipeline_takes_uploads: start('docs'),
    channel_not_found: start('files', { query: '?channel=none' }),
    invalid_idempotency_key: start('files', { headers: { 'idempotency-key': '' } }),
    unsupported_media_type: start('files', { headers: { 'content-type': 'text/plain' }, body: '{}' }),
    invalid_request: start('files', {
      headers: { 'content-type': 'application/json' },
      body: '{"force": true}',
    }),
    shutting_down: drained(start()),
    queue_full: [full, occupied(start(), { pipelineId: 'docs' })],
    pipeline_full: [{ maxWaiting: 1 }, occupied(start(), { pipelineId: 'files' })],
    queue_unavailable: away(start()),
    idempotency_in_progress: occupied(start('files', { headers: key }), keyInUse('writer', 'files')),
    upload_timeout: stalled(
      uploadHead(
        { Authorization: `Bearer ${tokens.docs}`, 'Content-Type': 'application/json', 'Content-Length': 2 },
        '/v1/pipelines/files/runs',
      ),
    ),
    internal_error: broken(start()),
  },
  rerunRun: {
    202: withRun('failed', (path) => rerun(path)),
    unauthorized: rerun('/runs/none', { token: 'guess' }),
    pipeline_not_found: rerun('/runs/none', { pipeline: 'none' }),
    forbidden: rerun('/runs/none', { token: tokens.docs }),
    token_expired: rerun('/runs/none', { token: tokens.expired }),
    insufficient_scope: rerun('/runs/none', { token: tokens.reader }),
    run_not_found: rerun('/runs/none'),
    run_not_finished: ofAnUpload((path) => rerun(path)),
    bundle_gone: ofAnUpload((path) => async (api) => {
      await (await cancel(path)(api)).text();
      return rerun(path)(api);
    }),
    queue_full: [full, withRun('failed', (path) => occupied(rerun(path), { pipelineId: 'docs' }))],
    pipeline_full: [
      { maxWaiting: 1 },
      withRun('failed', (path) => occupied(rerun(path), { pipelineId: 'maps' })),
    ],
    unsupported_media_type: rerun('/runs/none', { headers: { 'content-type': 'text/plain' }, body: '{}' }),
    invalid_request: rerun('/runs/none', { headers: json, body: '{"why": "so"}' }),
    queue_unavailable: away(rerun('/runs/none')),
    upload_timeout: stalled(
      uploadHead(
        { 'Content-Type': 'application/json', 'Content-Length': 2 },
        '/v1/pipelines/maps/runs/none/rerun',
      ),
    ),
    shutting_down: stopping(rerun('/runs/none', { headers: json, body: '{}' })),
    internal_error: broken(rerun('/runs/none')),
    insufficient_storage: withRun('failed', (path) => (api) => {
      const full = new WaybillError('insufficient_storage', 'the disk of the queue is full');
      Object.assign(api.ports.queue, { rerun: () => Promise.reject(full) });
      return rerun(path)(api);
    }),
  },
  retryRun: {
    200: ofAnUpload((path) => retry(path)),
    unauthorized: retry('/runs/none', { token: 'guess' }),
    pipeline_not_found: retry('/runs/none', { pipeline: 'none' }),
    forbidden: retry('/runs/none', { token: tokens.docs }),
    token_expired: retry('/runs/none', { token: tokens.expired }),
    insufficient_scope: retry('/runs/none', { token: tokens.reader }),
    run_not_found: retry('/runs/none'),
    run_finished: withRun('ok', (path) => retry(path)),
    unsupported_media_type: retry('/runs/none', { headers: { 'content-type': 'text/plain' }, body: '{}' }),
    invalid_request: retry('/runs/none', { headers: json, body: '{"why": "so"}' }),
    queue_unavailable: away(retry('/runs/none')),
    upload_timeout: stalled(
      uploadHead(
        { 'Content-Type': 'application/json', 'Content-Length': 2 },
        '/v1/pipelines/maps/runs/none/retry',
      ),
    ),
    shutting_down: stopping(retry('/runs/none', { headers: json, body: '{}' })),
    internal_error: broken(retry('/runs/none')),
  },
  cancelRun: {
    200: ofAnUpload((path) => cancel(path)),
    202: async (api) => {
      const untilStopped = (signal: AbortSignal): Promise<never> =>
        new Promise((_resolve, reject) =>
          signal.addEventListener('abort', () => reject(signal.reason as Error)),
        );
      await api.ports.queue.start((_job, { signal }) => untilStopped(signal));
      return ofAnUpload((path) => cancel(path))(api);
    },
    unauthorized: cancel('/runs/none', { token: 'guess' }),
    pipeline_not_found: cancel('/runs/none', { pipeline: 'none' }),
    forbidden: cancel('/runs/none', { token: tokens.docs }),
    token_expired: cancel('/runs/none', { token: tokens.expired }),
    insufficient_scope: cancel('/runs/none', { token: tokens.reader }),
    run_not_found: cancel('/runs/none'),
    run_finished: withRun('ok', (path) => cancel(path)),
    unsupported_media_type: cancel('/runs/none', { headers: { 'content-type': 'text/plain' }, body: '{}' }),
    invalid_request: cancel('/runs/none', { headers: json, body: '{"why": "so"}' }),
    queue_unavailable: away(cancel('/runs/none')),
    upload_timeout: stalled(
      uploadHead(
        { 'Content-Type': 'application/json', 'Content-Length': 2 },
        '/v1/pipelines/maps/runs/none/cancel',
      ),
    ),
    shutting_down: stopping(cancel('/runs/none', { headers: json, body: '{}' })),
    internal_error: broken(cancel('/runs/none')),
  },
  listRuns: {
    200: async (api) => {
      for (const body of ['A', 'B']) await upload(api.origin, { body });
      return list('?limit=1&status=queued')(api);
    },
    unauthorized: list('', 'guess'),
    pipeline_not_found: list('', tokens.maps, 'none'),
    forbidden: list('', tokens.docs),
    token_expired: list('', tokens.expired),
    insufficient_scope: list('', tokens.writer),
    invalid_request: list('?limit=0'),
    run_not_found: list('?before=maps.none'),
    queue_unavailable: away(list()),
    internal_error: broken(list()),
  },
  listReleases: {
    ...ofReleases(listing),
    insufficient_scope: listing('maps', { token: tokens.writer }),
  },
  showRelease: ofOneRelease(''),
  compareReleases: ofOneRelease('/diff'),
  activateRelease: {
    ...ofReleases(activating),
    insufficient_scope: activating('maps', { token: tokens.reader }),
    unsupported_media_type: activating('maps', { headers: { 'content-type': 'text/plain' } }),
    ...Object.fromEntries(
      (
        [
          'release_not_found',
          'release_unusable',
          'bundle_path_needed',
          'not_published',
          'destination_busy',
        ] as const
      ).map((code) => [code, releasesThrow(code, activating())]),
    ),
    upload_timeout: stalled(
      uploadHead(
        { 'Content-Type': 'application/json', 'Content-Length': 2 },
        `${releasesOf('maps')}/x/activate`,
      ),
    ),
  },
  pausePipeline: ofPauses('pause'),
  resumePipeline: ofPauses('resume'),
  validateSceneMap: {
    200: validate(sceneMap),
    unsupported_media_type: validate('x', { 'content-type': 'text/plain' }),
    upload_too_large: validate(Buffer.alloc(4 * 1024 * 1024 + 1)),
    upload_timeout: stalled(
      uploadHead({ 'Content-Type': 'application/json', 'Content-Length': 2 }, '/v1/scene-maps/validate'),
    ),
    shutting_down: stopping(validate('{}')),
    server_busy: unchecked(new WaybillError('server_busy', 'by the will of the test')),
    internal_error: unchecked(new Error('by the will of the test')),
    unauthorized: [{ http: { protectSceneMaps: true } }, validate('{}')],
    token_expired: [
      { http: { protectSceneMaps: true } },
      validate('{}', { 'content-type': 'application/json', ...authorized(tokens.expired).headers }),
    ],
    invalid_request: get('/v1/scene-maps/validate?schema_only=perhaps', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
    }),
  },
  getSceneMapSchema: { 200: get('/v1/schemas/scene-map.json'), 304: again('/v1/schemas/scene-map.json') },
  getHealth: ofReadiness('/healthz'),
  getReadiness: ofReadiness('/readyz'),
  exchangeToken: exchanges(),
  reload: reloads(),
  listAudit: ofAudit(),
  listUndelivered: ofUndelivered(),
  redeliver: redeliveries(),
  getLiveness: { 200: [{ draining: true }, get('/livez')] },
  getMetrics: {
    200: get('/metrics'),
    unauthorized: [{ metricsToken: tokens.metrics }, get('/metrics', authorized(tokens.maps))],
    internal_error: broken(get('/metrics')),
  },
  getOpenApi: { 200: get('/openapi.json'), 304: again('/openapi.json') },
  getApiPage: { 200: get('/docs'), 304: again('/docs') },
};

/** These do not depend on anything that a test could break. */
const neverFail = ['getUploadOptions', 'getSceneMapSchema', 'getLiveness', 'getOpenApi', 'getApiPage'];

for (const { method, path, operation } of operations()) {
  t.test(`${method.toUpperCase()} ${path} answers as the document says, in every case`, async (t) => {
    const left = new Set(casesOf(operation));
    const cases = {
      ...(left.has('audit_unavailable') && { audit_unavailable: unrecorded(method, path) }),
      ...provocations[operation.operationId],
    };
    if (neverFail.includes(operation.operationId)) left.delete('internal_error');
    for (const [name, provocation] of Object.entries(cases)) {
      const [settings, call] = Array.isArray(provocation) ? provocation : [{}, provocation];
      const response = await call(await startApi(t, settings));
      t.ok(left.delete(name), `${name} is in the document`);
      await holds(t, operation, response, name);
    }
    t.same([...left], [], 'the test produced every answer of the document');
  });
}

/** An act that cannot be recorded is rejected before all other checks. */
function unrecorded(method: string, path: string): Provocation {
  return [
    noTrail,
    ({ origin }) =>
      fetch(`${origin}${path.replaceAll(/\{[a-z_]+\}/g, 'x')}`, { method: method.toUpperCase() }),
  ];
}

function ofAudit(): Record<string, Provocation> {
  const list = (token: string, query = ''): Provocation => [
    noTrail,
    get(`/v1/audit${query}`, authorized(token)),
  ];
  return {
    200: list(tokens.admin),
    unauthorized: list('guess'),
    token_expired: list(tokens.expired),
    insufficient_scope: list(tokens.reader),
    invalid_request: list(tokens.admin, '?act=none'),
    pipeline_not_found: list(tokens.maps, '?pipeline=none'),
    forbidden: list(tokens.maps, '?pipeline=docs'),
    not_found: get('/v1/audit', authorized(tokens.admin)),
    internal_error: [withTrailAt('no\0path'), get('/v1/audit', authorized(tokens.admin))],
  };
}

/** `200`, `304`, and each code of the problems. */
function casesOf({ responses }: Operation): string[] {
  return Object.entries(responses).flatMap(([status, { content }]) => {
    const problem = content?.['application/problem+json']?.schema as
      { properties: { code: { enum: string[] } } } | undefined;
    return problem === undefined ? [status] : problem.properties.code.enum;
  });
}

async function holds(t: Test, { responses }: Operation, response: Response, name: string): Promise<void> {
  const documented: ResponseObject | undefined = responses[response.status];
  if (documented === undefined)
    return void t.fail(`${name}: status ${response.status} is not in the document`);
  for (const [header, { required, schema }] of Object.entries(documented.headers ?? {})) {
    const value = response.headers.get(header);
    if (required === true) t.ok(value, `${name}: ${header} is there`);
    if (value !== null)
      t.same(
        errorsOf(schema, schema['type'] === 'integer' ? Number(value) : value),
        [],
        `${name}: ${header}`,
      );
  }
  const text = await response.text();
  if (documented.content === undefined) return void t.equal(text, '', `${name}: no body`);
  const type = response.headers.get('content-type')?.split(';', 1)[0] ?? 'none';
  const media = documented.content[type];
  if (media?.schema === undefined) return void t.fail(`${name}: ${type} is not in the document`);
  const body: unknown = type.endsWith('json') ? JSON.parse(text) : text;
  t.same(errorsOf(media.schema, body), [], `${name}: the body matches the schema`);
  t.equal(codeOf(type, body) ?? String(response.status), name);
}

/** The problem in the response, or undefined. */
function codeOf(type: string, body: unknown): string | undefined {
  if (type === 'application/problem+json') return (body as { code: string }).code;
  return typeof body === 'string' ? /^[45]\d\d [^:]+: ([a-z_]+)\n/.exec(body)?.[1] : undefined;
}

/** Reads the example in the document. */
function exampleReader(path: string): WeatherReader {
  const media = document.paths[path]?.get?.responses['200']?.content?.['application/json'];
  const { data } = media?.example as { data: object };
  return readerThat(() => Promise.resolve({ data, lastModified: new Date() }));
}

function failingReader(code: ErrorCode): WeatherReader {
  return readerThat(() => Promise.reject(new WaybillError(code, 'by the will of the test')));
}

function operations(): { method: string; path: string; operation: Operation }[] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ method, path, operation })),
  );
}

/** `get /runs/:runId` and so on, for a router and its nested ones. */
function routesOf(router: Router): string[] {
  return router.stack.flatMap(({ route, handle }) => {
    if (route !== undefined) {
      const served = Object.keys((route as unknown as { methods: Record<string, true> }).methods);
      return served.filter((method) => method !== '_all').map((method) => `${method} ${route.path}`);
    }
    return 'stack' in handle ? routesOf(handle as unknown as Router) : [];
  });
}

/** Announces a body but sends none. Returns a response in the same form as the other functions. */
async function stalledUpload(api: Api, requestHead: string): Promise<Response> {
  const { socket, until } = await connect(t, api.origin);
  socket.write(requestHead);
  const text = await until(/\r\n\r\n\{.*\}/);
  // Closing the API would wait for the body.
  socket.destroy();
  const [head = '', body = ''] = text.split('\r\n\r\n');
  const [first = '', ...lines] = head.split('\r\n');
  const headers = lines.map((line) => /^([^:]+): (.*)$/.exec(line)?.slice(1) as [string, string]);
  return new Response(body.slice(0, body.lastIndexOf('}') + 1).replace(/^[^{]*/, ''), {
    status: Number(first.split(' ')[1]),
    headers: headers.filter(([name]) => name !== 'Content-Length'),
  });
}
