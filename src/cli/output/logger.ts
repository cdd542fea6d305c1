import { writeSync } from 'node:fs';
import { Writable } from 'node:stream';
import { type DestinationStream, type Logger, pino } from 'pino';
import { type LogControl, logControl, type Redaction } from '../../core/lib/log.ts';

/**
 * Creates a logger that writes JSON lines to stderr, or readable text if it is a terminal and `pretty` is
 * set. Secrets that `redaction` knows are removed. Never throws, even if stderr cannot be written to.
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
 * Characters that a terminal interprets or that change the direction of text: DEL, C1 control characters,
 * line separators, and bidirectional control characters. JSON does not escape them, except for C0 control
 * characters.
 */
const invisible = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Escapes such characters, so that nothing in a logged text can make it look like another log line. */
export function escapeInvisible(line: string): string {
  return line.replace(
    invisible,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Lets the configuration set the log level. */
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

interface LogLines {
  /** Writes one or more lines. Never throws, because a broken log must not stop the program. */
  write(lines: string): void;
}

// In milliseconds. Long enough for a reader that is briefly slow, but a reader that hangs does not block the
// daemon.
const pauseMs = 5;
const maxPauses = 40;

/**
 * Writes lines to a file descriptor, synchronously. If that fails, because the disk is full or the pipe is
 * closed, the lines are lost. `onRecovered` is called with the number of failed writes once writing works
 * again.
 *
 * @param write Replaces `writeSync` in tests. It must throw the same errors.
 */
export function logLines(
  descriptor: number,
  onRecovered: (lost: number) => void = () => undefined,
  write: (descriptor: number, bytes: Uint8Array) => number = writeSync,
): LogLines {
  let lost = 0;
  return {
    write: (lines) => {
      // If the previous write failed as well, do not wait again for a pipe that is still full.
      const pauses = lost === 0 ? maxPauses : 0;
      if (!writeAll(descriptor, Buffer.from(lines), write, pauses)) {
        lost += 1;
        return;
      }
      if (lost === 0) return;
      const before = lost;
      lost = 0;
      onRecovered(before);
    },
  };
}

function writeAll(
  descriptor: number,
  bytes: Buffer,
  write: (descriptor: number, bytes: Uint8Array) => number,
  pauses: number,
): boolean {
  let remainingPauses = pauses;
  for (let done = 0; done < bytes.length;) {
    try {
      done += write(descriptor, bytes.subarray(done));
    } catch (error) {
      if (!isFullPipe(error) || remainingPauses === 0) return false;
      remainingPauses -= 1;
      Atomics.wait(pause, 0, 0, pauseMs);
    }
  }
  return true;
}

const pause = new Int32Array(new SharedArrayBuffer(4));

function isFullPipe(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EAGAIN';
}

// The system clock has a resolution of one millisecond. If it differs by more than this, it has been set.
const maxDriftMs = 2;

/** The system clock, and a more precise clock with an arbitrary starting point. Both are in milliseconds. */
interface Clocks {
  system: () => number;
  fine: () => number;
}

/**
 * Returns a clock with a resolution of microseconds. It follows the precise clock, but is set to the system
 * clock if they drift apart. The system clock is read twice, before and after the precise one, because the
 * process could be suspended in between. Such a pause is not drift, and must not make the time go backward.
 */
export function microsecondClock({ system, fine }: Clocks, origin: number = system() - fine()): () => string {
  let second = NaN;
  let stamp = '';
  return () => {
    const earliest = system() - maxDriftMs;
    let now = origin + fine();
    const latest = system() + maxDriftMs;
    const drift = now - Math.min(Math.max(now, earliest), latest);
    origin -= drift;
    now -= drift;
    const microseconds = Math.round(now * 1000);
    // Most lines are in the same second as the previous one.
    if (Math.floor(microseconds / 1e6) !== second) {
      second = Math.floor(microseconds / 1e6);
      stamp = new Date(second * 1000).toISOString().slice(0, -4);
    }
    return `${stamp}${String(microseconds - second * 1e6).padStart(6, '0')}Z`;
  };
}

/** Returns the current time in UTC with microseconds: `2026-11-20T02:04:34.120417Z`. */
export const isoMicroseconds = microsecondClock(
  { system: Date.now, fine: () => performance.now() },
  performance.timeOrigin,
);
