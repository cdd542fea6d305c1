import { systemClock, type Timer } from '../../core/lib/clock.ts';
import { hasCode, WaybillError } from '../../core/lib/errors.ts';

export type StopSignal = 'SIGHUP' | 'SIGINT' | 'SIGTERM';

export const exitCodeOf: Record<StopSignal, 129 | 130 | 143> = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 };

/** SIGHUP has another meaning for long-running programs, which handle it themselves. */
const stopSignals = { daemon: ['SIGINT', 'SIGTERM'], command: ['SIGHUP', 'SIGINT', 'SIGTERM'] } as const;
type Kind = keyof typeof stopSignals;

/**
 * The time that the work gets to stop and clean up, as in the daemon. A server that does not respond would
 * otherwise keep the process alive.
 */
const graceMs = 10_000;

/** Waits for the first stop signal. */
interface StopRequest {
  received: Promise<StopSignal>;
  /** Stops listening for signals. */
  release(): void;
}

/**
 * Listens for SIGINT and SIGTERM, and in a command that is not a daemon also for SIGHUP, which means that the
 * terminal was closed. `onFirst` is called with the first one. A second one ends the process immediately with
 * exit code 130 or 143. A later SIGHUP is ignored, because both the kernel and the shell send one.
 */
export function listenForStop(onFirst: (signal: StopSignal) => void, kind: Kind = 'daemon'): StopRequest {
  let release: () => void = () => undefined;
  const received = new Promise<StopSignal>((resolve) => {
    let isStopping = false;
    release = onSignal(kind, (signal) => {
      if (isStopping && signal === 'SIGHUP') return;
      if (isStopping) process.exit(exitCodeOf[signal]);
      isStopping = true;
      onFirst(signal);
      resolve(signal);
    });
  });
  return { received, release: () => release() };
}

/**
 * Runs work that can be interrupted. When the process gets SIGHUP, SIGINT or SIGTERM, `signal` is aborted, so
 * that the work can stop and clean up, and the exit code will be 129, 130 or 143. The `aborted` error of the
 * work is not rethrown. If the work takes longer than `graceMs` to stop, the process exits anyway, and the
 * next run will clean up.
 */
export async function abortOnSignal(work: (signal: AbortSignal) => Promise<number>): Promise<number> {
  const controller = new AbortController();
  const stopped: { exitCode: number | null; deadline: Timer | null } = { exitCode: null, deadline: null };
  const request = listenForStop((signal) => {
    stopped.exitCode = exitCodeOf[signal];
    stopped.deadline = systemClock.timeout(graceMs, () => forceExit(signal), { unref: true });
    process.stderr.write(`${signal}: stopping and cleaning up; a second signal ends it immediately\n`);
    controller.abort(new WaybillError('aborted', `stopped by ${signal}`, { hint: 'run again to finish' }));
  }, 'command');
  try {
    const done = await work(controller.signal);
    return stopped.exitCode ?? done;
  } catch (error) {
    if (stopped.exitCode === null || !hasCode(error, 'aborted')) throw error;
    process.stderr.write('stopped; run again to finish\n');
    return stopped.exitCode;
  } finally {
    stopped.deadline?.cancel();
    // If it was interrupted, the process is about to exit. Keep listening, so that further signals do not
    // change the exit code.
    if (!controller.signal.aborted) request.release();
  }
}

function forceExit(signal: StopSignal): never {
  process.stderr.write(`not stopped within ${graceMs / 1000} s, ended; the next run cleans up\n`);
  process.exit(exitCodeOf[signal]);
}

/** Runs work that only reads and can be interrupted at any time. `exit` listeners restore the terminal. */
export async function exitOnSignal(work: () => Promise<number>): Promise<number> {
  const release = onSignal('command', (signal) => process.exit(exitCodeOf[signal]));
  try {
    return await work();
  } finally {
    release();
  }
}

function onSignal(kind: Kind, handle: (signal: StopSignal) => void): () => void {
  for (const signal of stopSignals[kind]) process.on(signal, handle);
  return () => {
    for (const signal of stopSignals[kind]) process.off(signal, handle);
  };
}
