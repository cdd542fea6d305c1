import { type ChildProcess, spawn, type SpawnOptions } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';

/** Starts a program that the kernel kills when this process ends for any reason. */
export function spawnService(
  program: string,
  args: readonly string[],
  options: SpawnOptions = {},
): ChildProcess {
  return spawn('setpriv', ['--pdeathsig', 'KILL', program, ...args], options);
}

export function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}

/** Ends a process. Resolves when it has ended, also if it did so before. */
export async function endService(child: ChildProcess, signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
  if (hasEnded(child)) return;
  const ended = once(child, 'exit');
  child.kill(signal);
  await ended;
}

/**
 * Kills services and removes their directory if this process exits before its tests do so, for instance
 * after an uncaught exception. Returns a function that revokes this.
 */
export function cleanUpAtExit(directory: string, children: () => readonly ChildProcess[]): () => void {
  const cleanUp = (): void => {
    for (const child of children()) child.kill('SIGKILL');
    rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
  };
  process.once('exit', cleanUp);
  return () => void process.removeListener('exit', cleanUp);
}
