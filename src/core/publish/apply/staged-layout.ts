import { inParallel } from '../../lib/parallel.ts';
import { ancestorsOf } from '../../lib/paths.ts';
import { type Key, keyOf, listedKey, parentOf } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import type { PlannedOutput } from '../plan.ts';

/*
 * Arranges the files in an attempt's staging directory, and works out the renames that put them in place. A
 * directory that does not exist at the destination yet is staged as a whole and moved with a single rename,
 * so readers see all of its files at the same time. This also makes staging faster, since many small
 * directories are faster than one large one.
 */

type StagedOutput = Pick<PlannedOutput, 'path' | 'generated'>;

/**
 * A rename that moves a file or directory out of staging. `from` is relative to the attempt's staging
 * directory.
 */
export interface StagedMove {
  from: string;
  to: Key;
  isDirectory: boolean;
}

export interface StagedLayout<T extends StagedOutput> {
  /** The outputs in the order they become visible, group by group; see `inVisibleOrder`. */
  groups: readonly (readonly T[])[];
  stagedName(index: number): string;
  /**
   * Returns the moves that put these outputs in place. All of them must be in the same group. No directory is
   * moved twice.
   */
  movesOf(outputs: readonly T[]): Iterable<StagedMove>;
}

/**
 * Decides where each output goes in the staging directory. `missing` contains the topmost directories that do
 * not exist at the destination. Such a directory, or one below it, is moved as a whole if all of its outputs
 * are in the same group.
 */
export function layOutStaging<T extends StagedOutput>(
  outputs: readonly T[],
  missing: ReadonlySet<string>,
): StagedLayout<T> {
  const groups = inVisibleOrder(outputs);
  const wholeAt = wholeDirectories(groups, missing);
  const indices = new Map<T, number>();
  /** For each output, the number of the directory that it is moved with, or -1 if it is moved on its own. */
  const treeOf = new Int32Array(outputs.length);
  const trees: string[] = [];
  const treeAt = new Map<string, number>();
  for (const [index, output] of outputs.entries()) {
    indices.set(output, index);
    const directory = wholeAt(output.path);
    treeOf[index] = directory === null ? -1 : numberOf(directory);
  }
  const moved = new Set<number>();

  return {
    groups,
    stagedName,
    *movesOf(some) {
      for (const output of some) {
        const index = indices.get(output) as number;
        const tree = treeOf[index] as number;
        if (tree === -1) yield { from: stagedName(index), to: keyOf(output.path), isDirectory: false };
        else if (!moved.has(tree)) {
          moved.add(tree);
          yield { from: `tree-${tree}`, to: listedKey(trees[tree] as string), isDirectory: true };
        }
      }
    },
  };

  function numberOf(directory: string): number {
    let tree = treeAt.get(directory);
    if (tree === undefined) {
      tree = trees.push(directory) - 1;
      treeAt.set(directory, tree);
    }
    return tree;
  }

  function stagedName(index: number): string {
    const tree = treeOf[index] as number;
    if (tree === -1) return `output-${index}`;
    return `tree-${tree}/${(outputs[index] as T).path.slice((trees[tree] as string).length + 1)}`;
  }
}

/** Returns a function that looks up the directory a path is moved with, or null if it is moved on its own. */
function wholeDirectories(
  groups: readonly (readonly StagedOutput[])[],
  missing: ReadonlySet<string>,
): (path: string) => string | null {
  if (missing.size === 0) return () => null;
  /** For each directory, the group that all of its outputs belong to, or null if there is more than one. */
  const groupOf = new Map<string, number | null>();
  for (const [group, outputs] of groups.entries())
    for (const { path } of outputs)
      for (const directory of ancestorsOf(path)) {
        const known = groupOf.get(directory);
        if (known === undefined) groupOf.set(directory, group);
        else if (known !== group) groupOf.set(directory, null);
      }
  return (path) => {
    let isMissing = false;
    for (const directory of ancestorsOf(path)) {
      isMissing ||= missing.has(directory);
      if (isMissing && groupOf.get(directory) !== null) return directory;
    }
    return null;
  };
}

/** How many `stat` calls to run at a time. */
const maxConcurrentStats = 16;

/**
 * Returns the topmost parent directories of these outputs that do not exist yet. Goes through the tree level
 * by level, so that nothing below a missing directory is checked. Throws the storage's error.
 */
export async function missingDirectories(
  storage: Pick<Storage, 'stat'>,
  outputs: readonly StagedOutput[],
): Promise<Set<string>> {
  const missing = new Set<string>();
  const parents = new Set<string>();
  for (const { path } of outputs) parents.add(parentOf(keyOf(path)));
  let unchecked = [...parents].map((parent) => ancestorsOf(`${parent}/`));
  while (unchecked.length > 0) {
    const level = new Set<string>();
    const deeper = unchecked.flatMap((ancestors) => {
      const { value } = ancestors.next();
      if (value === undefined || value === '') return [];
      level.add(value);
      return [{ ancestors, directory: value }];
    });
    await inParallel(level, maxConcurrentStats, async (directory) => {
      if ((await storage.stat(listedKey(directory))) === undefined) missing.add(directory);
    });
    unchecked = deeper.flatMap(({ ancestors, directory }) => (missing.has(directory) ? [] : [ancestors]));
  }
  return missing;
}

const pageTypes = new Set([
  'text/html',
  'application/xhtml+xml',
  'application/rss+xml',
  'application/atom+xml',
  'application/feed+json',
]);
/** Generated outputs that contain a list of the other outputs. */
const listings = new Set(['index', 'checksums']);
/** Matches feeds and site maps. Servers often send these as plain XML or JSON, so the type is no help. */
const feedName = /(?:^|\/)(?:feed|rss|atom|index|sitemap)[^/]*\.(?:xml|json)$/i;

/**
 * Groups the outputs in the order they become visible: first assets such as style sheets, images and data,
 * then the pages, feeds and listings that refer to them. A reader therefore sees either the old page or a
 * complete new one. Each output is in exactly one group, and no group is empty.
 */
export function inVisibleOrder<T extends Pick<PlannedOutput, 'path' | 'generated'>>(
  outputs: readonly T[],
): T[][] {
  const groups: [T[], T[]] = [[], []];
  for (const output of outputs) groups[refersToOthers(output) ? 1 : 0].push(output);
  return groups.filter((group) => group.length > 0);
}

function refersToOthers({ path, generated }: Pick<PlannedOutput, 'path' | 'generated'>): boolean {
  const [type = ''] = (generated.contentType ?? '').split(';');
  return (
    pageTypes.has(type.trim().toLowerCase()) ||
    listings.has(generated.generator?.name ?? '') ||
    feedName.test(path)
  );
}
