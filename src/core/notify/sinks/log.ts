import type { Log } from '../../lib/log.ts';
import { traceFields } from '../../tracing/trace-context.ts';
import type { Sink, SinkKind } from '../sink.ts';

interface LogSettings {
  kind: 'log';
}

export const logKind: SinkKind<'log', LogSettings, LogSettings> = {
  kind: 'log',
  summary: 'A line in the log; on stderr where a command is run.',
  settings: () => ({}),
  fault: () => null,
  resolve: () => ({ kind: 'log' }),
  secrets: () => [],
  open: async (_settings, { log }) => logSink(log),
  reach: async () => 'goes to the log',
};

/** Logs events at level info, under the key `event`. */
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
