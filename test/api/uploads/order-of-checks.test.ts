import t from 'tap';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { connect, startApi, tokens } from '../harness.ts';

/*
 * Checks before the body is read, row by row in the documented order. Each pair of errors that a request can
 * have is sent together, to both routes, with and without `Expect: 100-continue`. The response must report
 * the first one.
 */

interface Request {
  method: string;
  path: string;
  headers: Record<string, string | number>;
}

interface Defect {
  status: number;
  code: string;
  /** The part of the request that it makes invalid. Two errors in the same part cannot be combined. */
  spoils: string;
  apply: (request: Request) => void;
  /** A header that the response must have. */
  header?: RegExp;
}

const order: Defect[] = [
  {
    ...{ status: 404, code: 'not_found', spoils: 'path' },
    apply: (request) => void (request.path += '/none'),
  },
  {
    ...{ status: 405, code: 'method_not_allowed', spoils: 'method', header: /^allow: POST$/im },
    apply: (request) => void (request.method = 'PUT'),
  },
  {
    ...{ status: 401, code: 'unauthorized', spoils: 'token', header: /^www-authenticate: Bearer /im },
    apply: ({ headers }) => void (headers['Authorization'] = 'Bearer guess'),
  },
  {
    ...{ status: 404, code: 'pipeline_not_found', spoils: 'path' },
    apply: (request) => void (request.path = request.path.replace('/maps/', '/none/')),
  },
  {
    ...{ status: 403, code: 'forbidden', spoils: 'token' },
    apply: ({ headers }) => void (headers['Authorization'] = `Bearer ${tokens.docs}`),
  },
  {
    ...{ status: 400, code: 'invalid_request', spoils: 'query' },
    apply: (request) => void (request.path += '?dry_run=perhaps'),
  },
  {
    ...{ status: 404, code: 'channel_not_found', spoils: 'query' },
    apply: (request) => void (request.path += '?channel=none'),
  },
  {
    ...{ status: 400, code: 'invalid_idempotency_key', spoils: 'key' },
    apply: ({ headers }) => void (headers['Idempotency-Key'] = 'k'.repeat(256)),
  },
  {
    ...{ status: 415, code: 'unsupported_media_type', spoils: 'type', header: /^accept-post: /im },
    apply: ({ headers }) => void (headers['Content-Type'] = 'text/plain'),
  },
  {
    ...{ status: 503, code: 'queue_full', spoils: 'queue', header: /^retry-after: \d+$/im },
    apply: () => undefined,
  },
  {
    ...{ status: 413, code: 'upload_too_large', spoils: 'length' },
    apply: ({ headers }) => void (headers['Content-Length'] = 10_000_000),
  },
  {
    ...{ status: 409, code: 'idempotency_in_progress', spoils: 'key', header: /^retry-after: \d+$/im },
    apply: ({ headers }) => void (headers['Idempotency-Key'] = 'in use'),
  },
  {
    ...{ status: 507, code: 'insufficient_storage', spoils: 'room', header: /^retry-after: \d+$/im },
    apply: () => undefined,
  },
];

const routes = [
  { path: '/v1/pipelines/maps/upload', type: 'application/x-tar' },
  { path: '/v1/pipelines/maps/upload/form', type: 'multipart/form-data; boundary=x' },
];

for (const { path, type } of routes)
  for (const expects of [false, true])
    t.test(`${path}, ${expects ? 'with' : 'without'} Expect: 100-continue`, async (t) => {
      let hasRoom = true;
      const room = async (): Promise<void> => {
        if (!hasRoom) throw new WaybillError('insufficient_storage', 'the staging disk is full');
      };
      const free = await startApi(t, { room });
      const full = await startApi(t, { room, http: { queueSize: 2 } });
      const key = { caller: 'ci', key: 'in use' };
      for (const { ports } of [free, full])
        await ports.queue.reserve({ pipelineId: 'maps', idempotency: key });
      await full.ports.queue.reserve({ pipelineId: 'docs' });
      const answerTo = async (...defects: Defect[]): Promise<string> => {
        const isSpoiled = (what: string): boolean => defects.some(({ spoils }) => spoils === what);
        const { origin } = isSpoiled('queue') ? full : free;
        hasRoom = !isSpoiled('room');
        const headers = { Authorization: `Bearer ${tokens.maps}`, 'Content-Type': type, 'Content-Length': 4 };
        const request: Request = { method: 'POST', path, headers };
        for (const { apply } of defects) apply(request);
        const { socket, until } = await connect(t, origin);
        const all = { Host: 'x', ...request.headers, ...(expects ? { Expect: '100-continue' } : {}) };
        const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
        socket.write(`${request.method} ${request.path} HTTP/1.1\r\n${lines.join('')}\r\n`);
        return until(/\r\n\r\n\{.*\}/);
      };
      let pairs = 0;
      for (const [index, first] of order.entries())
        for (const second of order.slice(index)) {
          if (second !== first && second.spoils === first.spoils) continue;
          const answer = await answerTo(...new Set([first, second]));
          const what = first === second ? first.code : `${first.code} before ${second.code}`;
          t.ok(answer.startsWith(`HTTP/1.1 ${first.status} `), `${what}: ${answer.split('\r\n')[0]}`);
          t.ok(answer.includes(`"code":"${first.code}"`), what);
          t.match(answer, /^connection: close\r?$/im, what);
          if (first.header !== undefined) t.match(answer.replaceAll('\r', ''), first.header, what);
          pairs += 1;
        }
      t.equal(pairs, 87);
      t.same(await free.staged(), []);
    });
