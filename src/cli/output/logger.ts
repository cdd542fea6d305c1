import { writeSync } from 'node:fs';
import { Writable } from 'node:stream';
import { type DestinationStream, type Logger, pino } from 'pino';
import { type LogControl, logControl, type Redaction } from '../../core/lib/log.ts';

/**
 * Writes JSON lines to stderr, or readable text with `pretty` on a terminal. No line contains a secret that
 * `redaction` knows. Logging never throws, even if stderr fails.
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
 * Characters that terminals interpret or that reorder text: DEL, C1 controls, line separators, and
 * bidirectional marks, embeddings, overrides and isolates. JSON leaves them unchanged; it escapes C0 controls
 * itself.
 */
const invisible = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Replaces invisible characters with their JSON escapes, so that no logged text can forge a line. */
export function escapeInvisible(line: string): string {
  return line.replace(
    invisible,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Returns a control through which the configuration sets the log level. */
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

/** A log's output. */
interface LogLines {
  /** Writes whole lines. Never throws, because a broken log must not stop the program. */
  write(lines: string): void;
}

// Nothing is lost if the pipe's reader is briefly slow, and a stalled reader does not stall the daemon.
const pauseMs = 5;
const maxPauses = 40;

/**
 * Writes lines to a file descriptor synchronously. A failed write (a full disk, a closed pipe) loses its
 * lines. The next successful write calls `onRecovered` with the number of lost writes.
 *
 * @param write `writeSync`, or a replacement with the same errors.
 */
export function logLines(
  descriptor: number,
  onRecovered: (lost: number) => void = () => undefined,
  write: (descriptor: number, bytes: Uint8Array) => number = writeSync,
): LogLines {
  let lost = 0;
  return {
    write: (lines) => {
      // Once something is lost, do not wait again for a pipe that is still full.
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
  let left = pauses;
  for (let done = 0; done < bytes.length;) {
    try {
      done += write(descriptor, bytes.subarray(done));
    } catch (error) {
      if (!isFullPipe(error) || left === 0) return false;
      left -= 1;
      Atomics.wait(pause, 0, 0, pauseMs);
    }
  }
  return true;
}

const pause = new Int32Array(new SharedArrayBuffer(4));

function isFullPipe(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EAGAIN';
}

// Two readings of the system clock differ by whole milliseconds. A larger drift means that the clock was
// changed.
const maxDriftMs = 2;

/** The system clock, and a finer monotonic clock with an arbitrary origin, both in milliseconds. */
interface Clocks {
  system: () => number;
  fine: () => number;
}

/**
 * Returns a clock with microsecond resolution: the finer clock, reset to the system clock when the two drift
 * apart. The system clock is read before and after the finer one. A process that was suspended between two
 * readings has not drifted, so its time must not go back.
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
    // Most lines fall into the same second as the line before.
    if (Math.floor(microseconds / 1e6) !== second) {
      second = Math.floor(microseconds / 1e6);
      stamp = new Date(second * 1000).toISOString().slice(0, -4);
    }
    return `${stamp}${String(microseconds - second * 1e6).padStart(6, '0')}Z`;
  };
}

/** Returns the current time as ISO 8601 in UTC with microseconds: `2026-11-20T02:04:34.120417Z`. */
export const isoMicroseconds = microsecondClock(
  { system: Date.now, fine: () => performance.now() },
  performance.timeOrigin,
);
