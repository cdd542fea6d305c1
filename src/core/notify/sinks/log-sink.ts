import type { Log } from '../../lib/log.ts';
import { traceFields } from '../../tracing/trace-context.ts';
import { notifierSettings, type Sink, sinkKind } from '../sink.ts';

export const logKind = sinkKind({
  settings: notifierSettings('log', 'A line in the log; on stderr where a command is run.', {}),
  secrets: () => [],
  open: async (_config, { log }) => logSink(log),
  reach: async () => 'goes to the log',
});

/** Writes events to the log at info level. The event is in the field `event`. */
export function logSink(log: Log): Sink {
  return {
    concurrency: 1,
    timeoutMs: 5_000,
    send: async (event, _signal, trace = {}) => {
      log.info({ event, ...traceFields(trace) }, 'event');
      return { ok: true };
    },
    close: async () => undefined,
  };
}
