import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { consoleRoutes } from '../../src/api/console/console.ts';
import { daemonRoutes } from '../../src/cli/daemon/daemon-app.ts';
import { readPage } from '../../src/core/audit/read-trail.ts';
import { type ActEntry, acts, type AuditRecord } from '../../src/core/audit/record.ts';
import { openTrail } from '../../src/core/audit/trail.ts';
import { verifyTrail } from '../../src/core/audit/verify-trail.ts';
import { systemClock } from '../../src/core/lib/clock.ts';
import { WaybillError } from '../../src/core/lib/errors.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import { auditChecks } from '../../src/workers/coordinator/health-checks.ts';
import type { ReleasesAnswer } from '../../src/workers/threads/releases-request.ts';
import { type Api, type ApiSettings, startApi, tokens, upload, uploadForm } from './harness.ts';

interface Audited extends Api {
  directory: string;
  /** The records since the last call, oldest first, without uses of tokens. */
  news: () => Promise<AuditRecord[]>;
}

async function audited(t: Test, settings: ApiSettings = {}): Promise<Audited> {
  const directory = mkdtempSync(path.join(tmpdir(), 'waybill-audit-'));
  t.teardown(() => rmSync(directory, { recursive: true }));
  const options = { clock: systemClock, log: silentLog, host: 'h1' };
  const trail = await openTrail(
    { directory, maxBytes: 1 << 20, maxAgeMs: 86_400_000, onFull: 'refuse' },
    options,
  );
  t.teardown(() => trail.close());
  const api = await startApi(t, { ...settings, ports: { audit: { trail, directory }, ...settings.ports } });
  let last = 0;
  const news = async (): Promise<AuditRecord[]> => {
    const { records } = await readPage(directory, { limit: 500 });
    const found = records.filter(({ seq, act }) => seq > last && act !== 'token.use').reverse();
    last = records[0]?.seq ?? 0;
    return found;
  };
  return { ...api, directory, news };
}

const as = (token: string): { authorization: string } => ({ authorization: `Bearer ${token}` });

t.test('every route that changes something names its audited act, or the reason why it has none', (t) => {
  const changing = [...daemonRoutes, ...consoleRoutes].filter(({ method }) => method !== 'get');
  t.ok(changing.length > 25);
  const without = changing.filter(({ audit }) =>
    typeof audit === 'string' ? !acts.includes(audit) : (audit?.none ?? '') === '',
  );
  t.same(
    without.map(({ method, path: at }) => `${method} ${at}`),
    [],
    'add `audit` to the route: an act of src/core/audit/record.ts, or the reason why there is none',
  );
  t.same(
    changing.flatMap(({ method, path: at, audit }) => (typeof audit === 'string' ? [] : [`${method} ${at}`])),
    [
      'post /v1/pipelines/{pipeline_id}/missing',
      'options /v1/pipelines/{pipeline_id}/uploads',
      'post /v1/scene-maps/validate',
      'post /console/pipelines/{pipeline_id}/plan',
      'post /console/pipelines/{pipeline_id}/destinations/{destination_id}/verify',
    ],
    'the requests without a record',
  );
  t.end();
});

t.test('an upload has one record on disk before its answer', async (t) => {
  const { origin, news } = await audited(t);
  const response = await upload(origin);
  t.equal(response.status, 202);
  const { run_id: runId } = (await response.json()) as { run_id: string };
  t.match(await news(), [
    {
      act: 'upload',
      result: 'done',
      code: null,
      actor: { type: 'token', id: 'ci', via: 'api' },
      address: '127.0.0.1',
      pipeline_id: 'maps',
      run_id: runId,
      request_id: response.headers.get('x-request-id'),
    },
  ]);
});

t.test('a refused upload has a record with its code', async (t) => {
  const { origin, news } = await audited(t);
  t.equal((await upload(origin, { token: tokens.reader })).status, 403);
  t.equal((await upload(origin, { pipeline: 'docs' })).status, 403);
  t.equal((await upload(origin, { pipeline: 'nowhere-canary' })).status, 404);
  t.equal((await uploadForm(origin, { query: '?channel=none' })).status, 404);
  t.equal((await upload(origin, { query: '?dry_run=true' })).status, 200);
  const records = await news();
  t.match(records, [
    { result: 'refused', code: 'insufficient_scope', actor: { id: 'reader' }, pipeline_id: 'maps' },
    { result: 'refused', code: 'forbidden', actor: { id: 'ci' }, pipeline_id: 'docs' },
    { result: 'refused', code: 'pipeline_not_found', pipeline_id: null },
    { result: 'refused', code: 'channel_not_found', pipeline_id: 'maps', run_id: null },
  ]);
  t.equal(records.length, 4, 'a dry run changes nothing');
  t.notMatch(JSON.stringify(records), /canary/, 'no text of a rejected request');
});

t.test('each act of the API has one record', async (t) => {
  const { origin, news } = await audited(t);
  const post = async (at: string, token: string, body?: string): Promise<Response> =>
    fetch(`${origin}/${at}`, {
      method: 'POST',
      headers: { ...as(token), ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body }),
    });
  const { run_id: runId } = (await (await upload(origin)).json()) as { run_id: string };
  await news();
  const release = 'v1/pipelines/maps/destinations/web/releases/20261120T000000Z-00000001/activate';
  const { admin, maps, docs } = tokens;
  const asked: [string, string, number, string?][] = [
    ['v1/pipelines/maps/pause', admin, 200, '{"reason":"canary"}'],
    ['v1/pipelines/maps/resume', admin, 200],
    ['v1/pipelines/maps/pause', docs, 403],
    [`v1/pipelines/maps/runs/${runId}/retry`, maps, 200],
    [`v1/pipelines/maps/runs/${runId}/rerun`, maps, 409],
    [`v1/pipelines/maps/runs/${runId}/cancel`, maps, 200],
    [release, maps, 200],
    [release, maps, 200, '{"rollback":true}'],
    [`${release}?dry_run=true`, maps, 200],
    ['v1/pipelines/files/runs', docs, 202],
    ['v1/reload', admin, 200],
    ['v1/notifiers/hook/redeliver', admin, 200],
  ];
  for (const [at, token, status, body] of asked) t.equal((await post(at, token, body)).status, status, at);
  const records = await news();
  t.match(records, [
    { act: 'pipeline.pause', result: 'done', actor: { id: 'server.admin_token_env' }, pipeline_id: 'maps' },
    { act: 'pipeline.resume', result: 'done' },
    {
      act: 'pipeline.pause',
      result: 'refused',
      code: 'forbidden',
      actor: { id: 'writer' },
      pipeline_id: 'maps',
    },
    { act: 'run.retry', result: 'done', run_id: runId },
    { act: 'run.rerun', result: 'refused', code: 'run_not_finished', run_id: runId },
    { act: 'run.cancel', result: 'done', run_id: runId, pipeline_id: 'maps' },
    { act: 'release.activate', result: 'done', destination_id: 'web', detail: { release: /^20261120/ } },
    { act: 'release.rollback', result: 'done', destination_id: 'web' },
    { act: 'run.start', result: 'done', pipeline_id: 'files', run_id: /^files\./ },
    { act: 'reload', result: 'done', pipeline_id: null },
    { act: 'events.redeliver', result: 'done', detail: { notifier: 'hook' } },
  ]);
  t.equal(records.length, asked.length - 1);
  t.notMatch(JSON.stringify(records), /canary/, 'no free text');
});

t.test('a release that became current is recorded as done, although the client disconnected', async (t) => {
  const leave = new AbortController();
  const switched = { kind: 'activate', destinationPath: '.', from: null, to: 'r2' } as unknown;
  const releases = async (_request: unknown, signal: AbortSignal): Promise<ReleasesAnswer> => {
    leave.abort();
    await once(signal, 'abort');
    return switched as ReleasesAnswer;
  };
  const { origin, news } = await audited(t, { ports: { threads: { releases } } });
  const url = `${origin}/v1/pipelines/maps/destinations/site/releases/r2/activate`;
  await t.rejects(fetch(url, { method: 'POST', headers: as(tokens.admin), signal: leave.signal }));
  let records: AuditRecord[] = [];
  while (records.length === 0) records = await news();
  t.match(records, [{ act: 'release.activate', result: 'done', code: null }]);
});

t.test('a resumable upload has a record when it is complete, not for each part', async (t) => {
  const { origin, news } = await audited(t);
  const tus = { ...as(tokens.maps), 'tus-resumable': '1.0.0' };
  const created = await fetch(`${origin}/v1/pipelines/maps/uploads`, {
    method: 'POST',
    headers: { ...tus, 'upload-length': '4' },
  });
  t.equal(created.status, 201);
  const location = new URL(created.headers.get('location') ?? '', origin);
  const send = (offset: number, body: string): Promise<Response> =>
    fetch(location, {
      method: 'PATCH',
      headers: { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': String(offset) },
      body,
    });
  t.equal((await send(0, 'xx')).status, 204);
  t.equal((await send(0, 'xx')).status, 409);
  t.same(await news(), []);
  t.equal((await send(2, 'xx')).status, 204);
  t.match(await news(), [{ act: 'upload', result: 'done', pipeline_id: 'maps', run_id: /^maps\./ }]);
  t.equal((await fetch(location, { method: 'DELETE', headers: tus })).status, 204);
  t.match(await news(), [{ act: 'upload.remove', result: 'done' }]);
});

t.test('the first use of a token from an address in an hour is recorded', async (t) => {
  let ms = 0;
  const clock = { ...systemClock, monotonic: () => ms };
  const { origin, directory } = await audited(t, { clock, http: { trustedProxies: ['loopback'] } });
  const read = async (address: string): Promise<void> => {
    const headers = { ...as(tokens.reader), 'x-forwarded-for': address };
    await (await fetch(`${origin}/v1/runs`, { headers })).text();
  };
  for (const address of ['203.0.113.1', '203.0.113.1', '203.0.113.2', '203.0.113.1']) await read(address);
  ms += 3_600_001;
  await read('203.0.113.1');
  const uses = async (): Promise<AuditRecord[]> =>
    (await readPage(directory, { limit: 100, act: 'token.use' })).records.reverse();
  // The record is written after the answer.
  while ((await uses()).length < 3) await new Promise((resolve) => setImmediate(resolve));
  t.match(await uses(), [
    { actor: { type: 'token', id: 'reader' }, address: '203.0.113.1', detail: {} },
    { address: '203.0.113.2' },
    { address: '203.0.113.1', detail: { repeated: 2 } },
  ]);
});

t.test('refused requests without a token share one record for each network and hour', async (t) => {
  const { origin, news } = await audited(t);
  for (let n = 0; n < 20; n += 1) await upload(origin, { token: `wrong-${n}` });
  const records = await news();
  t.match(records, [{ act: 'upload', code: 'unauthorized', actor: { type: 'anonymous', id: null } }]);
  t.equal(records.length, 1);
});

t.test('logins and logouts of the console are recorded, and so is each refused login', async (t) => {
  const { origin, news } = await audited(t);
  const post = (at: string, form: Record<string, string>, cookie = ''): Promise<Response> =>
    fetch(`${origin}/${at}`, {
      method: 'POST',
      redirect: 'manual',
      headers: { cookie, accept: 'text/html' },
      body: new URLSearchParams(form),
    });
  for (let n = 0; n < 3; n += 1) t.equal((await post('console/login', { token: `canary-${n}` })).status, 401);
  const login = await post('console/login', { token: tokens.admin });
  const cookie = login.headers.get('set-cookie')?.split(';')[0] ?? '';
  const page = await (await fetch(`${origin}/console/admin`, { headers: { cookie } })).text();
  const csrf = /name="csrf" value="([^"]+)"/.exec(page)?.[1] ?? '';
  t.equal(
    (await post('console/pipelines/maps/pause', { csrf, reason: 'x'.repeat(300) }, cookie)).status,
    400,
  );
  t.equal((await post('console/pipelines/maps/pause', { csrf }, cookie)).status, 303);
  t.equal((await post('console/logout', { csrf }, cookie)).status, 303);
  const actor = { type: 'token', id: 'server.admin_token_env', via: 'console' };
  const records = await news();
  t.match(records, [
    ...[0, 1, 2].map(() => ({
      act: 'login',
      result: 'refused',
      code: 'unauthorized',
      actor: { type: 'anonymous' },
    })),
    { act: 'login', result: 'done', actor, address: '127.0.0.1' },
    { act: 'pipeline.pause', result: 'refused', code: 'invalid_request', actor },
    { act: 'pipeline.pause', result: 'done', actor, pipeline_id: 'maps' },
    { act: 'logout', result: 'done', actor },
  ]);
  t.equal(records.length, 7);
  t.notMatch(JSON.stringify(records), /canary/);
});

t.test('an act that cannot be recorded is refused before it changes anything', async (t) => {
  const refuse = async (): Promise<void> => {
    throw new WaybillError('audit_unavailable', 'the audit trail cannot be written: ENOSPC');
  };
  const append = async ({ act }: ActEntry): Promise<void> => void t.equal(act, 'token.use');
  const trail = { requireWritable: refuse, append, check: refuse };
  const checks = auditChecks({ onFull: 'refuse' }, { trail, clock: systemClock, admitsActs: true });
  const { origin, ports } = await startApi(t, { checks, ports: { audit: { trail, directory: '/nowhere' } } });
  const response = await upload(origin);
  t.equal(response.status, 503);
  t.match(await response.json(), { code: 'audit_unavailable', retryable: true });
  t.ok(response.headers.get('retry-after'));
  t.equal((await ports.queue.depth()).queued, 0);
  t.equal((await fetch(`${origin}/v1/runs`, { headers: as(tokens.maps) })).status, 200, 'reading continues');
  const readiness = await fetch(`${origin}/readyz`);
  t.equal(readiness.status, 503);
  const { code, checks: reports } = (await readiness.json()) as { code: string; checks: { name: string }[] };
  t.equal(code, 'audit_unavailable');
  t.match(
    reports.find(({ name }) => name === 'audit'),
    {
      state: 'failing',
      detail: 'the audit trail cannot be written: ENOSPC',
      hint: /audit\.directory/,
    },
  );
});

t.test('GET /v1/audit lists the records of the pipelines of a token; the admin token sees all', async (t) => {
  const { origin, directory } = await audited(t);
  await upload(origin);
  await upload(origin, { pipeline: 'docs', token: tokens.docs });
  await fetch(`${origin}/v1/reload`, { method: 'POST', headers: as(tokens.admin) });
  const get = async (
    token: string,
    query = '',
  ): Promise<{ status: number; acts: string[]; next: string | null }> => {
    const response = await fetch(`${origin}/v1/audit${query}`, { headers: as(token) });
    const { records = [], next } = (await response.json()) as {
      records?: AuditRecord[];
      next: string | null;
    };
    const found = records.filter(({ act }) => act !== 'token.use');
    return {
      status: response.status,
      acts: found.map(({ act, pipeline_id: id }) => `${act} ${id ?? '-'}`),
      next,
    };
  };
  t.match(await get(tokens.admin), {
    status: 200,
    acts: ['reload -', 'upload docs', 'upload maps'],
    next: null,
  });
  t.match(await get(tokens.maps), { status: 200, acts: ['upload maps'] });
  t.match(await get(tokens.admin, '?pipeline=docs'), { acts: ['upload docs'] });
  t.match(await get(tokens.admin, '?act=reload'), { acts: ['reload -'] });
  t.match(await get(tokens.admin, '?actor=ci&act=upload'), { acts: ['upload maps'] });
  t.match(await get(tokens.admin, '?since=2999-01-01T00:00:00Z'), { acts: { length: 0 } });
  t.match(await get(tokens.admin, '?until=2001-01-01'), { acts: { length: 0 } });
  t.match(await get(tokens.admin, '?since=2001-01-01&until=2999-01-01&act=reload'), { acts: ['reload -'] });
  t.match(await get(tokens.maps, '?pipeline=docs'), { status: 403 });
  t.match(await get(tokens.reader), { status: 403 });
  t.match(await get('wrong'), { status: 401 });
  t.match(await get(tokens.admin, '?act=murder'), { status: 400 });
  let next: string | null = '/v1/audit?limit=1';
  let pages = 0;
  for (; next !== null; pages += 1) next = (await get(tokens.admin, next.replace('/v1/audit', ''))).next;
  t.ok(pages >= 3, 'one page for each record');
  t.same((await verifyTrail(directory)).problems, []);
});

t.test('without the setting there is no trail to list', async (t) => {
  const { origin } = await startApi(t);
  t.equal((await fetch(`${origin}/v1/audit`, { headers: as(tokens.admin) })).status, 404);
});
