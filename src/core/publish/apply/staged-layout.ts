import { inParallel } from '../../lib/parallel.ts';
import { ancestorsOf } from '../../lib/paths.ts';
import { type Key, keyOf, listedKey, parentOf } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import type { PlannedOutput } from '../plan.ts';

/*
 * The layout of an attempt's staging directory, and the moves that put outputs in place. A directory that
 * does not exist at the destination yet is staged as a whole and moved with one rename. Readers then see all
 * of its files at the same time, and many small directories are faster than a single large one.
 */

type Output = Pick<PlannedOutput, 'path' | 'generated'>;

/** One move from staging into place. `from` is relative to the staging directory of the attempt. */
export interface StagedMove {
  from: string;
  to: Key;
  isDirectory: boolean;
}

export interface StagedLayout<T extends Output> {
  /** The groups in which outputs become visible; see `inVisibleOrder`. */
  groups: readonly (readonly T[])[];
  /** The staged name of the output with this index. */
  stagedName(index: number): string;
  /** The moves for these outputs, which are a group or a part of one. Each directory is moved only once. */
  movesOf(outputs: readonly T[]): Iterable<StagedMove>;
}

/**
 * Lays out the staging of these outputs. `missing` has the topmost directories that do not exist at the
 * destination. A directory at or below one of these is moved as a whole if all of its outputs become visible
 * in the same group.
 */
export function layOutStaging<T extends Output>(
  outputs: readonly T[],
  missing: ReadonlySet<string>,
): StagedLayout<T> {
  const groups = inVisibleOrder(outputs);
  const wholeAt = wholeDirectories(groups, missing);
  const indices = new Map<T, number>();
  /** By output index: the number of the directory that it moves with; -1 if it moves alone. */
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

/** Returns a function that maps a path to the directory that it moves with, or null if it moves alone. */
function wholeDirectories(
  groups: readonly (readonly Output[])[],
  missing: ReadonlySet<string>,
): (path: string) => string | null {
  if (missing.size === 0) return () => null;
  /** By directory: the group of the outputs below it; null if they are in several groups. */
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

/** The number of concurrent `stat` calls. */
const maxConcurrentStats = 16;

/**
 * The topmost directories of these outputs that do not exist. Checks level by level, and nothing below a
 * missing directory. Throws the storage's error.
 */
export async function missingDirectories(
  storage: Pick<Storage, 'stat'>,
  outputs: readonly Output[],
): Promise<Set<string>> {
  const missing = new Set<string>();
  const parents = new Set<string>();
  for (const { path } of outputs) parents.add(parentOf(keyOf(path)));
  let left = [...parents].map((parent) => ancestorsOf(`${parent}/`));
  while (left.length > 0) {
    const level = new Set<string>();
    const deeper = left.flatMap((ancestors) => {
      const { value } = ancestors.next();
      if (value === undefined || value === '') return [];
      level.add(value);
      return [{ ancestors, directory: value }];
    });
    await inParallel(level, maxConcurrentStats, async (directory) => {
      if ((await storage.stat(listedKey(directory))) === undefined) missing.add(directory);
    });
    left = deeper.flatMap(({ ancestors, directory }) => (missing.has(directory) ? [] : [ancestors]));
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
/** Generated outputs that list the others. */
const listings = new Set(['index', 'checksums']);
/** Feeds and site maps, which are often served as plain XML or JSON. */
const feedName = /(?:^|\/)(?:feed|rss|atom|index|sitemap)[^/]*\.(?:xml|json)$/i;

/**
 * Groups the outputs in the order in which they become visible: first assets (style sheets, images, data),
 * then the pages, feeds and listings that refer to them. In between, readers get the old page or a complete
 * new one. Each output is in one group, and no group is empty.
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
