import { createHash, createHmac } from 'node:crypto';
import http, { type IncomingHttpHeaders } from 'node:http';
import { buffer } from 'node:stream/consumers';
import type { Radosgw } from './radosgw.ts';

export interface Answer {
  headers: IncomingHttpHeaders;
  body: Buffer;
}

/** Requests for the objects of one bucket. Each rejects unless it succeeds. */
export interface BareRequests {
  /** All keys with this prefix, at most a thousand. */
  list(prefix: string): Promise<string[]>;
  get(key: string): Promise<Answer>;
  put(key: string, body: Buffer, headers: Record<string, string>): Promise<void>;
  /** The response headers that belong to the object, to write it again unchanged. */
  ownHeaders(headers: IncomingHttpHeaders): Record<string, string>;
  close(): void;
}

/**
 * Requests without an SDK, which needs ten times as much processor time. For the many requests that tests
 * make but do not test. Keys need no escapes.
 */
export function bareRequests({ port, user }: Radosgw, bucket: string): BareRequests {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
  const host = `127.0.0.1:${port}`;
  const send = async (
    method: string,
    path: string,
    { query = '', headers = {}, body }: { query?: string; headers?: Record<string, string>; body?: Buffer },
  ): Promise<Answer> => {
    const request = { method, path, query, headers: { ...headers, host } };
    const signed = { ...signatureOf(request, user), ...request.headers };
    const length = body === undefined ? {} : { 'content-length': body.byteLength };
    const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
      http
        .request({
          agent,
          host: '127.0.0.1',
          port,
          method,
          path: query === '' ? path : `${path}?${query}`,
          headers: { ...signed, ...length },
        })
        .once('response', resolve)
        .once('error', reject)
        .end(body);
    });
    const answer = { headers: response.headers, body: await buffer(response) };
    if (response.statusCode === 200) return answer;
    throw new Error(`${method} ${path}?${query}: ${response.statusCode ?? 0} ${answer.body.toString()}`);
  };
  return {
    async list(prefix) {
      const query = `list-type=2&prefix=${encodeURIComponent(prefix)}`;
      const listing = (await send('GET', `/${bucket}`, { query })).body.toString();
      if (!listing.includes('<IsTruncated>false<')) throw new Error(`no whole listing: ${listing}`);
      return Array.from(listing.matchAll(/<Key>([^<]*)<\/Key>/g), ([, name]) => name as string);
    },
    get: (key) => send('GET', `/${bucket}/${key}`, {}),
    put: async (key, body, headers) => {
      await send('PUT', `/${bucket}/${key}`, { headers, body });
    },
    ownHeaders: (headers) =>
      Object.fromEntries(
        Object.entries(headers).filter(
          (header): header is [string, string] =>
            /^(content-type|cache-control|x-amz-meta-.*)$/.test(header[0]) && typeof header[1] === 'string',
        ),
      ),
    close: () => agent.destroy(),
  };
}

/** Signature version 4, of all headers and no body. */
function signatureOf(
  request: { method: string; path: string; query: string; headers: Record<string, string> },
  { accessKeyId, secretAccessKey }: Radosgw['user'],
): Record<string, string> {
  const stamp = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, '');
  const day = stamp.slice(0, 8);
  const unsigned = 'UNSIGNED-PAYLOAD';
  const added = { 'x-amz-content-sha256': unsigned, 'x-amz-date': stamp };
  const headers: Record<string, string> = { ...request.headers, ...added };
  const names = Object.keys(headers).sort();
  const canonical = [
    request.method,
    request.path,
    request.query,
    ...names.map((name) => `${name}:${headers[name] ?? ''}`),
    '',
    names.join(';'),
    unsigned,
  ].join('\n');
  const scope = [day, 'us-east-1', 's3', 'aws4_request'];
  const digest = createHash('sha256').update(canonical).digest('hex');
  const text = ['AWS4-HMAC-SHA256', stamp, scope.join('/'), digest].join('\n');
  const signature = [...scope, text].reduce(
    (secret, part) => createHmac('sha256', secret).update(part).digest(),
    Buffer.from(`AWS4${secretAccessKey}`),
  );
  const credential = `${accessKeyId}/${scope.join('/')}`;
  return {
    ...added,
    authorization: `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=${names.join(';')}, Signature=${signature.toString('hex')}`,
  };
}
