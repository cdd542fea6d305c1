import { once } from 'node:events';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { DeleteObjectCommand, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import type { Test } from 'tap';
import type { Radosgw } from './radosgw.ts';

/**
 * What happens to a request. `pass`: forwarded unchanged. A response of the proxy itself, as from a server.
 * `cut_request`, `cut_response`: the connection breaks in the middle of the body. `without_condition`: as by
 * a server that ignores conditions. `with_version`: with that version instead of the requested one.
 */
export type Verdict =
  | 'pass'
  | 'cut_request'
  | 'cut_response'
  | 'without_condition'
  | { with_version: string }
  | { status: number; code: string; message?: string; headers?: Record<string, string> }
  | { status: number; body: string };

export interface SeenRequest {
  method: string;
  /** Path and query, unchanged. */
  url: string;
  ifNoneMatch: string | undefined;
  ifMatch: string | undefined;
}

export interface S3Proxy {
  endpoint: string;
  /** Every request. */
  seen: SeenRequest[];
  /** Called for each request. Tests replace it. */
  judge: (request: SeenRequest) => Verdict;
}

/**
 * A proxy in front of a real S3 server. Signatures stay valid: it forwards the Host header, and signs
 * changed requests again with the tests' own keys.
 */
export async function startS3Proxy(t: Pick<Test, 'teardown'>, upstreamServer: Radosgw): Promise<S3Proxy> {
  const upstream = new http.Agent({ keepAlive: true });
  const { port } = upstreamServer;
  const own = upstreamServer.client();
  const proxy: S3Proxy = { endpoint: '', seen: [], judge: () => 'pass' };
  const server = http.createServer((request, response) => {
    const seen: SeenRequest = {
      method: request.method ?? '',
      url: request.url ?? '',
      ifNoneMatch: request.headers['if-none-match'],
      ifMatch: request.headers['if-match'],
    };
    proxy.seen.push(seen);
    const verdict = proxy.judge(seen);
    if (verdict === 'pass' || verdict === 'cut_response' || verdict === 'cut_request')
      forward(request, response, verdict, { port, agent: upstream });
    else if (verdict === 'without_condition') void sendAnew(own, request, response, {});
    else if ('with_version' in verdict)
      void sendAnew(own, request, response, { IfMatch: verdict.with_version });
    else answer(request, response, verdict);
  });
  server.keepAliveTimeout = 60_000;
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
    upstream.destroy();
  });
  proxy.endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return proxy;
}

function forward(
  request: IncomingMessage,
  response: ServerResponse,
  verdict: 'pass' | 'cut_request' | 'cut_response',
  { port, agent }: { port: number; agent: http.Agent },
): void {
  const { method, url: path, headers } = request;
  const onward = http.request({ host: '127.0.0.1', port, method, path, headers, agent }, (answered) => {
    response.writeHead(answered.statusCode ?? 502, answered.headers);
    if (verdict === 'pass') answered.pipe(response);
    else if (answered.headers['content-length'] === '0')
      answered.resume().once('end', () => response.destroy());
    else
      answered.once('data', (chunk: Buffer) => {
        response.write(chunk.subarray(0, Math.ceil(chunk.length / 2)), () => response.destroy());
        answered.destroy();
      });
  });
  onward.on('error', () => response.destroy());
  request.on('error', () => onward.destroy());
  if (verdict !== 'cut_request') request.pipe(onward);
  else
    request.once('data', (chunk: Buffer) => {
      onward.write(chunk.subarray(0, Math.ceil(chunk.length / 2)), () => {
        onward.destroy();
        request.destroy();
      });
    });
}

async function sendAnew(
  client: S3Client,
  request: IncomingMessage,
  response: ServerResponse,
  condition: { IfMatch?: string },
): Promise<void> {
  const [, bucket = '', ...key] = decodeURIComponent((request.url ?? '').split('?')[0] ?? '').split('/');
  const object = { Bucket: bucket, Key: key.join('/'), ...condition };
  const [Body, ContentType] = [await buffer(request), request.headers['content-type']];
  try {
    if (request.method === 'DELETE') {
      await client.send(new DeleteObjectCommand(object));
      response.writeHead(204).end();
      return;
    }
    const { ETag = '' } = await client.send(new PutObjectCommand({ ...object, Body, ContentType }));
    response.writeHead(200, { etag: ETag }).end();
  } catch (error) {
    const { name, $metadata } = error as { name: string; $metadata?: { httpStatusCode?: number } };
    sendError(response, { status: $metadata?.httpStatusCode ?? 500, code: name });
  }
}

function answer(
  request: IncomingMessage,
  response: ServerResponse,
  verdict: Exclude<Verdict, string | { with_version: string }>,
): void {
  request.resume();
  request.once('end', () => {
    if ('body' in verdict)
      response.writeHead(verdict.status, { 'content-type': 'application/xml' }).end(verdict.body);
    else sendError(response, verdict);
  });
}

function sendError(
  response: ServerResponse,
  {
    status,
    code,
    message = code,
    headers = {},
  }: { status: number; code: string; message?: string; headers?: Record<string, string> },
): void {
  response
    .writeHead(status, { 'content-type': 'application/xml', ...headers })
    .end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>${message}</Message></Error>`);
}
