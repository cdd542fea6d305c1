import type { Test } from 'tap';

/**
 * The steps of the protocol that a publication goes through, found in the log of its storage operations
 * (`with-faults.ts`). Walks sample by step.
 */

/** `idle`: no intent is recorded; `staging`: no output has changed yet; `applying`: outputs are changing. */
type Phase = 'idle' | 'staging' | 'applying';

const kindsOfKey: readonly [RegExp, string][] = [
  [/\.publisher\.lock$/, 'lease'],
  [/\.publisher\.releases\.json$/, 'ledger'],
  [/\.publisher\.json$/, 'state'],
  [/\.publisher\.tmp\/[^/]+\/state-\d+$/, 'staged state'],
  [/\.publisher\.tmp\/[^/]+\/./, 'staged output'],
  [/\.publisher\.tmp/, 'staging'],
  [/(^|\/)(current|preview)(\.json)?$/, 'pointer'],
];
const changes: ReadonlySet<string> = new Set(['write', 'rename', 'remove', 'replaceLink']);

/** The step of each operation, e.g. `staging: read lease`, which is a fence, or `applying: rename state`. */
export function stepsOf(operations: readonly string[]): string[] {
  let phase: Phase = 'idle';
  return operations.map((operation) => {
    const [verb = '', ...keys] = operation.split(' ');
    const key = (verb === 'replaceLink' ? keys[0] : keys.at(-1)) ?? '';
    const kind = kindsOfKey.find(([pattern]) => pattern.test(key))?.[1] ?? 'output';
    if (phase === 'staging' && changesOutputs(verb, kind)) phase = 'applying';
    const step = keys.length === 0 ? `${phase}: ${verb}` : `${phase}: ${verb} ${kind}`;
    if (changes.has(verb) && kind === 'state') phase = phase === 'idle' ? 'staging' : 'idle';
    return step;
  });
}

/** Without hard links, a storage moves an output into staging and keeps it there before it is replaced. */
function changesOutputs(verb: string, kind: string): boolean {
  const isOutput = kind === 'output' || kind === 'pointer';
  return changes.has(verb) && (isOutput || (verb === 'rename' && kind === 'staged output'));
}

/** The name of an operation that is the same in every run, without the random id of the attempt. */
export function withoutIds(operation: string): string {
  return operation.replaceAll(/[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}/g, '*');
}

/** The steps of a replacement on storages with rename. A read of the lease is a fence. */
export const stepsOfFiles: readonly string[] = [
  'idle: write lease',
  'idle: read lease',
  'idle: rename state',
  'staging: write staged output',
  'staging: keep output',
  'staging: read lease',
  'applying: rename output',
  'applying: remove output',
  'applying: write staged state',
  'applying: read lease',
  'applying: rename state',
  'idle: sync',
  'idle: removeTree staging',
  'idle: remove lease',
];

/** The steps of a replacement on an object store. A read of the state is a fence. */
export const stepsOfObjects: readonly string[] = [
  'idle: read state',
  'idle: write state',
  'staging: keep output',
  'staging: read state',
  'applying: write output',
  'applying: read state',
  'applying: remove output',
  'applying: write state',
  'idle: removeTree staging',
];

/**
 * Fails if no stratum of a step begins with `prefix`. Then the walk does not reach the step, or the protocol
 * lacks it.
 */
export function hasSteps(
  t: Test,
  strata: ReadonlySet<string>,
  prefix: string,
  steps: readonly string[],
): void {
  const ofPrefix = [...strata].filter((stratum) => stratum.startsWith(`${prefix}: `));
  const missing = steps.filter((step) => !ofPrefix.some((stratum) => stratum.includes(step)));
  t.same(missing, [], `${prefix}: ${everyStep}`);
}

/**
 * Names the assertion of `hasSteps`, so that `scripts/broken-steps.ts` can distinguish it from a failed case.
 */
export const everyStep = 'the walk has every step of the protocol';
