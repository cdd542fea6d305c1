import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';

/** Another publisher in a separate process. `line` returns its next line with this prefix. */
export interface OtherPublisher {
  process: ChildProcess;
  line: (start: string) => Promise<string>;
}

/** `task` is the argument of `publisher-process.ts`. */
export function startPublisher(t: Pick<Test, 'teardown'>, task: object): OtherPublisher {
  const script = fileURLToPath(new URL('./publisher-process.ts', import.meta.url));
  const args = script.endsWith('.ts') ? ['--import=tsx', script] : [script];
  const child = spawn(process.execPath, [...args, JSON.stringify(task)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const line = async (start: string): Promise<string> => {
    for (let next = await lines.next(); next.done !== true; next = await lines.next())
      if (next.value.startsWith(start)) return next.value;
    throw new Error(`the process ended without a line that begins with ${start}`);
  };
  return { process: child, line };
}
