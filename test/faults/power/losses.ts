import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Test } from 'tap';
import { type Case, generator, sampleOf, walkCases } from '../../support/sampling.ts';
import { diskAfter, layOutLoss, type Loss, type Remains } from './disk.ts';
import { type Inode, type Recording, snapshot, type Step } from './record.ts';

/** A sequence of changes that makes promises, and the checks after a power loss at any of them. */
export interface Protocol {
  name: string;
  /** Runs it once. The trace is written to `trace`. */
  record: (trace: string) => Promise<Recording>;
  /** Recovers in `root`, and returns the broken promises among those sent before the loss. */
  wrong: (root: string, promises: readonly string[]) => Promise<readonly string[]>;
  remains: readonly Remains[];
  /** The text of a promise. */
  promise: RegExp;
  /** The syncs, by `syncName`, that a promise depends on. */
  needs: RegExp;
}

export const allRemains: readonly Remains[] = ['nothing', 'names', 'zeros', 'torn', 'anything', 'everything'];

/** Simulates a power loss at one point, recovers, and returns the errors. */
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

/**
 * Records the protocols, then simulates a power loss after any step of them. At the end, omits each kind of
 * sync in turn, and requires that a promise is then broken. `sampled` are the protocols and losses of a
 * sample.
 */
export function provePowerLoss(
  t: Test,
  protocols: readonly Protocol[],
  sampled: { protocols: number; losses: number },
): void {
  const scratch = mkdtempSync(path.join(tmpdir(), 'waybill-power-'));
  t.teardown(() => rmSync(scratch, { recursive: true, force: true }));
  const recorded: Recorded[] = [];
  for (const protocol of sampleOf(protocols, sampled.protocols, 'protocols that lose the power'))
    t.test(`${protocol.name} is recorded completely`, async (t) => {
      const recording = await protocol.record(path.join(scratch, 'trace'));
      t.same(unrecorded(recording), []);
      recorded.push({ protocol, recording });
    });
  t.test('a power loss breaks no promise', async (t) => {
    await walkCases(t, sampleOf(recorded.flatMap(casesOf), sampled.losses, 'power losses'), {
      what: 'power losses',
    });
  });
  t.test('without a sync, a power loss breaks a promise', async (t) => {
    for (const one of recorded) await requireSyncs(t, one);
  });
}

interface Recorded {
  protocol: Protocol;
  recording: Recording;
}

function casesOf({ protocol, recording }: Recorded): Case[] {
  const all = recording.steps.length;
  return Array.from({ length: all + 1 }, (_, cut) =>
    protocol.remains.map((remains) => ({
      name: `${protocol.name}, after step ${cut} of ${all}, ${remains}`,
      stratum: `${protocol.name}: ${remains}`,
      run: () => wrongAfter(protocol, recording, { cut, remains }),
    })),
  ).flat();
}

async function requireSyncs(t: Test, { protocol, recording }: Recorded): Promise<void> {
  const names = new Set(recording.steps.flatMap((step) => syncName(step) ?? []));
  const needed = [...names].filter((name) => protocol.needs.test(name));
  t.not(needed.length, 0, `${protocol.name} has syncs`);
  for (const name of sampleOf(needed, 1, `syncs of ${protocol.name}`)) {
    const found = await lossWithout(protocol, recording, (step) => syncName(step) === name);
    t.ok(found !== null, `${protocol.name} without ${name}`);
    if (found !== null) t.comment(`without ${name}: ${found.slice(0, 200)}`);
  }
}

/**
 * Finds a loss that breaks a promise if these syncs are missing. Returns null if there is none. Most syncs
 * are needed right after a promise. Others are needed only while the command runs: a lock, for example, is
 * removed before the command reports success.
 */
async function lossWithout(
  protocol: Protocol,
  recording: Recording,
  isTakenOut: (step: Step) => boolean,
): Promise<string | null> {
  const { steps } = recording;
  const isPromise = (step: Step): boolean => step.kind === 'sent' && protocol.promise.test(step.text);
  const cuts = steps.map((_, at) => at + 1).toReversed();
  const promised = steps.flatMap((step, at) => (isPromise(step) ? [at + 1] : [])).toReversed();
  for (const tried of [promised, cuts])
    for (const remains of ['nothing', 'names', 'zeros', 'anything'] as const)
      for (const cut of tried) {
        const wrong = await wrongAfter(protocol, recording, { cut, remains, isTakenOut });
        if (wrong.length > 0) return `after step ${cut} of ${steps.length}, ${remains}: ${wrong.join('; ')}`;
      }
  return null;
}

/** The kind of file that a step syncs, without random parts of names and numbers. */
export function syncName(step: Step): string | null {
  if (step.kind !== 'sync') return null;
  const name = (step.inode?.name ?? 'everything')
    .replaceAll(/[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}/g, '*')
    .replaceAll(/upload-[\da-z]{16}/g, 'upload-*')
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
    // LMDB writes its lock through memory. It has no meaning after a power loss.
    if (name.endsWith('.mdb-lock')) return;
    const isSame = inode?.kind === found.kind && inode.target === found.target && mode === found.mode;
    if (!isSame || bytes?.equals(found.bytes) !== true) differing.push(name);
    for (const [entry, child] of found.entries) compare(child, path.join(name, entry));
  };
  compare(snapshot(directory), '');
  return [...differing, ...replayed.keys()];
}
