import { Writable } from 'node:stream';
import { pino, type DestinationStream, type Logger } from 'pino';
import { logControl, type LogControl, type Redaction } from '../../core/lib/log.ts';
import { logLines, type LogLines } from './log-lines.ts';
import { isoMicroseconds } from './log-time.ts';

/**
 * Lines of JSON on stderr; for people if stderr is a terminal and `pretty` is asked for. No line holds a
 * secret that `redaction` knows. Logging never throws, whatever becomes of stderr.
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
    hooks: { streamWrite: (line: string) => escapeInvisible(options.redaction.clean(line)) },
  };
  const lines = logLines(2, (lost) => log.warn({ lost }, 'lines of this log could not be written'));
  const log = pino(settings, options.pretty && process.stderr.isTTY ? await pretty(options, lines) : lines);
  return log;
}

/**
 * Characters that a terminal obeys or that reorder text: DEL, C1 controls, line separators, and bidirectional
 * marks, embeddings, overrides and isolates. JSON leaves them as they are; C0 controls it escapes itself.
 */
const invisible = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Replaces invisible characters by their JSON escapes, so that no logged text can forge a line. Pure. */
export function escapeInvisible(line: string): string {
  return line.replace(
    invisible,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Lets the configuration set what the log shows. */
export function controlOf(log: Logger, { verbose }: { verbose: boolean }): LogControl {
  return logControl({ verbose, onLevel: (level) => (log.level = level) });
}

async function pretty({ color }: { color: boolean }, lines: LogLines): Promise<DestinationStream> {
  const { default: pinoPretty } = await import('pino-pretty');
  const { NO_COLOR, TERM } = process.env;
  return pinoPretty({
    destination: new Writable({
      decodeStrings: false,
      write: (text: string | Buffer, _encoding, done) => {
        lines.write(escapeInvisible(String(text)));
        done();
      },
    }),
    sync: true,
    colorize: color && (NO_COLOR ?? '') === '' && TERM !== 'dumb',
    translateTime: 'HH:MM:ss.l',
    singleLine: true,
    ignore: 'pid,hostname',
  });
}
