import { readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { type Case, walkCases } from '../support/sampling.ts';
import {
  commandsAt,
  layOut,
  type Place,
  publishHere,
  versionRead,
  waybill,
  withLayout,
  writeBundle,
  wrongAfterKill,
} from './built-program.ts';

/**
 * Kills the built program with SIGKILL right before each change that it makes to the file system, in every
 * command. Random kills rarely hit the time between two consecutive calls. Readers of releases always see
 * one version, and the next run completes it without force and leaves no other files.
 */

const preload = path.resolve('test/faults/kill-at-change.mjs');

type Outcome = ReturnType<typeof waybill>;

/** A command with its own directory. */
interface Killed {
  name: string;
  /** The strata are the kinds of changes of each group. */
  group: string;
  /** Creates the initial state for the command. */
  prepare: () => Promise<void>;
  /** Runs the command with the program that kills it. */
  run: (env: Record<string, string>) => Outcome;
  /** Errors after the kill and the next run. */
  wrong: () => Promise<string[]>;
  /** The path for the list of changes. */
  list: string;
}

interface Walk {
  layout: Place['layout'];
  verb: 'run' | 'rollback' | 'resume' | 'unpublish';
  /** Readers may find no files, or a mixture if files are published in place. */
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

async function killedCommand({ layout, verb, isSeenByReaders = false }: Walk): Promise<Killed> {
  const place = layOut(t, layout, 2);
  const commands = commandsAt(place);
  let version = 0;
  const next = (): void => {
    version += 1;
    writeBundle(place, version);
  };
  const publish = async (): Promise<void> => {
    next();
    const { error } = await publishHere(place);
    if (error !== null) throw new Error(`${error.code}: ${error.message}`);
  };
  // The maximum number of releases, so that each publication removes one.
  for (let published = 0; published < 3; published += 1) await publish();
  return {
    name: `${verb}, ${layout}`,
    group: layout,
    list: path.join(path.dirname(place.config), 'changes'),
    async prepare() {
      if (verb === 'run') {
        next();
        return;
      }
      // The number of changes depends on the existing releases, so each case starts with the same ones.
      if (verb === 'unpublish') {
        rmSync(place.site, { recursive: true, force: true });
        await publish();
      }
      await publish();
      await publish();
      if (verb === 'resume') waybill(commands.rollback);
    },
    run: (env) =>
      waybill(commands[verb], { NODE_OPTIONS: `--import ${preload}`, KILL_BELOW: place.site, ...env }),
    async wrong() {
      const isGone = !isSeenByReaders && versionRead(place) === null;
      next();
      return [...(isGone ? ['readers have nothing'] : []), ...(await wrongAfterKill(place, version))];
    },
  };
}

/** Readers of the previous layout see its version at every moment. */
async function killedChange(from: Place['layout'], to: Place['layout']): Promise<Killed> {
  const place = layOut(t, from, 2);
  let changed = place;
  let version = 0;
  return {
    name: `a change of layout to ${to}`,
    group: 'layout',
    list: path.join(path.dirname(place.config), 'changes'),
    async prepare() {
      rmSync(place.site, { recursive: true, force: true });
      version += 1;
      writeBundle(place, version);
      const { error } = await publishHere(withLayout(place, from));
      if (error !== null) throw new Error(`${error.code}: ${error.message}`);
      version += 1;
      writeBundle(place, version);
      changed = withLayout(place, to);
    },
    run: (env) =>
      waybill(['run', '--config', place.config], {
        ...{ NODE_OPTIONS: `--import ${preload}`, KILL_BELOW: place.site, ...env },
      }),
    async wrong() {
      const hasFormer = (): boolean => versionRead({ ...place, layout: from }) === `version ${version - 1}`;
      const before = hasFormer();
      const wrong = await wrongAfterKill(changed, version);
      return before && hasFormer() ? wrong : [...wrong, 'readers of the former layout lack its version'];
    },
  };
}

const killed = [
  ...(await Promise.all(walks.map(killedCommand))),
  await killedChange('in_place', 'releases'),
  await killedChange('releases', 'in_place'),
];
const cases: Case[] = [];
for (const { name, group, prepare, run, wrong, list } of killed)
  t.test(`${name}, without faults`, async (test) => {
    await prepare();
    test.equal(run({ KILL_AT: '0', KILL_LIST: list }).status, 0);
    const changes = readFileSync(list, 'utf8').split('\n');
    test.ok(changes.length > 5, `${changes.length} changes`);
    for (const [index, change] of changes.entries()) {
      const when = `${name}, before change ${index + 1} of ${changes.length} ${change}`;
      cases.push({
        name: when,
        stratum: `${group}: ${change}`,
        async run() {
          await prepare();
          const { signal } = run({ KILL_AT: String(index + 1) });
          return signal === 'SIGKILL' ? wrong() : ['it was not killed'];
        },
      });
    }
  });

t.test('after a kill before any change, the next run repairs everything', async (t) => {
  await walkCases(t, cases, { what: 'kills before a change to the file system' });
});
