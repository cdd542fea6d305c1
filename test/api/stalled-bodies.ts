import type { Test } from 'tap';
import { problemsOf } from '../../src/api/http/route.ts';
import { daemonRoutes as routes } from '../../src/cli/daemon/daemon-app.ts';
import { type Api, connect, type RawConnection, tokens, uploadHead } from './harness.ts';
import { begin } from './resumable/tus.ts';

/** Clients that stall in the middle of a body. The list of bodies is taken from the routes. */

const pipelineOf: Record<string, string> = { startRun: 'files' };
const forAdmin = new Set(['pausePipeline', 'resumePipeline', 'reload', 'redeliver']);
/**
 * Each kind of body of each route, and who may send it: the token of `docs` and `files`, or the admin token.
 */
export const withBody = routes.flatMap(({ method, body, path, operationId, access, problems }) =>
  Object.keys(body?.content ?? {}).map((type) => ({
    name: `${operationId} (${type})`,
    method: method.toUpperCase(),
    path: path.replace('{pipeline_id}', pipelineOf[operationId] ?? 'docs').replace('{notifier_id}', 'hook'),
    type: type === 'multipart/form-data' ? `${type}; boundary=x` : type,
    token: forAdmin.has(operationId) ? tokens.admin : tokens.docs,
    problems: problemsOf({ access, problems, body: body }),
  })),
);

/** Whether the body is a document or a form of documents. An archive is written to disk as it arrives. */
export const isHeldInMemory = ({ name, type }: (typeof withBody)[number]): boolean =>
  type === 'application/json' || name.startsWith('validateSceneMap');

/** The head of such a request. */
export const headOf = ({ method, path, type, token }: (typeof withBody)[number], length = 1000): string =>
  uploadHead(
    {
      Authorization: `Bearer ${token}`,
      'Content-Type': type,
      'Content-Length': length,
      ...(path.includes('/uploads/') ? { 'Tus-Resumable': '1.0.0', 'Upload-Offset': 0 } : {}),
    },
    path,
  ).replace('POST', method);

/** The path of a new upload, if the route is about an upload. */
export async function pathOf(origin: string, { path }: (typeof withBody)[number]): Promise<string> {
  if (!path.includes('{upload_id}')) return path;
  return new URL(await begin(origin, 1000, { pipeline: 'docs', token: tokens.docs })).pathname;
}

/** A response with a JSON document. */
export const answered = /\r\n\r\n\{.*\}/;

/** One client for each route and kind of body, which has sent `begun` of the body. */
export function stalledClients(
  t: Test,
  { origin }: Pick<Api, 'origin'>,
  begun: string,
): Promise<(RawConnection & { name: string })[]> {
  return Promise.all(
    withBody.map(async (route) => {
      const client = await connect(t, origin);
      client.socket.write(headOf({ ...route, path: await pathOf(origin, route) }) + begun);
      return { ...client, name: route.name };
    }),
  );
}
