import type { PipelineConfig } from '../../src/core/config/config.ts';
import { hasCode } from '../../src/core/lib/errors.ts';
import { prune, type PruneReport } from '../../src/core/maintain/prune.ts';
import { reconcile } from '../../src/core/maintain/reconcile.ts';
import { repair } from '../../src/core/maintain/repair.ts';
import { verify } from '../../src/core/maintain/verify.ts';
import { unpublish } from '../../src/core/publish/unpublish/unpublish.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import { memoryStorage } from '../support/memory-storage.ts';
import {
  bundlePath,
  contextWith,
  destinationOf,
  type Files,
  otherOwner,
  owner,
  publishTo,
  put,
  stateOf,
  testClock,
} from './world.ts';

/** Every action that changes published files, for walks with faults. */

const v1: Files = { 'a.txt': 'a1', 'dir/c.txt': 'c1' };
/** Directories that move whole, with assets or with pages, and one that has both. */
const site: Files = {
  ...{ 'index.html': 'home', 'both/page.html': 'p', 'both/style.css': 's', 'both/deep/er/map.json': 'm' },
  ...{ 'assets/app.js': 'j', 'assets/img/one.png': '1', 'pages/about.html': 'a' },
};
const v2: Files = { 'a.txt': 'a2', 'new/d.txt': 'd2' };
const another: Files = { 'another.txt': 'another' };
/** One file of `v1` differs, and the other one is kept. */
const partly: Files = { ...v1, 'a.txt': 'a2' };
/** `dir/c.txt` becomes a file at the path of a directory, and `a.txt` a directory at the path of a file. */
const turned: Files = { 'a.txt/inner': 'i', dir: 'now a file' };

export interface Scenario {
  action: string;
  /** Creates the destination before the fault. */
  prepare(root: Storage): Promise<void>;
  /** The work that the fault hits. Rejects, or returns false, if it failed. */
  work(root: Storage): Promise<boolean>;
  /** The same work as executed by the next run, without force. */
  rerun(root: Storage): Promise<boolean>;
  /** The final content of the bundle path, without the state. */
  outcome: Files;
  /** Files that must not change. */
  untouched: Files;
  /** Whether the initial state records files that are missing. */
  startsUntrue?: boolean;
  /** Whether nothing is published at the end, and there is no state. */
  endsWithoutState?: boolean;
  /** Only some kinds of fault show its difference, so each kind has its own strata. */
  faultsDiffer?: boolean;
  /** Object stores have no directories. */
  needsDirectories?: boolean;
}

const beside: Files = {
  'sibling.txt': 'a sibling',
  'bundle-2/file': 'a neighbour',
  'top/other': 'elsewhere',
};
const guests: Files = { [`${bundlePath}/unmanaged.txt`]: 'not ours' };

async function putAll(root: Storage, files: Files): Promise<void> {
  for (const [name, text] of Object.entries(files)) await put(root, name, text);
}

async function succeeds(result: Promise<{ action: string; error: unknown }>): Promise<boolean> {
  return (await result).error === null;
}

async function pruned(root: Storage): Promise<boolean> {
  const report: PruneReport = await prune(contextWith(testClock()), root, {
    owner,
    policy: { enabled: true, keepLatest: 1, olderThanMs: null },
    maxRemoved: null,
    dryRun: false,
  });
  return report.errors.length === 0;
}

async function reconciled(root: Storage): Promise<boolean> {
  const reports = await reconcile(contextWith(testClock()), root, { owner, dryRun: false, allOwners: false });
  return reports.every(({ error }) => error === null);
}

/** Unpublishing an empty bundle path does nothing. */
async function unpublished(root: Storage): Promise<boolean> {
  const request = { owner, destinationPath: bundlePath, maxRemoved: null, dryRun: false, concurrency: 1 };
  return unpublish(contextWith(testClock()), root, request).then(
    () => true,
    (error: unknown) => hasCode(error, 'not_published') || hasCode(error, 'not_owned'),
  );
}

const whole: Files = { 'a.txt': 'a1', 'b.txt': 'b1', 'dir/c.txt': 'c1' };

/** From a source that still has all of `whole`. */
async function repaired(root: Storage): Promise<boolean> {
  const source = memoryStorage({ flavour: 'files' });
  const manifest = { schema_version: 1, created: '2026-11-20T00:00:00Z', files: Object.keys(whole) };
  await put(source, 'bundle/manifest.json', JSON.stringify(manifest));
  for (const [name, text] of Object.entries(whole)) await put(source, `bundle/${name}`, text);
  const destination = destinationOf('additive');
  const pipeline: PipelineConfig = {
    id: owner.pipelineId,
    source: { backend: 'local', path: '/source' },
    sourceId: '/source',
    destinations: [destination],
    maxWaiting: null,
    retryForMs: null,
    runTimeoutMs: 3_600_000,
    discoveryTimeoutMs: 3_600_000,
    whileRetrying: 'pass',
    schedule: null,
    watch: null,
    sceneMaps: { contentRules: 'warning' },
  };
  const context = { ...contextWith(testClock()), openStorage: async () => source };
  const verified = await verify(root, { concurrency: 1 });
  const done = await repair(context, { pipeline, destination, root, dryRun: false }, verified);
  return (
    verified.every(({ error }) => error === null) &&
    done.every((report) => report === null || (report.error === null && report.unrepaired.length === 0))
  );
}

export const scenarios: readonly Scenario[] = [
  {
    action: 'publish_new',
    prepare: (root) => putAll(root, beside),
    work: (root) => succeeds(publishTo(root, { files: v2 })),
    rerun: (root) => succeeds(publishTo(root, { files: v2 })),
    outcome: v2,
    untouched: beside,
  },
  {
    action: 'upsert_additive',
    async prepare(root) {
      await putAll(root, beside);
      await publishTo(root, { files: v1 });
      await publishTo(root, { files: { 'theirs.txt': 'theirs' }, as: otherOwner });
      await putAll(root, guests);
    },
    work: (root) => succeeds(publishTo(root, { files: v2 })),
    rerun: (root) => succeeds(publishTo(root, { files: v2 })),
    outcome: { ...v1, ...v2, 'theirs.txt': 'theirs' },
    untouched: { ...beside, ...guests },
  },
  {
    action: 'upsert_additive, most of it kept and one file gone',
    async prepare(root) {
      await publishTo(root, { files: { ...v1, 'b.txt': 'b1', 'gone.txt': 'gone' } });
      await root.remove('bundle/gone.txt' as never);
      await putAll(root, guests);
    },
    work: (root) => succeeds(publishTo(root, { files: { ...partly, 'b.txt': 'b1', 'gone.txt': 'gone' } })),
    rerun: (root) => succeeds(publishTo(root, { files: { ...partly, 'b.txt': 'b1', 'gone.txt': 'gone' } })),
    outcome: { ...partly, 'b.txt': 'b1', 'gone.txt': 'gone' },
    untouched: guests,
    startsUntrue: true,
  },
  {
    // The next run has other paths, so it must detect which changes were made to the first ones.
    action: 'upsert_additive, and another bundle after it',
    faultsDiffer: true,
    prepare: async (root) => {
      await publishTo(root, { files: v1 });
    },
    work: async (root) =>
      (await succeeds(publishTo(root, { files: v2 }))) && succeeds(publishTo(root, { files: another })),
    rerun: async (root) =>
      (await succeeds(publishTo(root, { files: another }))) && succeeds(publishTo(root, { files: v2 })),
    outcome: { ...v1, ...v2, ...another },
    untouched: {},
  },
  {
    action: 'replace_catalog',
    async prepare(root) {
      await putAll(root, beside);
      await publishTo(root, { files: v1, workflow: 'replacement' });
      await publishTo(root, { files: { 'theirs.txt': 'theirs' }, as: otherOwner });
      await putAll(root, guests);
    },
    work: (root) => succeeds(publishTo(root, { files: v2, workflow: 'replacement' })),
    rerun: (root) => succeeds(publishTo(root, { files: v2, workflow: 'replacement' })),
    outcome: { ...v2, 'theirs.txt': 'theirs' },
    untouched: { ...beside, ...guests },
  },
  {
    action: 'replace_catalog, files and directories trading places',
    async prepare(root) {
      await publishTo(root, { files: v1, workflow: 'replacement' });
    },
    work: (root) => succeeds(publishTo(root, { files: turned, workflow: 'replacement' })),
    rerun: (root) => succeeds(publishTo(root, { files: turned, workflow: 'replacement' })),
    outcome: turned,
    untouched: {},
    needsDirectories: true,
  },
  {
    action: 'force_replace of unmanaged content',
    prepare: (root) => putAll(root, { ...beside, ...guests, [`${bundlePath}/a.txt`]: 'in the way' }),
    work: (root) => succeeds(publishTo(root, { files: v2, force: true })),
    // If the fault occurred before the intent was written, nothing was forced yet, and the operator repeats
    // the force option.
    async rerun(root) {
      const begun = (await stateOf(root)).kind === 'valid';
      return succeeds(publishTo(root, { files: v2, force: !begun }));
    },
    outcome: v2,
    untouched: beside,
  },
  {
    action: 'force_replace of an invalid state',
    async prepare(root) {
      await publishTo(root, { files: v1 });
      await putAll(root, { ...beside, [`${bundlePath}/.publisher.json`]: '{"schema_version": 4' });
    },
    work: (root) => succeeds(publishTo(root, { files: v2, force: true })),
    async rerun(root) {
      const begun = (await stateOf(root)).kind === 'valid';
      return succeeds(publishTo(root, { files: v2, force: !begun }));
    },
    outcome: v2,
    untouched: beside,
  },
  {
    action: 'publish of new directories next to existing ones',
    async prepare(root) {
      await putAll(root, beside);
      await publishTo(root, { files: v1 });
      await putAll(root, guests);
    },
    work: (root) => succeeds(publishTo(root, { files: { ...v1, ...site } })),
    rerun: (root) => succeeds(publishTo(root, { files: { ...v1, ...site } })),
    outcome: { ...v1, ...site },
    untouched: { ...beside, ...guests },
  },
  {
    action: 'legacy state published over',
    prepare: (root) =>
      putAll(root, {
        ...beside,
        [`${bundlePath}/.publisher.json`]: '{"version": 2, "files": ["a.txt"]}',
        [`${bundlePath}/a.txt`]: 'old',
      }),
    work: (root) => succeeds(publishTo(root, { files: v2 })),
    rerun: (root) => succeeds(publishTo(root, { files: v2 })),
    outcome: v2,
    untouched: beside,
  },
  {
    action: 'prune',
    async prepare(root) {
      await putAll(root, { ...beside });
      await publishTo(root, { files: { 'a.txt': 'a1', 'b.txt': 'b1', 'dir/c.txt': 'c1' } });
      await putAll(root, guests);
    },
    work: pruned,
    rerun: pruned,
    outcome: { 'a.txt': 'a1' },
    untouched: { ...beside, ...guests },
  },
  {
    action: 'reconcile',
    async prepare(root) {
      await putAll(root, beside);
      await publishTo(root, { files: v1 });
      await root.remove('bundle/dir/c.txt' as never);
      await putAll(root, guests);
    },
    work: reconciled,
    rerun: reconciled,
    outcome: { 'a.txt': 'a1' },
    untouched: { ...beside, ...guests },
    // The intended result.
    startsUntrue: true,
  },
  {
    action: 'verify --repair',
    async prepare(root) {
      await putAll(root, beside);
      await publishTo(root, { files: whole });
      await root.remove('bundle/dir/c.txt' as never);
      await putAll(root, { ...guests, [`${bundlePath}/b.txt`]: 'altered' });
    },
    work: repaired,
    // A run completes a repair that was interrupted, but repairs nothing else.
    rerun: async (root) => (await succeeds(publishTo(root, { files: whole }))) && repaired(root),
    outcome: whole,
    untouched: { ...beside, ...guests },
    startsUntrue: true,
  },
  {
    action: 'unpublish',
    async prepare(root) {
      await putAll(root, beside);
      await publishTo(root, { files: v1 });
      await putAll(root, guests);
    },
    work: unpublished,
    rerun: unpublished,
    outcome: {},
    untouched: { ...beside, ...guests },
    endsWithoutState: true,
  },
  {
    action: 'unpublish next to another owner',
    async prepare(root) {
      await publishTo(root, { files: { 'theirs.txt': 'theirs' }, as: otherOwner });
      await publishTo(root, { files: v1 });
    },
    work: unpublished,
    rerun: unpublished,
    outcome: { 'theirs.txt': 'theirs' },
    untouched: {},
  },
  {
    action: 'unpublish, then publish',
    prepare: async (root) => {
      await publishTo(root, { files: v1, workflow: 'replacement' });
    },
    work: async (root) =>
      (await unpublished(root)) && succeeds(publishTo(root, { files: v2, workflow: 'replacement' })),
    rerun: (root) => succeeds(publishTo(root, { files: v2, workflow: 'replacement' })),
    outcome: v2,
    untouched: {},
  },
];
