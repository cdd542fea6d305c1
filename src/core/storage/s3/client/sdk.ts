import http from 'node:http';
import https from 'node:https';
import { S3Client, type PutObjectCommand, type UploadPartCommand } from '@aws-sdk/client-s3';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import type { Clock } from '../../../lib/clock.ts';
import type { S3Location } from '../location.ts';
import { sendDirectly, type SendDirectly } from './direct.ts';

/** More than twice the maximum number of concurrent files, for their parts and for concurrent reads. */
const mostSockets = 160;
const connectWithinMs = 10_000;
/** A connection on which no byte is sent or received for this long is closed. */
const defaultSilenceMs = 60_000;

export interface Sdk {
  client: S3Client;
  /** The server's clock minus ours in milliseconds, by its latest answer; null before the first. */
  clockOffsetMs: () => number | null;
  /** Null without a configured endpoint: the SDK then has to find the one of the bucket. */
  direct: SendDirectly | null;
}

export interface SdkOptions {
  location: S3Location;
  /** Null: the default credential chain of the SDK. */
  credentials: { accessKeyId: string; secretAccessKey: string } | null;
  clock: Clock;
  /** How long a connection may be silent, in milliseconds; only tests pass their own. */
  silenceMs?: number;
}

/**
 * The SDK's client as waybill uses it: one attempt per call, keep-alive connections, and bodies signed with
 * hashes that have been computed already.
 */
export function openSdk({ location, credentials, clock, silenceMs = defaultSilenceMs }: SdkOptions): Sdk {
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
      location.endpoint === null ? null : sendDirectly(client, handler, location, new URL(location.endpoint)),
  };
}

/**
 * Makes a command sign its body with a SHA-256 (hexadecimal) that is known already, instead of hashing the
 * body again; `UNSIGNED-PAYLOAD` leaves the body unsigned. This is set on the command because its input is
 * copied before it is signed.
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

/**
 * Servers that do not know the SDK's default checksums answer them with 501. The signed SHA-256 protects
 * bodies anyway.
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
 * The region of the SDK's own configuration, else us-east-1: most servers other than AWS have a single region
 * and accept any name for it.
 */
function regionOfChain(): () => Promise<string> {
  let region: Promise<string> | undefined;
  // Cached because it is asked for with every request.
  return () => (region ??= new S3Client({}).config.region().catch(() => 'us-east-1'));
}

/**
 * The SDK warns on standard error about the Node.js versions that its future releases will need. The release
 * in use is pinned, so the warning is of no use to anyone who runs waybill.
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
