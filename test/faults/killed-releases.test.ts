import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { performance } from 'node:perf_hooks';
import t from 'tap';
import { generator, howMany, seed, share } from '../support/sampling.ts';
import {
  commandsAt,
  layOut,
  program,
  versionRead,
  waybill,
  writeBundle,
  wrongAfterKill,
} from './built-program.ts';

/**
 * Kills the built program with SIGKILL while it publishes, rolls back, promotes and unpublishes releases, at
 * random times. Immediately after the kill, readers see one complete version, or nothing during an
 * unpublication. The next run completes the work without force.
 */

const allKills = 300;
const kills = howMany(allKills, 6);

async function killed(args: readonly string[], afterMs: number): Promise<void> {
  const child = spawn(process.execPath, [program, ...args], { stdio: 'ignore' });
  const ended = once(child, 'exit');
  await Promise.race([new Promise((resolve) => setTimeout(resolve, afterMs)), ended]);
  child.kill('SIGKILL');
  await ended;
}

t.test(`releases survive ${kills} kills`, async (t) => {
  t.comment(`seed ${seed}`);
  const random = generator('kills of releases');
  const place = layOut(t, 'releases', 30);
  const commands = commandsAt(place);
  let version = 1;
  writeBundle(place, version);
  const started = performance.now();
  t.equal(waybill(commands.run).status, 0);
  const length = performance.now() - started;
  let survived = 0;
  for (let kill = 1; kill <= kills; kill += 1) {
    // Most actions are publications, and the first of each kind comes early.
    const verb = (['run', 'rollback', 'unpublish', 'run', 'resume', 'run'] as const)[kill % 6] ?? 'run';
    if (verb === 'run') version += 1;
    if (verb === 'run') writeBundle(place, version);
    const after = random() * length;
    await killed(commands[verb], after);
    const when = `kill ${kill} of ${kills}, ${verb}, after ${after.toFixed(0)} of ${length.toFixed(0)} ms`;
    const read = versionRead(place);
    if (verb !== 'unpublish') t.not(read, null, `${when}: readers have a version`);
    version += 1;
    writeBundle(place, version);
    t.same(await wrongAfterKill(place, version), [], when);
    survived += 1;
  }
  t.equal(survived, kills);
  t.comment(`report: ${share(survived, allKills)} kills survived (releases)`);
});
