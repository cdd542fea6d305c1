import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { audience } from '../services/issuer.ts';

/*
 * Long requests of every kind, with an access token and in a console session. A reload that removes the
 * publisher and the upload token ends them.
 */

export const uploadToken = 'an-upload-token-of-the-console';
export const adminToken = 'the-token-of-the-operator';
export const hostEnv = { UPLOAD: uploadToken, ADMIN: adminToken, KEYS: 'k'.repeat(32) };

/** A host's configuration file, which a test can change. */
export interface RevocableHost {
  configFile: string;
  /** Writes the file with or without the publisher and the upload token. */
  write(isRevoked: boolean): void;
}

/** Writes a host's configuration into a new directory below `root`. Hosts share the staging directory. */
export function revocableHost(
  root: string,
  { name, issuer, queue }: { name: string; issuer: string; queue: string },
): RevocableHost {
  const directory = path.join(root, name);
  mkdirSync(directory, { recursive: true });
  const configFile = path.join(directory, 'waybill.yml');
  const publisher = `{id: site-ci, issuer: "${issuer}", audience: "${audience}", claims: {repository_id: "12345"}, pipelines: [site]}`;
  const write = (isRevoked: boolean): void =>
    writeFileSync(
      configFile,
      `${isRevoked ? '' : `trusted_publishers: [${publisher}]\nupload_tokens: [{id: ci, value_env: UPLOAD, pipelines: [site]}]\n`}
server:
  http: {listen: "127.0.0.1:0", protect_runs: true}
  admin_token_env: ADMIN
  token_keys_env: KEYS
  staging: {directory: "${path.join(root, 'staging')}"}
  queue: ${queue}
pipelines:
  - {id: site, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./web}]}
`,
    );
  write(false);
  return { configFile, write };
}

/**
 * Kinds of requests, each with the sign of its end: a status, or the reason in the last event of a stream.
 */
export const endOf = {
  body: '401',
  'tus part': '401',
  stream: 'token_revoked',
  '?wait': '401',
  'console session': 'token_revoked',
  'API read': '401',
} as const;
export type Kind = keyof typeof endOf;

/** Opens a request of each kind. Resolves when all are in progress. Each promise resolves at its end. */
export async function openRequests(
  url: string,
  { token, runId }: { token: string; runId: string },
): Promise<Record<Kind, Promise<string>>> {
  const authorization = `Bearer ${token}`;
  const headers = { authorization };
  const wait = fetch(`${url}runs/${runId}?wait=60`, { headers }).then(({ status }) => String(status));
  const tar = { authorization, 'content-type': 'application/x-tar', 'content-length': '100' };
  const body = await sending(`${url}v1/pipelines/site/upload`, 'POST', tar);
  const tus = { authorization, 'tus-resumable': '1.0.0' };
  const created = await fetch(`${url}v1/pipelines/site/uploads`, {
    method: 'POST',
    headers: { ...tus, 'upload-length': '1000' },
  });
  const part = await sending(new URL(created.headers.get('location') ?? '', url).href, 'PATCH', {
    ...tus,
    'upload-offset': '0',
    'content-type': 'application/offset+octet-stream',
    'content-length': '1000',
  });
  const stream = await fetch(`${url}v1/events`, { headers });
  const login = await fetch(`${url}console/login`, {
    method: 'POST',
    redirect: 'manual',
    body: new URLSearchParams({ token: uploadToken }),
  });
  const cookie = login.headers.get('set-cookie')?.split(';', 1)[0] ?? '';
  const session = await fetch(`${url}console/events`, { headers: { cookie } });
  return {
    body: body.ended,
    'tus part': part.ended,
    stream: reasonOf(stream),
    '?wait': wait,
    'console session': reasonOf(session),
    'API read': refusedRead(`${url}v1/runs`, headers),
  };
}

/** Begins a request and sends the first byte of its body. */
async function sending(
  url: string,
  method: string,
  headers: Record<string, string>,
): Promise<{ ended: Promise<string> }> {
  const request = http.request(url, {
    method,
    agent: false,
    headers: { ...headers, expect: '100-continue' },
  });
  const ended = new Promise<string>((resolve, reject) => {
    request.on('error', reject).on('response', ({ statusCode }) => {
      resolve(String(statusCode));
      request.destroy();
    });
  });
  request.flushHeaders();
  await Promise.race([once(request, 'continue'), ended]);
  request.write('x');
  return { ended };
}

async function reasonOf(stream: Response): Promise<string> {
  return /event: end\n[^]*"reason":"(\w+)"/.exec(await stream.text())?.[1] ?? String(stream.status);
}

async function refusedRead(url: string, headers: Record<string, string>): Promise<string> {
  for (;;) {
    const { status } = await fetch(url, { headers });
    if (status !== 200) return String(status);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Uploads a bundle to the paused pipeline, so that its run does not end. Returns the id of the run. */
export async function waitingRun(url: string, token: string, bundle: Buffer): Promise<string> {
  const headers = { authorization: `Bearer ${adminToken}` };
  await fetch(`${url}v1/pipelines/site/pause`, { method: 'POST', headers });
  const accepted = await fetch(`${url}v1/pipelines/site/upload`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/x-tar' },
    body: new Uint8Array(bundle),
  });
  const answer = (await accepted.json()) as { run_id?: string };
  if (answer.run_id === undefined) throw new Error(`not accepted: ${JSON.stringify(answer)}`);
  return answer.run_id;
}
