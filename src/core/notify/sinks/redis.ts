import type { Redis } from 'ioredis';
import { WaybillError } from '../../lib/errors.ts';
import { onAbort } from '../../lib/on-abort.ts';
import { environmentName, matching } from '../../lib/settings/kinds.ts';
import { isRedisUrl } from '../../lib/settings/parse-values.ts';
import { notifierSettings, type Sink, type SinkContext, sinkKind, timeoutSetting } from '../sink.ts';

export const redisKind = sinkKind({
  settings: notifierSettings('redis', 'A message on a Redis channel (PUBLISH).', {
    redis_url_env: environmentName()
      .required()
      .description('Environment variable, or file in secrets.directory, with the URL of Redis.')
      .example('WAYBILL_REDIS_URL'),
    channel: matching(/^[\u0021-\u007e]{1,128}$/, 'the name of a channel, without spaces')
      .default('waybill.events')
      .description('Name of the channel.'),
    timeout: timeoutSetting,
  }),
  secrets: ({ redisUrlEnv }) => [redisUrlEnv],
  open: async (settings, context) => redisSink({ ...settings, url: urlOf(settings, context) }),
  reach: async (settings, context) => {
    const url = urlOf(settings, context);
    const client = await connect(url, settings.timeoutMs, context.signal, () => undefined).catch(
      (error: unknown) => {
        context.signal.throwIfAborted();
        throw new WaybillError('unreachable', reasonOf(error).reason, {
          hint: `start Redis or correct the URL in ${settings.redisUrlEnv}`,
          cause: error,
        });
      },
    );
    client.disconnect();
    return 'connected and authenticated';
  },
});

function urlOf({ redisUrlEnv }: { redisUrlEnv: string }, { secrets, neededBy }: SinkContext): string {
  const url = secrets.require(redisUrlEnv, neededBy);
  if (isRedisUrl(url)) return url;
  throw new WaybillError(
    'secrets_invalid',
    `the secret ${redisUrlEnv}, needed by ${neededBy}, is not a Redis URL`,
    {
      hint: 'use redis://user:password@host:6379/0, or rediss:// for TLS, and %25 for a "%" in the password',
    },
  );
}

/** Publishes events to a Redis channel. They reach only clients that are subscribed at that moment. */
export function redisSink({
  url,
  channel,
  timeoutMs,
}: {
  url: string;
  channel: string;
  timeoutMs: number;
}): Sink {
  let connected: Redis | undefined;
  let lastError: unknown;
  const connection = async (signal: AbortSignal): Promise<Redis> => {
    if (connected?.status === 'ready') return connected;
    connected?.disconnect();
    connected = undefined;
    connected = await connect(url, timeoutMs, signal, (error) => (lastError = error));
    return connected;
  };
  return {
    concurrency: 1,
    timeoutMs,
    async send(event, signal) {
      lastError = undefined;
      try {
        await (await connection(signal)).publish(channel, JSON.stringify(event));
        return { ok: true };
      } catch (error) {
        connected?.disconnect();
        return { ok: false, ...reasonOf(lastError ?? error) };
      }
    },
    close: async () => connected?.disconnect(),
  };
}

/**
 * Connects to Redis. If that fails, or if the signal aborts first, throws the first error. All errors, now
 * and later, are passed to `onError`.
 */
async function connect(
  url: string,
  timeoutMs: number,
  signal: AbortSignal,
  onError: (error: unknown) => void,
): Promise<Redis> {
  // In the bundled program, a CommonJS package has a default export and no others.
  const { default: ioredis } = await import('ioredis');
  // No retries here, because the delivery takes care of that.
  const client = new ioredis.Redis(url, {
    lazyConnect: true,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
    connectTimeout: timeoutMs,
    // A client that times out is closed, so the next attempt makes a new connection.
    commandTimeout: timeoutMs,
  });
  let first: unknown;
  // The call that fails will say why. But if no one listens for error events, they crash the process.
  client.on('error', (error: unknown) => {
    first ??= error;
    onError(error);
  });
  const release = onAbort(signal, () => client.disconnect());
  try {
    signal.throwIfAborted();
    await client.connect();
    return client;
  } catch (error) {
    client.disconnect();
    throw first ?? error;
  } finally {
    release();
  }
}

// Messages may contain the password, so report codes that we know and nothing else.
const replyCode = /^(WRONGPASS|NOAUTH|NOPERM|ERR|READONLY|LOADING|OOM|MASTERDOWN|CLUSTERDOWN|MOVED)\b/;
const transientReplies = new Set(['LOADING', 'OOM', 'MASTERDOWN', 'CLUSTERDOWN', 'READONLY']);

function reasonOf(error: unknown): { reason: string; retry: boolean } {
  const text = error instanceof Error ? error.message : '';
  const reply = replyCode.exec(text)?.[1];
  if (reply !== undefined) return { reason: `Redis answered ${reply}`, retry: transientReplies.has(reply) };
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'connection closed';
  return { reason: `Redis cannot be reached (${code})`, retry: true };
}
