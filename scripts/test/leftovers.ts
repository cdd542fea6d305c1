import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** How long a killed process may take to disappear, in milliseconds. */
const graceMs = 5_000;
/** Environment variable that every process of one test file inherits: the file's directory. */
export const fileMark = 'WAYBILL_TEST_FILE';
/** Environment variable that every process of one run inherits: the run's directory. */
const runMark = 'WAYBILL_TEST_RUN';

/**
 * Kills the processes that a test file left behind, and returns their command lines: the processes in its
 * session, and the processes with its directory in their environment. Finds none on a machine without
 * `/proc`.
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

/** Marks every process that this one starts from now on with the run. */
export function markRun(directory: string): void {
  process.env[runMark] = directory;
}

/** The environment of a process that may outlive an interrupted run, such as a package installation. */
export function withoutRunMark(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => name !== runMark));
}

/**
 * Kills every process of a run: those that carry its mark, and all in a session of one of them, since a test
 * may replace the environment. Returns the command lines of those that remain.
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
  // A process may start another one while it is being killed.
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
    // The process has ended in the meantime.
  }
}

function isMarked(pid: number, mark: string): boolean {
  return readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0').includes(mark);
}

/** Living processes of this machine, except this one, that match the predicate. */
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
        // Not readable by this user, or already gone.
        return [];
      }
    });
}

/** The kernel's fields of a process after its name: state, parent, group, session, and more. */
function statFields(pid: number): string[] {
  return (readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1) ?? '').split(' ');
}

/** Entries that remain in the directories of a test file, apart from the shared cache of tsx. */
export function leftDirectories(directories: readonly (string | undefined)[]): string[] {
  return directories.flatMap((directory) =>
    directory === undefined || !existsSync(directory)
      ? []
      : readdirSync(directory)
          .filter((name) => !name.startsWith('tsx-') && name !== 'node-compile-cache')
          .map((name) => `${directory}/${name}`),
  );
}
