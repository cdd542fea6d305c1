import { WaybillError } from '../../src/core/lib/errors.ts';
import type { Body, Storage, WriteOptions, Written } from '../../src/core/storage/storage.ts';
import { delegate } from '../../src/core/storage/wrappers/delegate.ts';

/**
 * before: the call fails and was not applied. after: it was applied, and its response was lost. partial:
 * half the bytes were accepted, then it failed. hang: no response until the caller's deadline, which drivers
 * turn into a transient failure. crash: this call and all later ones fail, as in a dead process, so that
 * there is no cleanup.
 */
export const faultKinds = ['before', 'after', 'partial', 'hang', 'crash'] as const;
export type FaultKind = (typeof faultKinds)[number];

/**
 * The kinds that differ for a logged operation, except a hang. If an operation changes nothing, a lost
 * response has the effect of a failed call. Only operations with a body can be applied partially.
 */
export function distinctKinds(operation: string): readonly FaultKind[] {
  if (/^(stat|list|read|readLink|obstacleTo|sync)\b/.test(operation)) return ['before', 'crash'];
  return operation.startsWith('write ')
    ? ['before', 'after', 'partial', 'crash']
    : ['before', 'after', 'crash'];
}

export interface Fault {
  kind: FaultKind;
  /** The number of the operation, counted from 1. */
  at: number;
  /** The kind of failure. A permanent one is known not to have been applied and is not retried. */
  code: 'storage_transient' | 'storage_permanent';
}

export interface FaultLog {
  /** Every operation in the order it was called, e.g. `write .publisher.json`. */
  operations: string[];
  fired: boolean;
  mutations: number;
}

export class Crash extends Error {}

/** A storage that fails once, as scheduled. A rename of several files counts as one operation per file. */
export function withFaults(storage: Storage, fault: Fault | null, log: FaultLog): Storage {
  let dead = false;

  async function step<T>(
    name: string,
    mutates: boolean,
    work: () => Promise<T>,
    half?: () => Promise<unknown>,
  ): Promise<T> {
    if (dead) throw new Crash('the process is dead');
    log.operations.push(name);
    if (log.operations.length !== fault?.at) {
      if (mutates) log.mutations += 1;
      return work();
    }
    log.fired = true;
    const failure = new WaybillError(fault.code, `injected: ${fault.kind} at ${fault.at}, ${name}`);
    switch (fault.kind) {
      case 'before':
      case 'hang':
        throw failure;
      case 'after':
        await work();
        if (mutates) log.mutations += 1;
        throw failure;
      case 'partial':
        await (half ?? work)();
        throw failure;
      case 'crash':
        dead = true;
        throw new Crash(failure.message);
    }
  }

  return delegate(storage, {
    stat: (key) => step(`stat ${key}`, false, () => storage.stat(key)),
    async *list(directory, how) {
      await step(`list ${directory}`, false, async () => undefined);
      yield* storage.list(directory, how);
    },
    async *read(key) {
      await step(`read ${key}`, false, async () => undefined);
      yield* storage.read(key);
    },
    write(key, body, how): Promise<Written> {
      const half = async (): Promise<unknown> =>
        storage.write(key, halfOf(body), withoutDigest(how)).catch(() => undefined);
      return step(`write ${key}`, true, () => storage.write(key, body, how), half);
    },
    async rename(moves) {
      for (const move of moves)
        await step(`rename ${move.from} ${move.to}`, true, () => storage.rename!([move]));
    },
    obstacleTo: (change) => step('obstacleTo', false, () => storage.obstacleTo(change)),
    backUp: (key, aside) => step(`keep ${key}`, true, () => storage.backUp!(key, aside)),
    restore: (kept) => step(`restore ${kept.key}`, true, () => storage.restore!(kept)),
    duplicate: (from, to) => step(`duplicate ${from} ${to}`, true, () => storage.duplicate!(from, to)),
    readLink: (key) => step(`readLink ${key}`, false, () => storage.readLink!(key)),
    replaceLink: (key, target) =>
      step(`replaceLink ${key} ${target}`, true, () => storage.replaceLink!(key, target)),
    sync: () => step('sync', false, () => storage.sync!()),
    remove: (key, options) => step(`remove ${key}`, true, () => storage.remove(key, options)),
    removeTree: (directory) => step(`removeTree ${directory}`, true, () => storage.removeTree(directory)),
    close: () => storage.close(),
  });
}

/** Ends early, with a failure, like a broken connection. */
function halfOf(body: Body): Body {
  return {
    size: body.size,
    async *open() {
      for await (const chunk of body.open()) {
        yield chunk.subarray(0, Math.floor(chunk.length / 2));
        throw new Error('the connection broke');
      }
    },
  };
}

function withoutDigest({ mode, headers }: WriteOptions): WriteOptions {
  return headers === undefined ? { mode } : { mode, headers };
}
