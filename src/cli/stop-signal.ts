import { hasCode, WaybillError } from '../core/errors.ts';

type Stop = 'SIGINT' | 'SIGTERM';
const exitCodeOf: Record<Stop, 130 | 143> = { SIGINT: 130, SIGTERM: 143 };

/**
 * Runs what can stop half-way. The first SIGINT or SIGTERM asks it to stop and clean up after itself, and
 * makes the exit code 130 or 143; a second one ends the process at once. That it was stopped is no failure to
 * tell, so `aborted` does not get out.
 */
export async function untilStopped(work: (signal: AbortSignal) => Promise<number>): Promise<number> {
  const controller = new AbortController();
  let stoppedBy: Stop | null = null;
  const release = onStop((name) => {
    if (stoppedBy !== null) process.exit(exitCodeOf[name]);
    stoppedBy = name;
    process.stderr.write(`${name}: stopping and cleaning up; once more to end at once\n`);
    controller.abort(new WaybillError('aborted', `stopped by ${name}`, { hint: 'run again to finish' }));
  });
  const exitCode = (): number | null => (stoppedBy === null ? null : exitCodeOf[stoppedBy]);
  try {
    const done = await work(controller.signal);
    return exitCode() ?? done;
  } catch (error) {
    const code = exitCode();
    if (code === null || !hasCode(error, 'aborted')) throw error;
    process.stderr.write('stopped; run again to finish\n');
    return code;
  } finally {
    // One that was stopped is about to exit: a further signal may hurry that, and must not change the exit
    // code.
    if (!controller.signal.aborted) release();
  }
}

/**
 * Runs what only reads, and has nothing to clean up but the terminal: a signal ends the process, the orderly
 * way.
 */
export async function endedBySignal(work: () => Promise<number>): Promise<number> {
  const release = onStop((name) => process.exit(exitCodeOf[name]));
  try {
    return await work();
  } finally {
    release();
  }
}

function onStop(handle: (name: Stop) => void): () => void {
  const handlers = { SIGINT: () => handle('SIGINT'), SIGTERM: () => handle('SIGTERM') };
  process.on('SIGINT', handlers.SIGINT).on('SIGTERM', handlers.SIGTERM);
  return () => void process.off('SIGINT', handlers.SIGINT).off('SIGTERM', handlers.SIGTERM);
}
