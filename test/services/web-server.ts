import { rmSync } from 'node:fs';
import type { Test } from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import { cleanUpAtExit, endService, hasEnded, spawnService } from './service-process.ts';

interface WebServer {
  program: string;
  args: readonly string[];
  env: NodeJS.ProcessEnv;
  /** Removed with the process at the end of the test. */
  directory: string;
  url: string;
}

/** Starts a web server in the foreground. Resolves when it answers. Throws with its log if it ends before. */
export async function startWebServer(
  t: Pick<Test, 'teardown'>,
  { program, args, env, directory, url }: WebServer,
): Promise<void> {
  const child = spawnService(program, args, { env, stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  child.stderr?.on('data', (chunk: Buffer) => (log += chunk.toString()));
  const revoke = cleanUpAtExit(directory, () => [child]);
  t.teardown(async () => {
    revoke();
    await endService(child);
    rmSync(directory, { recursive: true, force: true });
  });
  while (!(await answers(url))) {
    if (hasEnded(child)) throw new Error(`${program} ended:\n${log}`);
    await systemClock.sleep(20);
  }
}

async function answers(url: string): Promise<boolean> {
  return fetch(url).then(
    () => true,
    () => false,
  );
}
