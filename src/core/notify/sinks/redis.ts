import type { Redis } from 'ioredis';
import type { Sink } from '../sink.ts';

/** Events as messages on a channel of Redis: who does not listen just then does not get them. */
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
  const connection = async (): Promise<Redis> => {
    if (connected?.status === 'ready') return connected;
    connected?.disconnect();
    const { Redis: Client } = await import('ioredis');
    // Trying again is the delivery's affair.
    const client = new Client(url, {
      lazyConnect: true,
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      retryStrategy: () => null,
      connectTimeout: timeoutMs,
    });
    // The reason is told by what connects or publishes; an event without a listener would end the process.
    client.on('error', (error: unknown) => (lastError = error));
    connected = client;
    await client.connect();
    return client;
  };
  return {
    kind: 'redis',
    concurrency: 1,
    timeoutMs,
    async send(event) {
      lastError = undefined;
      try {
        await (await connection()).publish(channel, JSON.stringify(event));
        return { ok: true };
      } catch (error) {
        return { ok: false, ...reasonOf(lastError ?? error) };
      }
    },
    close: async () => connected?.disconnect(),
  };
}

// Whole messages and the errors themselves may hold the password.
const replyCode = /^(WRONGPASS|NOAUTH|NOPERM|ERR|READONLY|LOADING|OOM|MASTERDOWN|CLUSTERDOWN|MOVED)\b/;
const passing = new Set(['LOADING', 'OOM', 'MASTERDOWN', 'CLUSTERDOWN', 'READONLY']);

function reasonOf(error: unknown): { reason: string; retry: boolean } {
  const text = error instanceof Error ? error.message : '';
  const reply = replyCode.exec(text)?.[1];
  if (reply !== undefined) return { reason: `Redis answered ${reply}`, retry: passing.has(reply) };
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'connection closed';
  return { reason: `Redis cannot be reached (${code})`, retry: true };
}
