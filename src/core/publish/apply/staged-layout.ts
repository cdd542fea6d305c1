import { ancestorsOf } from '../../paths.ts';
import { inParallel } from '../../parallel.ts';
import { keyOf, listedKey, parentOf, type Key } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import type { PlannedOutput } from '../plan.ts';
import { inVisibleOrder } from './visible-order.ts';

/*
 * Where outputs wait in the staging directory of an attempt, and by which moves they get in place. A
 * directory that is not at the destination yet is staged as it will be and moved whole: one rename instead of
 * one for each file, which readers see at once, and file systems are quicker with many small directories than
 * with one that holds every file.
 */

type Output = Pick<PlannedOutput, 'path' | 'generated'>;

/** One move from staging into place; both are keys, `from` below the staging directory of the attempt. */
export interface StagedMove {
  from: string;
  to: Key;
  isDirectory: boolean;
}

export interface StagedLayout<T extends Output> {
  /** The groups in which outputs become visible; see `inVisibleOrder`. */
  groups: readonly (readonly T[])[];
  /** Where the output with this index among all is staged. */
  stagedName(index: number): string;
  /** What puts these outputs in place, a group or a part of one; a directory once in the life of a layout. */
  movesOf(outputs: readonly T[]): Iterable<StagedMove>;
}

/**
 * Lays out the staging of these outputs. `missing` are the uppermost directories that are not at the
 * destination. Of those, and of the directories in them, the uppermost whose outputs become visible in one
 * group are moved whole. Pure.
 */
export function layOutStaging<T extends Output>(
  outputs: readonly T[],
  missing: ReadonlySet<string>,
): StagedLayout<T> {
  const groups = inVisibleOrder(outputs);
  const wholeAt = wholeDirectories(groups, missing);
  const indices = new Map<T, number>();
  /** By index of the output: the number of the directory that it is moved with; -1 if it is moved alone. */
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

/** Returns what tells the directory that a path is moved with; null if it is moved alone. */
function wholeDirectories(
  groups: readonly (readonly Output[])[],
  missing: ReadonlySet<string>,
): (path: string) => string | null {
  if (missing.size === 0) return () => null;
  /** By directory: the group of all that is below it; null if there are several. */
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

/** Directories looked at at once. */
const concurrentLooks = 16;

/**
 * The uppermost directories of these outputs at which nothing is, level by level: what is below one of them
 * is not looked at. Throws the storage's own error.
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
    await inParallel(level, concurrentLooks, async (directory) => {
      if ((await storage.stat(listedKey(directory))) === undefined) missing.add(directory);
    });
    left = deeper.flatMap(({ ancestors, directory }) => (missing.has(directory) ? [] : [ancestors]));
  }
  return missing;
}
