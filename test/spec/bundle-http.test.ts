import { once } from 'node:events';
import net from 'node:net';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { holdLease } from '../cli/held.ts';
import { rawEntry, tar } from '../fixtures/tar.ts';
import { Api, archive, tokens, uploads } from './daemon.ts';
import { manifest, World } from './harness.ts';

/** The HTTP API of one daemon. `bundle-limits.test.ts` has its limits and expiry. */

const api = await Api.start(t, new World(t, uploads('queue_size: 20, max_concurrency: 4')));

t.test('GET · `{base_url}/healthz` · none · Readiness check. Body: not shown.', async (t) => {
  t.equal((await api.get('healthz')).status, 200);
});

t.test(
  'POST · `{base_url}/v1/pipelines/{pipeline_id}/upload` · Headers: `Authorization: Bearer <UPLOAD_TOKEN>`; `Content-Type` one of `application/x-tar`, `application/gzip`, `application/x-gzip`; optional `Idempotency-Key`. Body: raw tar or tar.gz archive bytes. · JSON object with `run_id` (string) and `status` (`accepted`). Success status code: not shown.',
  async (t) => {
    const plain = archive({ 'a.txt': 'a' });
    for (const [type, body] of [
      ['application/x-tar', plain],
      ['application/gzip', gzipSync(plain)],
      ['application/x-gzip', gzipSync(plain)],
    ] as const) {
      const response = await api.upload({ type, body, key: `key ${type}` });
      t.ok(response.ok, type);
      t.match(await response.json(), { run_id: String, status: 'accepted' });
    }
    t.notOk((await api.upload({ type: 'text/plain' })).ok, 'no other type is accepted');
  },
);

t.test('`serve` · `--config <file>` · Runs the HTTP upload API.', async (t) => {
  const { run_id: runId } = await api.accepted({
    body: archive({ 'served.txt': 'x' }, '2026-11-21T00:00:00Z'),
  });
  t.equal(await api.ended(runId), 'succeeded');
  t.equal(api.world.files('up')['served.txt'], 'x');
});

t.test('run_id · string · Shape `<pipeline_id>.<compact_utc_timestamp>.<short_suffix>`.', async (t) => {
  t.match((await api.accepted()).run_id, /^up\.\d{8}T\d{6}Z\.[a-z0-9]+$/);
});

t.test('statuses', async (t) => {
  const statuses = ['accepted', 'queued', 'running', 'succeeded', 'failed'];
  const lock = holdLease(api.world.at('other'));
  const first = await api.accepted({ pipeline: 'other' });
  const second = await api.accepted({ pipeline: 'other' });
  const seen = [first.status, await api.until(first.run_id, 'running')];
  const waiting = await api.status(second.run_id);
  const whileWaiting = await api.status(first.run_id);
  api.world.remove(`other/${lock.split('/').at(-1) ?? ''}`);
  seen.push(waiting, await api.ended(first.run_id), await api.ended(second.run_id));
  api.world.write('up/blocked/a.txt/x', 'in the way');
  const failing = archive({ 'blocked/a.txt': 'a' }, '2026-11-30T00:00:00Z');
  const failed = await api.ended((await api.accepted({ body: failing })).run_id);
  seen.push(failed);

  t.test(
    'GET · `{base_url}/runs/{run_id}` · none · Status of the run while its record is retained; `status` takes the values above. Full body: not shown.',
    async (t) => {
      t.match(await (await api.get(`runs/${first.run_id}`)).json(), {
        run_id: first.run_id,
        status: 'succeeded',
      });
      t.notOk((await api.get('runs/up.20261120T000000Z.unknown000')).ok);
    },
  );

  for (const title of [
    'status · string · One of `accepted`, `queued`, `running`, `succeeded`, `failed`.',
    'States: `accepted`, `queued`, `running`, `succeeded`, `failed`.',
  ])
    t.test(title, async (t) => {
      t.same([...new Set(seen)].sort(), [...statuses].sort());
    });

  for (const title of [
    'The coordinator never runs two uploads of the same pipeline at once.',
    'One active upload per pipeline · Coordinator.',
  ])
    t.test(title, async (t) => {
      t.same([whileWaiting, waiting], ['running', 'queued']);
    });

  t.test('Upload run fails during publication · run status `failed`', async (t) => {
    t.equal(failed, 'failed');
  });
});

t.test('archives', async (t) => {
  const nested = tar({ path: 'one/manifest.json', body: manifest([]) });
  const own = rawEntry({ path: 'manifest.json', body: manifest(['a.txt']) });
  const file = rawEntry({ path: 'a.txt', body: 'a' });
  const refused: Record<string, Buffer> = {
    'no archive': Buffer.from('hello'),
    'no manifest': tar(file),
    'a manifest below the root': nested,
    'two manifests': tar(own, own, file),
    'a listed file is missing': tar(own),
    'an invalid manifest': tar({ path: 'manifest.json', body: '{' }),
  };
  const answers = await Promise.all(
    Object.entries(refused).map(async ([what, body]) => {
      const response = await api.upload({ body });
      return { what, status: response.status, body: await response.text() };
    }),
  );

  t.test(
    'The archive is extracted into temporary staging, must contain exactly one root-level `manifest.json`, and must validate as one complete source bundle before a run id is issued; the accepted response is returned after staging and validation.',
    async (t) => {
      for (const { what, status } of answers) t.ok(status >= 400 && status < 500, `${what}: ${status}`);
      t.ok((await api.upload({ body: tar(own, file) })).ok);
    },
  );

  t.test('Archive fails staging or bundle validation · No run id is issued', async (t) => {
    for (const { what, body } of answers) t.notMatch(body, /"run_id"/, what);
  });

  t.test('manifest.json · Exactly one, at the bundle root.', async (t) => {
    const without = answers.filter(({ what }) => what.includes('manifest'));
    t.equal(without.length, 4);
    for (const { what, status } of without) t.ok(status >= 400, what);
  });

  t.test('listed files · Every file the manifest lists must be present.', async (t) => {
    const missing = answers.find(({ what }) => what === 'a listed file is missing');
    t.match(missing?.body, 'a.txt');
  });
});

t.test('idempotency', async (t) => {
  const body = archive({ 'a.txt': 'idempotent' });
  const first = await api.accepted({ key: 'k1', body });
  const runs = async (): Promise<number> => {
    const response = await api.get('v1/pipelines/up/runs', { authorization: `Bearer ${tokens.TOKEN_CI}` });
    return ((await response.json()) as { runs: unknown[] }).runs.length;
  };
  const before = await runs();

  t.test(
    'The same key with the same normalized source manifest returns the original accepted response and enqueues nothing.',
    async (t) => {
      t.same(await api.accepted({ key: 'k1', body }), first);
      t.equal(await runs(), before);
    },
  );

  t.test('`Idempotency-Key` is optional and is scoped to token id, pipeline id and key.', async (t) => {
    const ids = [
      first,
      await api.accepted({ body }),
      await api.accepted({ key: 'k2', body }),
      await api.accepted({ key: 'k1', body, pipeline: 'other' }),
      await api.accepted({ key: 'k1', body, token: tokens.TOKEN_SECOND }),
    ].map(({ run_id }) => run_id);
    t.equal(new Set(ids).size, 5);
  });

  for (const title of [
    'The same key with a different manifest returns 409 Conflict.',
    'Upload with an `Idempotency-Key` already used in the same token/pipeline scope with a different normalized manifest · 409 Conflict',
  ])
    t.test(title, async (t) => {
      const other = archive({ 'b.txt': 'b' });
      t.equal((await api.upload({ key: 'k1', body: other })).status, 409);
    });

  t.test(
    'Upload with a key whose earlier request is still being staged and has no known manifest · 409 Conflict, retryable',
    async (t) => {
      const socket = net.connect(api.port, '127.0.0.1');
      t.teardown(() => socket.destroy());
      socket.write(
        `POST /v1/pipelines/up/upload HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${tokens.TOKEN_CI}\r\n` +
          `Content-Type: application/x-tar\r\nIdempotency-Key: slow\r\nContent-Length: ${body.length}\r\n` +
          'Expect: 100-continue\r\nConnection: close\r\n\r\n',
      );
      await once(socket, 'data');
      const answer = await api.upload({ key: 'slow', body });
      t.equal(answer.status, 409);
      t.match(await answer.json(), { retryable: true });
      socket.destroy();
    },
  );
});

t.test(
  'The upload path carries the prefix `/v1/`; `/healthz` and `/runs/{run_id}` carry no version prefix.',
  async (t) => {
    const { run_id: runId } = await api.accepted();
    for (const path of ['healthz', `runs/${runId}`]) {
      t.equal((await api.get(path)).status, 200, path);
      t.equal((await api.get(`v1/${path}`)).status, 404, `v1/${path}`);
    }
    t.equal((await api.get('pipelines/up/upload')).status, 404);
  },
);

t.test('Rate limiting is not done by the service.', async (t) => {
  const answers = await Promise.all(Array.from({ length: 300 }, async () => api.get('healthz')));
  t.same([...new Set(answers.map(({ status }) => status))], [200]);
});
