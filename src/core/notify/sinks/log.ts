import type { Log } from '../../log.ts';
import type { Sink } from '../sink.ts';

/** Events as lines of the log, at level info, whole under the key `event`. */
export function logSink(log: Log): Sink {
  return {
    kind: 'log',
    concurrency: 1,
    timeoutMs: 5_000,
    send: async (event) => {
      log.info({ event }, 'event');
      return { ok: true };
    },
    close: async () => undefined,
  };
}
