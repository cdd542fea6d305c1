import { pino, type Logger } from 'pino';
import type { Redaction } from '../core/redaction.ts';
import { isoMicroseconds } from './log-time.ts';

/**
 * Lines of JSON on stderr; for people if stderr is a terminal and `pretty` is asked for. No line holds a
 * secret that `redaction` knows.
 */
export async function makeLogger(options: {
  verbose: boolean;
  color: boolean;
  pretty: boolean;
  redaction: Redaction;
}): Promise<Logger> {
  const settings = {
    level: options.verbose ? 'debug' : 'info',
    timestamp: () => `,"time":"${isoMicroseconds()}"`,
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
