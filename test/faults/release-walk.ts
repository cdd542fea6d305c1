import type { Test } from 'tap';
import { isReleaseKey, type ReleaseId } from '../../src/core/releases/release.ts';
import { activate } from '../../src/core/releases/switch.ts';
import { listedKey } from '../../src/core/storage/key.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import type { Case } from '../support/sampling.ts';
import type { ReleaseScenario } from './release-scenarios.ts';
import {
  filesOf,
  litterBelow,
  lookAtReleases,
  releaseIdFor,
  type ReleasesLook,
  site,
  siteOf,
  writeRelease,
} from './release-world.ts';
import { stepsOf, withoutIds } from './steps.ts';
import { newLog } from './walk.ts';
import { distinctKinds, type Fault, type FaultKind, withFaults } from './with-faults.ts';
import { contextWith, lookInto, retrying, stateOf, testClock, type World } from './world.ts';

/**
 * Every fault at every storage operation of the actions on releases. After each, readers see the complete
 * old or new release, and a rolled back release stays so. Repeating the action ends as if nothing had
 * happened.
 */

export interface ReleaseFaultOptions {
  /** The name of the world. */
  where: string;
  /** The stratum of a case. */
  stratum: (step: string, kind: FaultKind) => string;
}

/** The fault points of a scenario; `start` becomes the destination that each case copies. */
export async function releaseCases(
  t: Test,
  start: World,
  scenario: ReleaseScenario,
  { where, stratum }: ReleaseFaultOptions,
): Promise<Case[]> {
  const ids = await prepare(await start.open(), scenario);
  const clean = await start.fork();
  const log = newLog();
  t.ok(await scenario.work(withFaults(await clean.open(), null, log), ids), 'the clean run succeeds');
  t.equal(log.mutations > 0, scenario.changesNothing !== true, 'the clean run changes something');
  t.same(await shortfalls(await clean.open(), scenario, ids), []);
  const steps = stepsOf(log.operations);
  return log.operations.flatMap((operation, index) =>
    distinctKinds(operation).map((kind): Case => {
      const fault: Fault = { kind, at: index + 1, code: 'storage_transient' };
      return {
        name: `${where}: ${scenario.name}, ${kind} at ${fault.at} ${withoutIds(operation)}`,
        stratum: stratum(steps[index] as string, kind),
        run: async () => walk(await start.fork(), { scenario, ids, fault }),
      };
    }),
  );
}

/** Prepares the destination for the scenario. Each case gets a copy. Returns the ids by number. */
async function prepare(root: Storage, scenario: ReleaseScenario): Promise<readonly ReleaseId[]> {
  const ids: ReleaseId[] = [];
  for (let n = 0; n < scenario.published; n += 1) ids.push(await writeRelease(root, n));
  for (let n = scenario.published; n < 5; n += 1) ids.push(await releaseIdFor(n));
  for (const each of ids.slice(0, scenario.activated))
    await activate(contextWith(testClock()), siteOf(root), each, { dryRun: false });
  await scenario.prepare?.(root, ids);
  return ids;
}

async function walk(
  world: World,
  { scenario, ids, fault }: { scenario: ReleaseScenario; ids: readonly ReleaseId[]; fault: Fault },
): Promise<string[]> {
  const log = newLog();
  const done = await scenario.work(withFaults(await world.open(), fault, log), ids).catch(() => false);
  const wrong: string[] = [];
  if (!log.fired) wrong.push('the fault never fired');
  const between = await lookAtReleases(await lookInto(world));
  wrong.push(...between.wrong.map((what) => `after the fault, ${what}`));
  if (!scenario.between.includes(numberOf(between.current, ids)))
    wrong.push(`after the fault, ${String(numberOf(between.current, ids))} is current`);
  wrong.push(...(await missingInPlace(world, scenario)).map((what) => `after the fault, ${what}`));
  const shown = previewOf(between, ids);
  if (scenario.preview !== undefined && !scenario.preview.between.includes(shown))
    wrong.push(`after the fault, the channel leads to ${String(shown)}`);
  for (const n of scenario.heldBetween ?? [])
    if (!between.rolledBack.includes(ids[n] as ReleaseId))
      wrong.push(`after the fault, ${n} may come back by itself`);
  if (done && scenario.retiresLater !== true)
    wrong.push(...differences(between, scenario, ids).map((what) => `it was said to be done: ${what}`));
  if (!(await scenario.work(retrying(await world.open(), 2), ids))) wrong.push('the rerun was refused');
  wrong.push(...(await missingInPlace(world, scenario)), ...(await wrongInPlace(world, scenario)));
  wrong.push(...(await shortfalls(await lookInto(world), scenario, ids)));
  await world.drop?.();
  return wrong;
}

async function missingInPlace(world: World, { inPlace }: ReleaseScenario): Promise<string[]> {
  if (inPlace === undefined) return [];
  const files = await world.files();
  const wanted = Object.entries(filesOf(inPlace)).filter(
    ([name, text]) => files.get(`${site}/${name}`) !== text,
  );
  const catalog = files.has(`${site}/.publisher.json`) ? [] : ['the catalog in place is gone'];
  return [...wanted.map(([name]) => `${name} in place is gone`), ...catalog];
}

async function wrongInPlace(world: World, { endsInPlace }: ReleaseScenario): Promise<string[]> {
  if (endsInPlace === undefined) return [];
  const wrong: string[] = [];
  const files = Array.from(await world.files()).filter(([name]) => name.startsWith(`${site}/`));
  const found = new Map(files.map(([name, text]) => [name.slice(site.length + 1), text]));
  for (const name of found.keys())
    if (!name.startsWith('.publisher') && !isReleaseKey(name) && !(name in endsInPlace))
      wrong.push(`${name} is in place`);
  for (const [name, text] of Object.entries(endsInPlace))
    if (found.get(name) !== text) wrong.push(`${name} in place is ${String(found.get(name))}`);
  const state = await stateOf(await lookInto(world), site);
  const recorded =
    state.kind === 'valid' ? state.catalog.outputs.map(({ path }) => path as string).sort() : [];
  if (recorded.join() !== Object.keys(endsInPlace).sort().join())
    wrong.push(`recorded are ${recorded.join()}`);
  if (state.kind !== 'valid' || state.catalog.pending !== null)
    wrong.push('the catalog in place is not whole');
  return wrong;
}

async function shortfalls(
  root: Storage,
  scenario: ReleaseScenario,
  ids: readonly ReleaseId[],
): Promise<string[]> {
  const look = await lookAtReleases(root);
  const left = (await litterBelow(root)).map((key) => `${key} is left`);
  return [...look.wrong, ...left, ...differences(look, scenario, ids), ...(await lostPointers(root, look))];
}

/** A pointer that is not in the ledger would stay forever. */
async function lostPointers(root: Storage, { ledger }: ReleasesLook): Promise<string[]> {
  if (root.rename === undefined || ledger.channels.length > 0) return [];
  return (await siteOf(root).readLink!(listedKey('preview'))) === null
    ? []
    : ['the pointer of a channel is left'];
}

function previewOf({ channels }: ReleasesLook, ids: readonly ReleaseId[]): number | null {
  return numberOf(channels.get('preview') ?? null, ids);
}

function differences(look: ReleasesLook, scenario: ReleaseScenario, ids: readonly ReleaseId[]): string[] {
  const wrong: string[] = [];
  const numbers = (some: readonly ReleaseId[]): string =>
    some
      .map((each) => numberOf(each, ids))
      .sort()
      .join();
  if (numberOf(look.current, ids) !== scenario.current)
    wrong.push(`${String(numberOf(look.current, ids))} is current`);
  const shown = previewOf(look, ids);
  if (scenario.preview !== undefined && shown !== scenario.preview.end)
    wrong.push(`the channel leads to ${String(shown)}`);
  if (numbers(look.rolledBack) !== scenario.held.join())
    wrong.push(`held back are ${numbers(look.rolledBack)}`);
  if (numbers(look.stored) !== scenario.stored.join()) wrong.push(`there are ${numbers(look.stored)}`);
  if (look.ledger.removing.length > 0) wrong.push(`${numbers(look.ledger.removing)} are being removed`);
  return wrong;
}

function numberOf(release: ReleaseId | null, ids: readonly ReleaseId[]): number | null {
  return release === null ? null : ids.indexOf(release);
}
