import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** What a file has killed may take a moment to be gone. */
const graceMs = 5_000;

/**
 * Ends the processes that a test file has left behind, and returns their command lines: those of its session,
 * and those that have its directory in their environment. Finds none if the machine has no `/proc`.
 */
export async function endLeftovers(session: number, directory: string | undefined): Promise<string[]> {
  let left = leftovers(session, directory);
  for (let waited = 0; left.length > 0 && waited < graceMs; waited += 50) {
    await sleep(50);
    left = leftovers(session, directory);
  }
  for (const { pid } of left)
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It has ended in the meantime.
    }
  return left.map(({ pid, command }) => `${pid} ${command}`);
}

function leftovers(session: number, directory: string | undefined): { pid: number; command: string }[] {
  if (!existsSync('/proc/self/stat')) return [];
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && pid !== process.pid)
    .flatMap((pid) => {
      try {
        // After the name in parentheses: state, parent, group, session.
        const [state, , , ownSession] = (
          readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1) ?? ''
        ).split(' ');
        if (state === 'Z') return [];
        const isMarked = (): boolean =>
          directory !== undefined &&
          readFileSync(`/proc/${pid}/environ`, 'latin1')
            .split('\0')
            .includes(`WAYBILL_TEST_FILE=${directory}`);
        if (Number(ownSession) !== session && !isMarked()) return [];
        const command = readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ').trim();
        return [{ pid, command }];
      } catch {
        // Not ours to read, or gone.
        return [];
      }
    });
}

/** What is left in the directories of a test file, the shared cache of tsx apart. */
export function leftDirectories(directories: readonly (string | undefined)[]): string[] {
  return directories.flatMap((directory) =>
    directory === undefined || !existsSync(directory)
      ? []
      : readdirSync(directory)
          .filter((name) => !name.startsWith('tsx-') && name !== 'node-compile-cache')
          .map((name) => `${directory}/${name}`),
  );
}
