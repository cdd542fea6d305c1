import { performance } from 'node:perf_hooks';
import { pino, type Logger } from 'pino';
import type { Redaction } from '../core/redaction.ts';

/** Lines of JSON on stderr; for people, where a terminal is there and `pretty` is asked for. No line holds a secret that `redaction` knows. */
export async function makeLogger(options: {
  verbose: boolean;
  color: boolean;
  pretty: boolean;
  redaction: Redaction;
}): Promise<Logger> {
  const settings = {
    level: options.verbose ? 'debug' : 'info',
    timestamp: () => `,"time":"${preciseTime()}"`,
    hooks: { streamWrite: (line: string) => options.redaction.clean(line) },
  };
  if (!options.pretty || !process.stderr.isTTY) return pino(settings, pino.destination(2));
  const { default: pretty } = await import('pino-pretty');
  const { NO_COLOR, TERM } = process.env;
  return pino(
    settings,
    pretty({
      destination: 2,
      colorize: options.color && (NO_COLOR ?? '') === '' && TERM !== 'dumb',
      translateTime: 'HH:MM:ss.l',
      singleLine: true,
      ignore: 'pid,hostname',
    }),
  );
}

// Further apart than this, the wall clock was set in the meantime.
const driftMs = 20;
let epoch = performance.timeOrigin;

/** RFC 3339 in UTC, with microseconds: `2026-11-20T01:02:03.456789Z`. */
export function preciseTime(): string {
  const since = performance.now();
  if (Math.abs(epoch + since - Date.now()) > driftMs) epoch = Date.now() - since;
  const micros = Math.round((epoch + since) * 1000);
  const text = new Date(Math.floor(micros / 1000)).toISOString();
  return `${text.slice(0, -1)}${String(micros % 1000).padStart(3, '0')}Z`;
}
