import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** The time that a killed process gets to disappear, in milliseconds. */
const graceMs = 5_000;
/** The environment variable with the directory of a test file. All processes of the test inherit it. */
export const fileMark = 'WAYBILL_TEST_FILE';
/** The environment variable with the directory of a test run. All processes of the run inherit it. */
const runMark = 'WAYBILL_TEST_RUN';

/**
 * Kills processes that a test file has left running, and returns their command lines. These are the processes
 * in its session, and those with its directory in their environment. Without `/proc`, none are found.
 */
export async function endLeftovers(session: number, directory: string | undefined): Promise<string[]> {
  const isLeft = (pid: number, ownSession: number): boolean =>
    ownSession === session || (directory !== undefined && isMarked(pid, `${fileMark}=${directory}`));
  let left = processes(isLeft);
  for (let waited = 0; left.length > 0 && waited < graceMs; waited += 50) {
    await sleep(50);
    left = processes(isLeft);
  }
  for (const { pid } of left) kill(pid);
  return left.map(({ pid, command }) => `${pid} ${command}`);
}

/** Marks all processes that will be started from now on as part of the run. */
export function markRun(directory: string): void {
  process.env[runMark] = directory;
}

/**
 * Returns an environment for a process that should keep running if the test run is interrupted, such as the
 * installation of packages.
 */
export function withoutRunMark(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => name !== runMark));
}

/**
 * Kills all processes of a run: those that are marked, and those in the same session as one of them, because
 * a test may have replaced the environment. Returns the command lines of processes that could not be killed.
 */
export function endRun(directory: string): string[] {
  const sessions = new Set<number>();
  const ofRun = (): { pid: number; command: string }[] => {
    processes((pid, session) => {
      const ours = session !== ownSession() && isMarked(pid, `${runMark}=${directory}`);
      if (ours) sessions.add(session);
      return false;
    });
    return processes((pid, session) => sessions.has(session) || isMarked(pid, `${runMark}=${directory}`));
  };
  // Processes can start others before they are killed, so try several times.
  for (let round = 0; round < 20; round += 1) {
    const left = ofRun();
    if (left.length === 0) return [];
    for (const { pid } of left) kill(pid);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
  }
  return ofRun().map(({ pid, command }) => `${pid} ${command}`);
}

function ownSession(): number {
  return Number(statFields(process.pid)[3]);
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process no longer exists.
  }
}

function isMarked(pid: number, mark: string): boolean {
  return readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0').includes(mark);
}

/**
 * Returns the processes on this machine that `accepts` returns true for, except for this one and those that
 * have already exited.
 */
function processes(accepts: (pid: number, session: number) => boolean): { pid: number; command: string }[] {
  if (!existsSync('/proc/self/stat')) return [];
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && pid !== process.pid)
    .flatMap((pid) => {
      try {
        const [state, , , session] = statFields(pid);
        if (state === 'Z' || !accepts(pid, Number(session))) return [];
        const command = readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ').trim();
        return [{ pid, command }];
      } catch {
        // The process belongs to another user or no longer exists.
        return [];
      }
    });
}

/**
 * Returns what the kernel says about a process, from the field after its name: state, parent, group, session,
 * and so on.
 */
function statFields(pid: number): string[] {
  return (readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1) ?? '').split(' ');
}

/**
 * Returns what a test file has left in its directories. The cache of tsx does not count, because all files
 * share it.
 */
export function leftDirectories(directories: readonly (string | undefined)[]): string[] {
  return directories.flatMap((directory) =>
    directory === undefined || !existsSync(directory)
      ? []
      : readdirSync(directory)
          .filter((name) => !name.startsWith('tsx-') && name !== 'node-compile-cache')
          .map((name) => `${directory}/${name}`),
  );
}
