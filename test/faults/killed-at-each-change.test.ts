import { readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { sampleOf } from '../support/sampling.ts';
import {
  checkRecovery,
  commandsAt,
  layOut,
  publishHere,
  versionRead,
  waybill,
  withLayout,
  writeBundle,
  type Place,
} from './built-program.ts';

/**
 * The built program, killed with SIGKILL right before each change that it makes to the file system, whatever
 * the command: random moments rarely come between two calls that follow each other at once. Readers of
 * releases have one version at every moment, and the next run finishes it without force and leaves nothing.
 */

const preload = path.resolve('test/faults/kill-at-change.mjs');
const sampled = 3;

interface Walk {
  layout: Place['layout'];
  verb: 'run' | 'rollback' | 'resume' | 'unpublish';
  /** Readers may have nothing, or in place a mixture. */
  isSeenByReaders?: boolean;
}

const walks: Walk[] = [
  { layout: 'in_place', verb: 'run', isSeenByReaders: true },
  { layout: 'in_place', verb: 'unpublish', isSeenByReaders: true },
  { layout: 'releases', verb: 'run' },
  { layout: 'releases', verb: 'rollback' },
  { layout: 'releases', verb: 'resume' },
  { layout: 'releases', verb: 'unpublish', isSeenByReaders: true },
];

for (const { layout, verb, isSeenByReaders = false } of walks)
  t.test(`${verb}, ${layout}`, async (t) => {
    const place = layOut(t, layout, 2);
    const commands = commandsAt(place);
    let version = 0;
    const next = (): void => {
      version += 1;
      writeBundle(place, version);
    };
    const publish = async (): Promise<void> => {
      next();
      t.equal((await publishHere(place)).error, null);
    };
    const publishTwice = async (): Promise<void> => {
      await publish();
      await publish();
    };
    /** Before each command, so that it makes the same changes each time. */
    const prepare = async (): Promise<void> => {
      if (verb === 'run') next();
      if (verb === 'unpublish') await publishTwice();
      if (verb === 'resume') t.equal(waybill(commands.rollback).status, 0);
    };
    const under = (env: Record<string, string>): ReturnType<typeof waybill> =>
      waybill(commands[verb], { NODE_OPTIONS: `--import ${preload}`, KILL_BELOW: place.site, ...env });
    // With those, there are as many releases as are kept, and each publication removes one.
    await publish();
    await publishTwice();
    await prepare();
    const counted = path.join(path.dirname(place.config), 'count');
    t.equal(under({ KILL_AT: '0', KILL_COUNT: counted }).status, 0);
    await publish();
    const changes = Number(readFileSync(counted, 'utf8'));
    t.ok(changes > 5, `${changes} changes`);
    const all = Array.from({ length: changes }, (_, index) => index + 1);
    for (const at of sampleOf(all, sampled, `${verb}, ${layout}`)) {
      await prepare();
      const { signal } = under({ KILL_AT: String(at) });
      t.equal(signal, 'SIGKILL', `killed before change ${at} of ${changes}`);
      const when = `${verb}, ${layout}, before change ${at} of ${changes}`;
      if (!isSeenByReaders) t.not(versionRead(place), null, `${when}: readers have a version`);
      next();
      await checkRecovery(t, place, version, when);
    }
    t.comment(
      `told: ${changes} changes of ${verb}, ${layout}: killed before each in CI, else before ${sampled}`,
    );
    rmSync(place.site, { recursive: true });
  });

/** Readers of the former layout have its version at every moment, whoever is killed. */
for (const [from, to] of [
  ['in_place', 'releases'],
  ['releases', 'in_place'],
] as const)
  t.test(`a change of layout to ${to}`, async (t) => {
    const place = layOut(t, from, 2);
    let version = 0;
    /** Published in the former layout alone, and the next version is at the source. */
    const prepare = async (): Promise<Place> => {
      rmSync(place.site, { recursive: true, force: true });
      version += 1;
      writeBundle(place, version);
      t.equal((await publishHere(withLayout(place, from))).error, null);
      version += 1;
      writeBundle(place, version);
      return withLayout(place, to);
    };
    const under = ({ site, config }: Place, env: Record<string, string>): ReturnType<typeof waybill> =>
      waybill(['run', '--config', config], {
        ...{ NODE_OPTIONS: `--import ${preload}`, KILL_BELOW: site, ...env },
      });
    const counted = path.join(path.dirname(place.config), 'count');
    t.equal(under(await prepare(), { KILL_AT: '0', KILL_COUNT: counted }).status, 0);
    const changes = Number(readFileSync(counted, 'utf8'));
    t.ok(changes > 10, `${changes} changes`);
    const all = Array.from({ length: changes }, (_, index) => index + 1);
    for (const at of sampleOf(all, sampled, `to ${to}`)) {
      const changed = await prepare();
      t.equal(under(changed, { KILL_AT: String(at) }).signal, 'SIGKILL', `killed before change ${at}`);
      const when = `to ${to}, before change ${at} of ${changes}`;
      const former = (): string | null => versionRead({ ...place, layout: from });
      t.equal(former(), `version ${version - 1}`, `${when}: the former readers have what they had`);
      await checkRecovery(t, changed, version, when);
      t.equal(former(), `version ${version - 1}`, `${when}: and still do`);
    }
    t.comment(
      `told: ${changes} changes of a change to ${to}: killed before each in CI, else before ${sampled}`,
    );
    rmSync(place.site, { recursive: true });
  });
