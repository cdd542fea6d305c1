import { systemClock, type Timer } from '../../core/lib/clock.ts';
import { hasCode, WaybillError } from '../../core/lib/errors.ts';

export type StopSignal = 'SIGINT' | 'SIGTERM';

export const exitCodeOf: Record<StopSignal, 130 | 143> = { SIGINT: 130, SIGTERM: 143 };

/**
 * How long stopped work may take to clean up, as in the daemon. A server that does not respond would block it
 * for longer.
 */
const graceMs = 10_000;

/** The first SIGINT or SIGTERM that the process receives. */
export interface StopRequest {
  received: Promise<StopSignal>;
  /** Stops listening for signals. */
  release(): void;
}

/**
 * Listens for SIGINT and SIGTERM. The first signal is passed to `onFirst`. A second one ends the process
 * immediately with exit code 130 or 143.
 */
export function listenForStop(onFirst: (signal: StopSignal) => void): StopRequest {
  let release: () => void = () => undefined;
  const received = new Promise<StopSignal>((resolve) => {
    let isStopping = false;
    release = onSignal((signal) => {
      if (isStopping) process.exit(exitCodeOf[signal]);
      isStopping = true;
      onFirst(signal);
      resolve(signal);
    });
  });
  return { received, release: () => release() };
}

/**
 * Runs work that can stop midway. The first SIGINT or SIGTERM aborts `signal`, so that the work stops and
 * cleans up. The exit code is then 130 or 143, and the work's `aborted` error is not rethrown. Work that is
 * still running after `graceMs` ends with the process, and the next run cleans up after it.
 */
export async function untilStopped(work: (signal: AbortSignal) => Promise<number>): Promise<number> {
  const controller = new AbortController();
  const stopped: { exitCode: number | null; deadline: Timer | null } = { exitCode: null, deadline: null };
  const request = listenForStop((signal) => {
    stopped.exitCode = exitCodeOf[signal];
    stopped.deadline = systemClock.timeout(graceMs, () => giveUp(signal), { unref: true });
    process.stderr.write(`${signal}: stopping and cleaning up; once more to end at once\n`);
    controller.abort(new WaybillError('aborted', `stopped by ${signal}`, { hint: 'run again to finish' }));
  });
  try {
    const done = await work(controller.signal);
    return stopped.exitCode ?? done;
  } catch (error) {
    if (stopped.exitCode === null || !hasCode(error, 'aborted')) throw error;
    process.stderr.write('stopped; run again to finish\n');
    return stopped.exitCode;
  } finally {
    stopped.deadline?.cancel();
    // A stopped process is about to exit. Further signals may speed that up but must not change the exit
    // code.
    if (!controller.signal.aborted) request.release();
  }
}

function giveUp(signal: StopSignal): never {
  process.stderr.write(`not stopped within ${graceMs / 1000} s, ended; the next run cleans up\n`);
  process.exit(exitCodeOf[signal]);
}

/**
 * Runs work that only reads and has only the terminal to restore. A signal ends the process through `exit`.
 */
export async function endedBySignal(work: () => Promise<number>): Promise<number> {
  const release = onSignal((signal) => process.exit(exitCodeOf[signal]));
  try {
    return await work();
  } finally {
    release();
  }
}

function onSignal(handle: (signal: StopSignal) => void): () => void {
  process.on('SIGINT', handle).on('SIGTERM', handle);
  return () => void process.off('SIGINT', handle).off('SIGTERM', handle);
}
