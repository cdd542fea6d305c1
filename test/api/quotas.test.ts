import t from 'tap';
import type { AuditTarget } from '../../src/api/http/recorded-acts.ts';
import type { ActEntry } from '../../src/core/audit/record.ts';
import type { Config } from '../../src/core/config/config.ts';
import { parseConfig } from '../../src/core/config/load-config.ts';
import { maxWaitingOf } from '../../src/workers/threads/run-settings.ts';
import { connect, startApi, tokens, upload, uploadHead } from './harness.ts';
import { tus } from './resumable/tus.ts';
import { answered } from './stalled-bodies.ts';

/** One token cannot use the resources of others. */

const uploads = '/v1/pipelines/maps/uploads';

t.test(
  'a token can send max_uploads_per_token archives concurrently, without limiting another token',
  async (t) => {
    const api = await startApi(t, { http: { maxUploadsPerToken: 1 } });
    const { origin } = api;
    const slow = await connect(t, origin);
    slow.socket.write(`${uploadHead({ 'Content-Length': 100 })}-`);
    while ((await api.staged()).length === 0) await new Promise((resolve) => setImmediate(resolve));
    const refused = await upload(origin);
    t.equal(refused.status, 429);
    t.equal(refused.headers.get('retry-after'), '10');
    t.match(await refused.json(), { code: 'quota_exceeded', retryable: true });
    const created = await tus('POST', origin + uploads, { headers: { 'upload-length': '1' } });
    const path = created.headers.get('location') ?? '';
    const headers = { 'upload-offset': '0' };
    t.equal((await tus('PATCH', origin + path, { headers, body: 'x' })).status, 429, 'a resumable upload');
    t.equal((await upload(origin, { pipeline: 'docs', token: tokens.docs })).status, 202, 'another token');
    slow.socket.end('-'.repeat(99));
    t.match(await slow.until(answered), /^HTTP\/1.1 202 /);
    await slow.closed;
    t.equal((await upload(origin)).status, 202, 'the share is available again');
  },
);

t.test('a client that disconnects before its upload is admitted keeps no share', async (t) => {
  const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  const admissions: number[] = [];
  const acts: ActEntry[] = [];
  const trail: AuditTarget['trail'] = {
    requireWritable: async () => {
      const count = admissions.push(1);
      while (count === 1 && !api.lines.some(({ message }) => message === 'request aborted by the client'))
        await nextTurn();
    },
    append: async (act) => void acts.push(act),
  };
  const api = await startApi(t, {
    http: { maxUploadsPerToken: 1 },
    ports: { audit: { trail, directory: '/' } },
  });
  const gone = await connect(t, api.origin);
  gone.socket.write(`${uploadHead({ 'Content-Length': 100 })}-`);
  while (admissions.length === 0) await nextTurn();
  gone.socket.destroy();
  while (!acts.some(({ act }) => act === 'upload')) await nextTurn();
  t.match(acts, [{ act: 'upload', code: 'aborted' }]);
  t.equal((await upload(api.origin)).status, 202);
});

t.test('a client that pipelines an upload and disconnects keeps no share', async (t) => {
  const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  const api = await startApi(t, { http: { maxUploadsPerToken: 1 } });
  const gone = await connect(t, api.origin);
  const follow = `GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${tokens.maps}\r\n\r\n`;
  gone.socket.write(`${follow}${uploadHead({ 'Content-Length': 100 })}-`);
  await gone.until(/event: snapshot/);
  for (let turns = 0; turns < 20; turns += 1) await nextTurn();
  gone.socket.destroy();
  while (!api.lines.some(({ message }) => message === 'request aborted by the client')) await nextTurn();
  t.equal((await upload(api.origin)).status, 202);
});

for (const [what, settings] of [
  ['max_uploads_per_token', { maxUploadsPerToken: 2 }],
  ['max_bytes_per_token', { maxBytesPerToken: 250 }],
] as const)
  t.test(`a token can have ${what} of partial uploads at most, without limiting another token`, async (t) => {
    const { origin } = await startApi(t, { resumable: settings });
    const create = async (token: string, pipeline: string): Promise<Response> =>
      tus('POST', `${origin}/v1/pipelines/${pipeline}/uploads`, {
        token,
        headers: { 'upload-length': '100' },
      });
    const statuses = await Promise.all([1, 2, 3].map(async () => (await create(tokens.maps, 'maps')).status));
    t.same(statuses.sort(), [201, 201, 429]);
    const refused = await create(tokens.maps, 'maps');
    t.ok(refused.headers.get('retry-after'));
    t.match(await refused.json(), { code: 'quota_exceeded' });
    t.equal((await create(tokens.docs, 'docs')).status, 201);
  });

t.test('a single partial upload may exceed max_bytes_per_token', async (t) => {
  const { origin } = await startApi(t, { resumable: { maxBytesPerToken: 10 } });
  t.equal((await tus('POST', origin + uploads, { headers: { 'upload-length': '100' } })).status, 201);
});

t.test('a token can open max_streams_per_client streams, without limiting another token', async (t) => {
  const { origin } = await startApi(t, { http: { maxStreamsPerClient: 1 } });
  const follow = (token: string): Promise<Response> =>
    fetch(`${origin}/v1/events`, { headers: { authorization: `Bearer ${token}` } });
  const open = await follow(tokens.maps);
  t.equal(open.status, 200);
  const refused = await follow(tokens.maps);
  t.equal(refused.status, 429);
  t.ok(refused.headers.get('retry-after'));
  t.match(await refused.json(), { code: 'quota_exceeded', retryable: true });
  const other = await follow(tokens.docs);
  t.equal(other.status, 200);
  for (const { body } of [open, other]) await body?.cancel();
});

t.test('by default a pipeline leaves a quarter of queue_size to the others', async (t) => {
  const configOf = (ids: readonly string[]): Config => {
    const pipelines = ids.map(
      (id) =>
        `{id: ${id}, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: /srv/${id}}]}`,
    );
    const text = `server: {http: {queue_size: 10}}\npipelines: [${pipelines.join(', ')}]`;
    return parseConfig(Buffer.from(text), '/etc/waybill.yml', { home: '/' }).config;
  };
  const several = configOf(['maps', 'docs']);
  t.equal(maxWaitingOf({ get: () => several })('maps'), 8);
  const single = configOf(['maps']);
  t.equal(maxWaitingOf({ get: () => single })('maps'), null, 'a single pipeline can use all of it');
});

t.test('pausing and resuming do not reveal to a producer which pipelines exist', async (t) => {
  const { origin } = await startApi(t);
  for (const verb of ['pause', 'resume']) {
    const refusalOf = async (pipeline: string): Promise<unknown> => {
      const headers = { authorization: `Bearer ${tokens.maps}` };
      const path = `${origin}/v1/pipelines/${pipeline}/${verb}`;
      const response = await fetch(path, { method: 'POST', headers });
      const { code, detail } = (await response.json()) as { code: string; detail: string };
      return { status: response.status, code, detail };
    };
    const ofUnknown = await refusalOf('none');
    t.match(ofUnknown, { status: 403, code: 'forbidden' });
    t.same(await refusalOf('docs'), ofUnknown, verb);
  }
});
