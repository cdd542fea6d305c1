import { setChannel } from '../../src/core/releases/channels.ts';
import type { ReleaseId } from '../../src/core/releases/release.ts';
import { activate, promote, resume, rollBack, type SwitchResult } from '../../src/core/releases/switch.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import { filesOf, publishAsRelease, publishInPlace, retire, siteOf, takeDown } from './release-world.ts';
import { contextWith, type Files, testClock } from './world.ts';

/** Every action on releases, for walks with faults. */

const how = { dryRun: false };
const context = (): ReturnType<typeof contextWith> => contextWith(testClock());
const isDone = ({ outcome }: SwitchResult): boolean => outcome !== 'refused';

export interface ReleaseScenario {
  name: string;
  /** The number of existing releases, each of which was current once, in order. */
  published: number;
  activated: number;
  prepare?: (root: Storage, ids: readonly ReleaseId[]) => Promise<unknown>;
  /** Also the work of the next run. Returns false if it was rejected. */
  work: (root: Storage, ids: readonly ReleaseId[]) => Promise<boolean>;
  /** The numbers of the releases that may be current after a fault, and of the final one. */
  between: readonly (number | null)[];
  current: number | null;
  /** The releases that are held back after any fault, and at the end. */
  heldBetween?: readonly number[];
  held: readonly number[];
  stored: readonly number[];
  changesNothing?: boolean;
  /** The bundle with this number stays in place at every moment, with its catalog. */
  inPlace?: number;
  /** The in-place content at the end, next to the releases. */
  endsInPlace?: Files;
  /** Possible targets of the channel after a fault, and its final target. */
  preview?: { between: readonly (number | null)[]; end: number | null };
  /** The next run may finish the last steps without a failure. */
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
    ...{ name: 'a rolled-back release is promoted', published: 2, activated: 2 },
    prepare: async (root) => rollBack(context(), siteOf(root), null, how),
    work: async (root, ids) => isDone(await promote(context(), siteOf(root), id(ids, 1), how)),
    ...{ between: [0, 1], current: 1, held: [], stored: [0, 1] },
  },
  {
    ...{ name: 'a rolled-back release may return', published: 2, activated: 2 },
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
    ...{ name: 'a publication of a rolled-back release', published: 2, activated: 2 },
    prepare: async (root) => rollBack(context(), siteOf(root), null, how),
    work: async (root) => (await publishAsRelease(root, 1)).error === null,
    ...{ between: [0], current: 0, heldBetween: [1], held: [1], stored: [0, 1] },
    changesNothing: true,
  },
  {
    ...{ name: 'in-place content becomes releases', published: 0, activated: 0 },
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
    ...{ name: 'a bundle path with a channel is unpublished', published: 1, activated: 1 },
    prepare: async (root) => publishAsRelease(root, 1, { channel }),
    work: async (root) => takeDown(root),
    ...{ between: [0, null], current: null, held: [], stored: [] },
    preview: { between: [1, null], end: null },
  },
  {
    ...{ name: 'a bundle path is unpublished', published: 3, activated: 2 },
    work: async (root) => takeDown(root),
    ...{ between: [1, null], current: null, held: [], stored: [] },
  },
  {
    ...{ name: 'retention', published: 4, activated: 4 },
    work: async (root) => (await retire(root, 1)).length >= 0,
    ...{ between: [3], current: 3, held: [], stored: [2, 3] },
  },
];
