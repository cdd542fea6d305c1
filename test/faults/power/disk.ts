import { chmodSync, linkSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Inode, NameChange, Recording, Step } from './record.ts';

/*
 * The disk after a power loss, by the weakest guarantees of a local file system with a journal:
 *
 * - fsync of a file makes its content, size and mode durable, fdatasync its content and size, but neither its
 *   name. fsync of a directory makes its entries durable, but neither its own name nor the content of its
 *   files. A sync covers the calls that returned before it began, once it has returned. ext4 with data=ordered
 *   guarantees more: the names of a synced file, and the order of renames.
 * - Each other change of a name may be present or missing, in any combination: a later one without an earlier
 *   one, and the name of a file without its content. A rename is never lost halfway. If only its new directory
 *   is synced, the old name of a file may reappear as well.
 * - An unsynced write may be missing, present, present as zeros up to its end, or torn: each sector of 512
 *   bytes separately. A write through O_DSYNC is durable when it returns.
 */

/** Which unsynced changes survive. */
export type Remains = 'nothing' | 'names' | 'zeros' | 'torn' | 'anything' | 'everything';

export interface Loss {
  /** The number of steps before the power loss. */
  cut: number;
  remains: Remains;
  random: () => number;
  /** Syncs that are ignored, as if the program did not call them. */
  isTakenOut?: (step: Step) => boolean;
}

const sectorBytes = 512;

/** A file, directory or link after the loss, by each of its names below the recorded directory. */
interface Left {
  inode: Inode;
  bytes: Buffer;
  mode: number;
}

/** Replaces the recorded directory by the state of the disk after the loss. */
export function layOutLoss(recording: Recording, loss: Loss): void {
  const { directory } = recording;
  rmSync(directory, { recursive: true, force: true });
  const places = new Map<Inode, string>();
  for (const [name, { inode, bytes, mode }] of diskAfter(recording, loss)) {
    const at = path.join(directory, name);
    const first = places.get(inode);
    if (first !== undefined) linkSync(first, at);
    else if (inode.kind === 'link') symlinkSync(inode.target, at);
    else if (inode.kind === 'file') writeFileSync(at, bytes);
    else mkdirSync(at);
    if (first === undefined && inode.kind !== 'link') chmodSync(at, mode);
    places.set(inode, at);
  }
}

/** Each name with its target, directories before their entries. */
export function diskAfter({ root, steps }: Recording, loss: Loss): Map<string, Left> {
  const before = steps.slice(0, loss.cut);
  const durable = durableSteps(before, loss);
  const entries = new Map<Inode, Map<string, Inode>>();
  const entriesOf = (directory: Inode): Map<string, Inode> => {
    const known = entries.get(directory) ?? new Map(directory.entries);
    entries.set(directory, known);
    return known;
  };
  const changes = new Map<Inode, { step: Step; isDurable: boolean }[]>();
  for (const step of before)
    if (step.kind === 'names')
      for (const { directory, name, inode } of survivors(step.names, durable, loss))
        if (inode === null) entriesOf(directory).delete(name);
        else entriesOf(directory).set(name, inode);
    else if (step.kind === 'data' || step.kind === 'size' || step.kind === 'mode') {
      const known = changes.get(step.inode) ?? [];
      changes.set(step.inode, [...known, { step, isDurable: durable.has(step) }]);
    }
  const left = new Map<string, Left>();
  const add = (inode: Inode, name: string): void => {
    left.set(name, { inode, ...contentOf(inode, changes.get(inode) ?? [], loss) });
    for (const [entry, child] of entriesOf(inode)) add(child, path.join(name, entry));
  };
  add(root, '');
  return left;
}

/** The steps, and for names the changes of single directories, that are certainly on the disk. */
function durableSteps(before: readonly Step[], { isTakenOut = () => false }: Loss): ReadonlySet<object> {
  const durable = new Set<object>();
  for (const sync of before) {
    if (sync.kind === 'data' && sync.isSynced) durable.add(sync);
    if (sync.kind !== 'sync' || isTakenOut(sync)) continue;
    for (const step of before.slice(0, sync.began))
      if (step.kind === 'names') {
        for (const change of step.names)
          if (sync.inode === null || sync.inode === change.directory) durable.add(change);
      } else if (step.kind === 'data' || step.kind === 'size' || step.kind === 'mode') {
        const isCovered = sync.inode === null || sync.inode === step.inode;
        if (isCovered && (step.kind !== 'mode' || sync.call !== 'fdatasync')) durable.add(step);
      }
  }
  return durable;
}

function chance(share: Record<Remains, number>, { remains, random }: Loss): boolean {
  return random() < share[remains];
}

const namesLeft = { nothing: 0, names: 1, zeros: 1, torn: 1, anything: 0.5, everything: 1 };

/** The name changes of one call that are on the disk. */
function survivors(
  names: readonly NameChange[],
  durable: ReadonlySet<object>,
  loss: Loss,
): readonly NameChange[] {
  const [added, removed] = names;
  const isThere = chance(namesLeft, loss);
  if (!names.some((change) => durable.has(change))) return isThere ? names : [];
  if (added === undefined || removed === undefined || durable.has(removed)) return names;
  const isBack = added.inode?.kind === 'file' && added.directory !== removed.directory && !isThere;
  return isBack ? [added] : names;
}

const dataLeft = { nothing: 0, names: 0, zeros: 0, torn: 0.5, anything: 0.5, everything: 1 };
const sizeLeft = { nothing: 0, names: 0, zeros: 1, torn: 1, anything: 0.5, everything: 1 };

function contentOf(
  inode: Inode,
  changes: readonly { step: Step; isDurable: boolean }[],
  loss: Loss,
): { bytes: Buffer; mode: number } {
  let bytes = Buffer.from(inode.bytes);
  let { mode } = inode;
  const resize = (size: number): void => {
    bytes = Buffer.concat([bytes.subarray(0, size), Buffer.alloc(Math.max(0, size - bytes.length))]);
  };
  for (const { step, isDurable } of changes) {
    const isLeft = isDurable || chance(sizeLeft, loss);
    if (step.kind === 'mode' && isLeft) ({ mode } = step);
    if (step.kind === 'size' && isLeft) resize(step.size);
    if (step.kind !== 'data') continue;
    const end = step.at + step.bytes.length;
    if (isLeft && bytes.length < end) resize(end);
    for (let at = step.at; at < end;) {
      const next = Math.min(end, (Math.floor(at / sectorBytes) + 1) * sectorBytes);
      const present = Math.min(next, bytes.length);
      if ((isDurable || chance(dataLeft, loss)) && present > at)
        step.bytes.copy(bytes, at, at - step.at, present - step.at);
      at = next;
    }
  }
  return { bytes, mode };
}
