import { createHash, createHmac } from 'node:crypto';
import http from 'node:http';
import https from 'node:https';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { S3Client, type PutObjectCommand, type UploadPartCommand } from '@aws-sdk/client-s3';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import { SignatureV4 } from '@smithy/signature-v4';
import type { Clock } from '../../clock.ts';
import type { S3Location } from './location.ts';

/**
 * More than twice the most files that are written side by side, for their parts and for what is read
 * meanwhile.
 */
const mostSockets = 160;
const connectWithinMs = 10_000;
/** Without a byte for this long a connection is given up. */
const silenceMs = 120_000;

export interface Sdk {
  client: S3Client;
  /** The server's clock less ours in milliseconds, by its latest answer; null before the first. */
  clockOffsetMs: () => number | null;
  /** Null where the SDK has to find out where the bucket is. */
  direct: SendDirectly | null;
}

/**
 * Sends one request for one object. Rejects with errors in the form of the SDK's; the body of the answer is
 * the caller's to read.
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

export interface SdkOptions {
  location: S3Location;
  /** Null: the default chain of the SDK, as it is. */
  credentials: { accessKeyId: string; secretAccessKey: string } | null;
  clock: Clock;
}

/**
 * The client of the SDK as waybill uses it: one try a call, connections that are kept, bodies signed by
 * hashes that were computed anyway.
 */
export function openSdk({ location, credentials, clock }: SdkOptions): Sdk {
  const agent = { keepAlive: true, maxSockets: mostSockets };
  const handler = new NodeHttpHandler({
    httpAgent: new http.Agent(agent),
    httpsAgent: new https.Agent(agent),
    connectionTimeout: connectWithinMs,
    socketTimeout: silenceMs,
  });
  const client = withoutWarning(
    () =>
      new S3Client({
        ...(location.endpoint === null ? {} : atEndpoint(location.endpoint)),
        ...(location.region === null ? {} : { region: location.region }),
        ...(credentials === null ? {} : { credentials }),
        forcePathStyle: location.pathStyle,
        maxAttempts: 1,
        expectContinueHeader: false,
        requestHandler: handler,
      }),
  );
  let clockOffsetMs: number | null = null;
  const learnClock = (headers: Record<string, string>): void => {
    const date = Date.parse(headers['date'] ?? '');
    if (!Number.isNaN(date)) clockOffsetMs = date - clock.now().getTime();
  };
  client.middlewareStack.add(
    (next) => async (args) => {
      const result = await next(args);
      learnClock((result.response as { headers: Record<string, string> }).headers);
      return result;
    },
    { step: 'deserialize', priority: 'low', name: 'waybillClock' },
  );
  return {
    client,
    clockOffsetMs: () => clockOffsetMs,
    direct:
      location.endpoint === null ? null : sendDirectly(client, handler, new URL(location.endpoint), location),
  };
}

/**
 * Has the bytes of a command signed by a hash that is known already, which the SDK would else compute once
 * more; `UNSIGNED-PAYLOAD`: not at all. Told to the command itself, because its input is copied on the way to
 * the signature.
 */
export function signAs(command: PutObjectCommand | UploadPartCommand, sha256: string): void {
  const stack = command.middlewareStack as S3Client['middlewareStack'];
  stack.add(
    (next) => async (args) => {
      (args.request as { headers: Record<string, string> }).headers['x-amz-content-sha256'] = sha256;
      return next(args);
    },
    { step: 'build', name: 'waybillPayloadHash' },
  );
}

const emptySha256 = createHash('sha256').digest('hex');

/**
 * The SDK takes 1.2 ms of a processor for what becomes one request; most of that is spent on what is the same
 * each time. Thousands of small files are moved at a third of that by its signer and its HTTP handler alone.
 */
function sendDirectly(
  client: S3Client,
  handler: NodeHttpHandler,
  endpoint: URL,
  { bucket, pathStyle }: S3Location,
): SendDirectly {
  const { config } = client;
  // What the signer returns is a request of the handler's kind; their types come from two places.
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

/** As signatures want it: all but unreserved characters (RFC 3986, section 2.3) and the slashes. */
function escapePath(key: string): string {
  return encodeURIComponent(key)
    .replaceAll('%2F', '/')
    .replaceAll(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** Node's hashes, in the form that the signer wants. */
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
    throw new Error('a hash is used once');
  }
}

/**
 * Servers older than the SDK's default checksums answer 501 to them. Bodies are guarded by their signed
 * SHA-256.
 */
function atEndpoint(endpoint: string): {
  endpoint: string;
  region: () => Promise<string>;
  requestChecksumCalculation: 'WHEN_REQUIRED';
  responseChecksumValidation: 'WHEN_REQUIRED';
} {
  return {
    endpoint,
    region: regionOfChain(),
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  };
}

/**
 * The region of the SDK's own configuration; most servers that are not AWS have one region and do not care
 * for its name.
 */
function regionOfChain(): () => Promise<string> {
  let region: Promise<string> | undefined;
  // Asked for with every request.
  return () => (region ??= new S3Client({}).config.region().catch(() => 'us-east-1'));
}

/**
 * The SDK announces on standard error which versions of Node its future releases need; the release in use is
 * pinned.
 */
function withoutWarning<T>(construct: () => T): T {
  const emitWarning = process.emitWarning.bind(process);
  process.emitWarning = () => undefined;
  try {
    return construct();
  } finally {
    process.emitWarning = emitWarning;
  }
}
