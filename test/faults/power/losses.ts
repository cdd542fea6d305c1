import path from 'node:path';
import { generator } from '../../support/sampling.ts';
import { diskAfter, layOutLoss, type Loss, type Remains } from './disk.ts';
import { type Inode, type Recording, snapshot, type Step } from './record.ts';

/** A sequence of changes that makes promises, and what holds after a power loss at any of them. */
export interface Protocol {
  name: string;
  /** Runs it once. The trace is written to `trace`. */
  record: (trace: string) => Promise<Recording>;
  /** Recovers in `root`, and returns the broken ones of the promises that were sent before the loss. */
  wrong: (root: string, promises: readonly string[]) => Promise<readonly string[]>;
  /** Syncs, by the end of `syncName`, without which no promise is broken, and the reason. */
  spare: readonly [form: RegExp, reason: string][];
}

export const allRemains: readonly Remains[] = ['nothing', 'names', 'zeros', 'torn', 'anything', 'everything'];

/** Loses the power at one point, recovers, and returns what is wrong. */
export async function wrongAfter(
  { wrong }: Protocol,
  recording: Recording,
  loss: Omit<Loss, 'random'>,
): Promise<readonly string[]> {
  layOutLoss(recording, { ...loss, random: generator(`${loss.cut} ${loss.remains}`) });
  const before = recording.steps.slice(0, loss.cut);
  const promises = before.flatMap((step) => (step.kind === 'sent' ? [step.text] : []));
  return wrong(recording.directory, promises).catch((error: unknown) => [String(error)]);
}

/** A loss that breaks a promise because these syncs are missing; null if there is none. */
export async function lossWithout(
  protocol: Protocol,
  recording: Recording,
  isTakenOut: (step: Step) => boolean,
): Promise<string | null> {
  const all = recording.steps.length;
  for (const remains of ['nothing', 'names', 'zeros', 'anything'] as const)
    for (let cut = all; cut > 0; cut -= 1) {
      const wrong = await wrongAfter(protocol, recording, { cut, remains, isTakenOut });
      if (wrong.length > 0) return `after step ${cut} of ${all}, ${remains}: ${wrong.join('; ')}`;
    }
  return null;
}

/** What a step syncs, by the kind of file: random parts of names and numbers do not count. */
export function syncName(step: Step): string | null {
  if (step.kind !== 'sync') return null;
  const name = (step.inode?.name ?? 'everything')
    .replaceAll(/[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}/g, '*')
    .replaceAll(/\d{8}T\d{6}Z-[\da-f]{8}/g, '*')
    .replaceAll(/\d+/g, 'N');
  return `${step.call} ${name === '' ? '.' : name}`;
}

/** The names whose content differs between the directory and the replay of its whole recording. */
export function unrecorded(recording: Recording): string[] {
  const { directory, steps } = recording;
  const replayed = diskAfter(recording, { cut: steps.length, remains: 'everything', random: () => 0 });
  const differing: string[] = [];
  const compare = (found: Inode, name: string): void => {
    const { inode, bytes, mode } = replayed.get(name) ?? {};
    replayed.delete(name);
    const isSame = inode?.kind === found.kind && inode.target === found.target && mode === found.mode;
    if (!isSame || bytes?.equals(found.bytes) !== true) differing.push(name);
    for (const [entry, child] of found.entries) compare(child, path.join(name, entry));
  };
  compare(snapshot(directory), '');
  return [...differing, ...replayed.keys()];
}
