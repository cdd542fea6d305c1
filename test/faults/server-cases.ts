import type { Test } from 'tap';
import type { Case } from '../support/sampling.ts';
import { frozenCases, frozenScenarios } from './frozen.ts';
import { releaseScenarios } from './release-scenarios.ts';
import { releaseCases } from './release-walk.ts';
import { scenarios } from './scenarios.ts';
import { undoCases } from './undo-walk.ts';
import { faultCases, prepare } from './walk.ts';
import type { World } from './world.ts';

/*
 * The walks with a real server. The walks in memory prove the protocol for every action. Here, the storage's
 * own operations must be correct at each step, so only actions with different operations are included.
 */

const onServers: ReadonlySet<string> = new Set([
  'upsert_additive, most of it kept and one file gone',
  'replace_catalog',
  'replace_catalog, files and directories trading places',
  'publish of new directories next to existing ones',
  'prune',
  'unpublish',
]);
const releasesOnServers: ReadonlySet<string> = new Set([
  'a rollback',
  'a publication, most of it linked, with retention',
  'in-place content becomes releases',
  'a bundle path with a channel is taken down',
]);
/** Freezes of a scenario in which the other publisher is still active. */
const maxMidway = 60;

export interface ServerWorlds {
  /** The name of the server. */
  where: string;
  /** A new destination for an action. */
  newWorld: (action: string) => World;
  hasDirectories: boolean;
  hasReleases: boolean;
}

/** Prepares faults, kills during an undo, freezes and faults of releases. Returns their cases. */
export async function casesOnServer(
  t: Test,
  { where, newWorld, hasDirectories, hasReleases }: ServerWorlds,
): Promise<Case[]> {
  const ofStep = (step: string): string => `${where}: ${step}`;
  const faults = scenarios
    .filter(
      ({ action, needsDirectories = false }) => onServers.has(action) && needsDirectories <= hasDirectories,
    )
    .map(async (scenario) => {
      const prepared = await prepare(t, newWorld(scenario.action), where, scenario);
      return [
        ...faultCases(prepared, { everyCode: false, stratum: ofStep }),
        ...(await undoCases(t, prepared, (step) => `${ofStep(step)}, undoing`)),
      ];
    });
  const freezes = frozenScenarios.map(async (scenario) =>
    frozenCases(t, newWorld(scenario.name), scenario, {
      ...{ where, maxMidway, renames: hasDirectories },
      stratum: (step) => `${ofStep(step)}, frozen`,
    }),
  );
  const releases = releaseScenarios
    .filter(({ name }) => hasReleases && releasesOnServers.has(name))
    .map(async (scenario) => releaseCases(t, newWorld(scenario.name), scenario, { where, stratum: ofStep }));
  return (await Promise.all([...faults, ...freezes, ...releases])).flat();
}
