import { createHash, createHmac } from 'node:crypto';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { S3Client } from '@aws-sdk/client-s3';
import type { NodeHttpHandler } from '@smithy/node-http-handler';
import { SignatureV4 } from '@smithy/signature-v4';
import type { S3Location } from '../location.ts';
import { escapePath } from './object-headers.ts';

/**
 * Sends one request for one object. Rejects with errors shaped like those of the SDK. The caller must read
 * the body of the answer.
 */
export type SendDirectly = (
  method: 'GET' | 'PUT' | 'DELETE',
  key: string,
  abortSignal: AbortSignal,
  content?: { bytes: Uint8Array; sha256: string; headers: Record<string, string> },
) => Promise<Answer>;

export interface Answer {
  statusCode: number;
  headers: Record<string, string>;
  body: Readable;
}

const emptySha256 = createHash('sha256').digest('hex');

/**
 * Sends requests with the SDK's signer and HTTP handler alone. The whole SDK takes 1.2 ms of CPU time for one
 * request, most of it for work that is the same each time; this takes a third, which counts for thousands of
 * small files.
 */
export function sendDirectly(
  client: S3Client,
  handler: NodeHttpHandler,
  { bucket, pathStyle }: S3Location,
  endpoint: URL,
): SendDirectly {
  const { config } = client;
  // The signer returns a request that the handler accepts, but their types come from different packages.
  const sender = handler as unknown as RequestSender;
  const signer = new SignatureV4({
    service: 's3',
    region: config.region,
    credentials: config.credentials,
    sha256: Sha256,
    uriEscapePath: false,
  });
  const host = pathStyle ? endpoint.host : `${bucket}.${endpoint.host}`;
  const base = endpoint.pathname.replace(/\/$/, '') + (pathStyle ? `/${bucket}` : '');
  const place = {
    protocol: endpoint.protocol,
    hostname: pathStyle ? endpoint.hostname : `${bucket}.${endpoint.hostname}`,
    ...(endpoint.port === '' ? {} : { port: Number(endpoint.port) }),
    query: {},
  };
  return async (method, key, abortSignal, content) => {
    const headers = {
      ...content?.headers,
      host,
      ...(content === undefined ? {} : { 'content-length': `${content.bytes.byteLength}` }),
      'x-amz-content-sha256': content?.sha256 ?? emptySha256,
    };
    const path = `${base}/${escapePath(key)}`;
    const request = { ...place, method, path, headers, body: content?.bytes };
    const signingDate = new Date(Date.now() + config.systemClockOffset);
    const signed = await signer.sign(request, { signingDate });
    const { response } = await sender.handle(signed, { abortSignal });
    if (response.statusCode < 200 || response.statusCode > 299)
      throw answeredError(response, await text(response.body));
    return response;
  };
}

interface RequestSender {
  handle(request: object, options: { abortSignal: AbortSignal }): Promise<{ response: Answer }>;
}

function answeredError(response: Answer, xml: string): Error {
  const element = (name: string): string | undefined =>
    new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml)?.[1];
  return Object.assign(new Error(element('Message') ?? ''), {
    name: element('Code') ?? 'UnknownError',
    $metadata: { httpStatusCode: response.statusCode },
    $response: response,
  });
}

/** The hashes of Node.js behind the interface that the signer expects. */
class Sha256 {
  readonly #hash: ReturnType<typeof createHash> | ReturnType<typeof createHmac>;

  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    this.#hash =
      secret === undefined ? createHash('sha256') : createHmac('sha256', secret as string | Uint8Array);
  }

  update(data: Uint8Array): void {
    this.#hash.update(data);
  }

  async digest(): Promise<Uint8Array> {
    return this.#hash.digest();
  }

  reset(): void {
    throw new Error('a hash can be used only once');
  }
}
