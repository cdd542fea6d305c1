import type { ChildProcessByStdio } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';

type Child = ChildProcessByStdio<Writable, Readable, null>;

/**
 * Reads one directory a line, and answers with a line each: 0 where its file system was synced. It ends with
 * its standard input, so it never outlives the process that asks.
 */
const loop = 'while IFS= read -r directory; do sync --file-system -- "$directory"; echo $?; done';

/** What may keep a process from ending. Pipes of a child are sockets, which their type does not say. */
interface Handle {
  ref(): unknown;
  unref(): unknown;
}

let shell: Promise<Shell | null> | undefined;

/**
 * Makes everything on the file system of `directory` durable by `syncfs`, which Node.js does not offer:
 * `sync --file-system` of coreutils does. False where that is missing or fails; whoever asked then syncs each
 * file, which reports real I/O errors.
 *
 * One shell for this thread starts the program each time, since a large process takes long to fork: 20 ms for
 * a busy daemon, in which it answers nobody, and less than one for a shell.
 */
export async function syncFileSystem(directory: string): Promise<boolean> {
  if (process.platform !== 'linux' || directory.includes('\n')) return false;
  shell ??= startShell();
  return (await shell)?.sync(directory) ?? false;
}

/** Resolves with null where there is no shell: it is not looked for again. */
async function startShell(): Promise<Shell | null> {
  // Loading it takes longer than most commands that sync one file, or none.
  const { spawn } = await import('node:child_process');
  // Secrets of this process are no concern of the shell's.
  const child = spawn('/bin/sh', ['-c', loop], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: { PATH: '/usr/local/bin:/usr/bin:/bin' },
  });
  return new Promise((resolve) => {
    child.once('error', () => resolve(null));
    child.once('spawn', () => resolve(new Shell(child)));
  });
}

class Shell {
  readonly #child: Child;
  /** Who waits for an answer, in the order of the questions. */
  readonly #waiting: ((synced: boolean) => void)[] = [];

  constructor(child: Child) {
    this.#child = child;
    createInterface({ input: child.stdout }).on('line', (line) => this.#answer(line === '0'));
    child.stdin.on('error', () => undefined);
    child.once('close', () => this.#ended());
    this.#keepProcess(false);
  }

  sync(directory: string): Promise<boolean> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#keepProcess(true);
      this.#child.stdin.write(`${directory}\n`);
    });
  }

  #answer(synced: boolean): void {
    this.#waiting.shift()?.(synced);
    if (this.#waiting.length === 0) this.#keepProcess(false);
  }

  /** Somebody ended it: the next who asks gets another. */
  #ended(): void {
    shell = undefined;
    for (const resolve of this.#waiting.splice(0)) resolve(false);
  }

  /** Whether this process waits for the shell before it ends. */
  #keepProcess(keep: boolean): void {
    const pipes: readonly unknown[] = [this.#child.stdin, this.#child.stdout];
    for (const part of [this.#child, ...(pipes as readonly Handle[])])
      if (keep) part.ref();
      else part.unref();
  }
}
