import type { Test } from 'tap';
import { setChannel } from '../../src/core/releases/channels.ts';
import { isOfReleases, type ReleaseId } from '../../src/core/releases/release.ts';
import { activate, promote, resume, rollBack, type SwitchResult } from '../../src/core/releases/switch.ts';
import { listedKey } from '../../src/core/storage/key.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import { sampleOf, share } from '../support/sampling.ts';
import { eachPoint } from './each-point.ts';
import type { WorldFactory } from './walk.ts';
import { distinctKinds, withFaults, type Fault, type FaultLog } from './with-faults.ts';
import {
  filesOf,
  litterBelow,
  lookAtReleases,
  publishAsRelease,
  publishInPlace,
  releaseIdFor,
  takeDown,
  writeRelease,
  retire,
  site,
  siteOf,
  type ReleasesLook,
} from './release-world.ts';
import { contextWith, lookInto, retrying, stateOf, testClock, type Files, type World } from './world.ts';

/**
 * Every fault at every storage operation of what is done with releases: after each, readers see the old
 * release or the new one, whole, and what was rolled back stays so; and the same work done again ends as if
 * nothing had happened.
 */

const how = { dryRun: false };
const context = (): ReturnType<typeof contextWith> => contextWith(testClock());
const isDone = ({ outcome }: SwitchResult): boolean => outcome !== 'refused';

interface ReleaseScenario {
  name: string;
  /** So many releases are there before; the first ones became current one after the other. */
  published: number;
  activated: number;
  prepare?: (root: Storage, ids: readonly ReleaseId[]) => Promise<unknown>;
  /** Also what the next run does. False if it was refused. */
  work: (root: Storage, ids: readonly ReleaseId[]) => Promise<boolean>;
  /** By number: what may be current after a fault, and is in the end. */
  between: readonly (number | null)[];
  current: number | null;
  /** What is held back after any fault, and in the end. */
  heldBetween?: readonly number[];
  held: readonly number[];
  stored: readonly number[];
  changesNothing?: boolean;
  /** The bundle of this number stays in place at every moment, with its catalog. */
  inPlace?: number;
  /** What is published in place in the end, beside the releases. */
  endsInPlace?: Files;
  /** What the channel may lead to after a fault, and leads to in the end. */
  preview?: { between: readonly (number | null)[]; end: number | null };
  /** What is done at the end may be left to the next run without a failure. */
  retiresLater?: boolean;
}

const id = (ids: readonly ReleaseId[], n: number): ReleaseId => ids[n] as ReleaseId;
const channel = { name: 'preview', ttlMs: 3_600_000 };

export const releaseScenarios: readonly ReleaseScenario[] = [
  {
    ...{ name: 'the first release becomes current', published: 1, activated: 0 },
    work: async (root, ids) => isDone(await activate(context(), siteOf(root), id(ids, 0), how)),
    ...{ between: [null, 0], current: 0, held: [], stored: [0] },
  },
  {
    ...{ name: 'the next release becomes current', published: 2, activated: 1 },
    work: async (root, ids) => isDone(await activate(context(), siteOf(root), id(ids, 1), how)),
    ...{ between: [0, 1], current: 1, held: [], stored: [0, 1] },
  },
  {
    ...{ name: 'a rollback', published: 2, activated: 2 },
    work: async (root, ids) => isDone(await rollBack(context(), siteOf(root), id(ids, 0), how)),
    ...{ between: [0, 1], current: 0, held: [1], stored: [0, 1] },
  },
  {
    ...{ name: 'a second rollback', published: 3, activated: 3 },
    prepare: async (root) => rollBack(context(), siteOf(root), null, how),
    work: async (root, ids) => isDone(await rollBack(context(), siteOf(root), id(ids, 0), how)),
    ...{ between: [0, 1], current: 0, heldBetween: [2], held: [1, 2], stored: [0, 1, 2] },
  },
  {
    ...{ name: 'what was rolled back is promoted', published: 2, activated: 2 },
    prepare: async (root) => rollBack(context(), siteOf(root), null, how),
    work: async (root, ids) => isDone(await promote(context(), siteOf(root), id(ids, 1), how)),
    ...{ between: [0, 1], current: 1, held: [], stored: [0, 1] },
  },
  {
    ...{ name: 'what was rolled back may come back', published: 2, activated: 2 },
    prepare: async (root) => rollBack(context(), siteOf(root), null, how),
    work: async (root) => isDone(await resume(context(), siteOf(root), how)),
    ...{ between: [0], current: 0, held: [], stored: [0, 1] },
  },
  {
    ...{ name: 'another release after a rollback', published: 3, activated: 2 },
    prepare: async (root) => rollBack(context(), siteOf(root), null, how),
    work: async (root, ids) => isDone(await activate(context(), siteOf(root), id(ids, 2), how)),
    ...{ between: [0, 2], current: 2, held: [], stored: [0, 1, 2] },
  },
  {
    ...{ name: 'the first publication', published: 0, activated: 0 },
    work: async (root) => (await publishAsRelease(root, 0)).error === null,
    ...{ between: [null, 0], current: 0, held: [], stored: [0] },
  },
  {
    ...{ name: 'a publication, most of it linked, with retention', published: 3, activated: 3 },
    work: async (root) => (await publishAsRelease(root, 3, { keep: 1 })).error === null,
    ...{ between: [2, 3], current: 3, held: [], stored: [2, 3], retiresLater: true },
  },
  {
    ...{ name: 'a publication of what was rolled back', published: 2, activated: 2 },
    prepare: async (root) => rollBack(context(), siteOf(root), null, how),
    work: async (root) => (await publishAsRelease(root, 1)).error === null,
    ...{ between: [0], current: 0, heldBetween: [1], held: [1], stored: [0, 1] },
    changesNothing: true,
  },
  {
    ...{ name: 'what is published in place becomes releases', published: 0, activated: 0 },
    prepare: async (root) => publishInPlace(root, 0),
    work: async (root) => (await publishAsRelease(root, 1)).error === null,
    ...{ between: [null, 0, 1], current: 1, held: [], stored: [0, 1], inPlace: 0 },
  },
  {
    ...{ name: 'releases are left for a publication in place', published: 2, activated: 2 },
    work: async (root) => (await publishInPlace(root, 2, 'additive')).error === null,
    ...{ between: [1], current: 1, held: [], stored: [0, 1] },
    endsInPlace: { ...filesOf(1), ...filesOf(2) },
  },
  {
    ...{ name: 'a first publication to a channel', published: 1, activated: 1 },
    work: async (root) => (await publishAsRelease(root, 1, { channel })).error === null,
    ...{ between: [0], current: 0, held: [], stored: [0, 1], preview: { between: [null, 1], end: 1 } },
  },
  {
    ...{ name: 'a channel is led to another release', published: 1, activated: 1 },
    prepare: async (root) => publishAsRelease(root, 1, { channel }),
    work: async (root) => (await publishAsRelease(root, 2, { channel, keep: 0 })).error === null,
    ...{ between: [0], current: 0, held: [], stored: [0, 2], preview: { between: [1, 2], end: 2 } },
    retiresLater: true,
  },
  {
    ...{ name: 'the time of a channel is over', published: 2, activated: 1 },
    prepare: async (root, ids) =>
      setChannel(context(), siteOf(root), { name: 'preview', to: id(ids, 1), from: null, ttlMs: 0 }),
    work: async (root) => (await retire(root, 9)).length >= 0,
    ...{ between: [0], current: 0, held: [], stored: [0], preview: { between: [1, null], end: null } },
  },
  {
    ...{ name: 'a bundle path with a channel is taken down', published: 1, activated: 1 },
    prepare: async (root) => publishAsRelease(root, 1, { channel }),
    work: async (root) => takeDown(root),
    ...{ between: [0, null], current: null, held: [], stored: [] },
    preview: { between: [1, null], end: null },
  },
  {
    ...{ name: 'a bundle path is taken down', published: 3, activated: 2 },
    work: async (root) => takeDown(root),
    ...{ between: [1, null], current: null, held: [], stored: [] },
  },
  {
    ...{ name: 'retention', published: 4, activated: 4 },
    work: async (root) => (await retire(root, 1)).length >= 0,
    ...{ between: [3], current: 3, held: [], stored: [2, 3] },
  },
];

/** `drawn`: how many fault points a run outside CI draws. Returns how many were walked, of how many. */
export async function walkReleases(
  t: Test,
  newWorld: WorldFactory,
  scenario: ReleaseScenario,
  { drawn, concurrency }: { drawn: number; concurrency: number },
): Promise<{ points: number; all: number }> {
  const start = await newWorld(t);
  const ids = await prepare(await start.open(), scenario);
  const clean = await start.fork();
  const log: FaultLog = { operations: [], fired: false, mutations: 0 };
  t.ok(await scenario.work(withFaults(await clean.open(), null, log), ids), 'the clean run succeeds');
  t.equal(log.mutations > 0, scenario.changesNothing !== true, 'the clean run changes something');
  t.same(await shortfalls(await clean.open(), scenario, ids), []);
  const all = log.operations.flatMap((operation, index) =>
    distinctKinds(operation).map((kind): Fault => ({ kind, at: index + 1, code: 'storage_transient' })),
  );
  const points = sampleOf(all, drawn, scenario.name);
  const failures: string[] = [];
  await eachPoint(t, points, concurrency, async (fault) => {
    const wrong = await walk(await start.fork(), { scenario, ids, fault });
    const where = `${fault.kind} at ${fault.at} ${log.operations[fault.at - 1] ?? ''}`;
    failures.push(...wrong.map((what) => `${where}: ${what}`));
  });
  t.same(failures.slice(0, 10), [], `${share(points.length, all.length)} fault points walked`);
  return { points: points.length, all: all.length };
}

/** Makes the destination as the scenario finds it; each case gets a copy. Returns the ids by number. */
async function prepare(root: Storage, scenario: ReleaseScenario): Promise<readonly ReleaseId[]> {
  const ids: ReleaseId[] = [];
  for (let n = 0; n < scenario.published; n += 1) ids.push(await writeRelease(root, n));
  for (let n = scenario.published; n < 5; n += 1) ids.push(await releaseIdFor(n));
  for (const each of ids.slice(0, scenario.activated)) await activate(context(), siteOf(root), each, how);
  await scenario.prepare?.(root, ids);
  return ids;
}

async function walk(
  world: World,
  { scenario, ids, fault }: { scenario: ReleaseScenario; ids: readonly ReleaseId[]; fault: Fault },
): Promise<string[]> {
  const log: FaultLog = { operations: [], fired: false, mutations: 0 };
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
    if (!between.rolledBack.includes(id(ids, n))) wrong.push(`after the fault, ${n} may come back by itself`);
  if (done && scenario.retiresLater !== true)
    wrong.push(...differences(between, scenario, ids).map((what) => `it was said to be done: ${what}`));
  if (!(await scenario.work(retrying(await world.open(), 2), ids))) wrong.push('the rerun was refused');
  wrong.push(...(await missingInPlace(world, scenario)), ...(await wrongInPlace(world, scenario)));
  return [...wrong, ...(await shortfalls(await lookInto(world), scenario, ids))];
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
    if (!name.startsWith('.publisher') && !isOfReleases(name) && !(name in endsInPlace))
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

/** A pointer that the ledger does not name would stay for good. */
async function lostPointers(root: Storage, { ledger }: ReleasesLook): Promise<string[]> {
  if (root.facts.rename === 'none' || ledger.channels.length > 0) return [];
  return (await siteOf(root).readLink(listedKey('preview'))) === null
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
