import { writeSync } from 'node:fs';

/** Where the lines of a log go. */
export interface LogLines {
  /** Writes whole lines. Never throws: a log that cannot be written must not stop what it reports on. */
  write(lines: string): void;
}

// A reader of the pipe that is slow for a moment loses nothing; one that hangs does not hang the daemon.
const pauseMs = 5;
const mostPauses = 40;

/**
 * Writes lines to a file descriptor, at once. What cannot be written (a full disk, a closed pipe) is lost;
 * with the next line that can be, `onRecovered` is called with the number of writes that were lost.
 *
 * @param write `writeSync`, or what breaks like it.
 */
export function logLines(
  descriptor: number,
  onRecovered: (lost: number) => void = () => undefined,
  write: (descriptor: number, bytes: Uint8Array) => number = writeSync,
): LogLines {
  let lost = 0;
  return {
    write: (lines) => {
      // Once something was lost, a pipe that is still full is not waited for again.
      const pauses = lost === 0 ? mostPauses : 0;
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
