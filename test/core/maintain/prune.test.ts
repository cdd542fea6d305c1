import t from 'tap';
import type { CatalogState } from '../../../src/core/catalog/catalog.ts';
import { lockText } from '../../../src/core/catalog/lease/lock-file.ts';
import { markDead, newHolder } from '../../../src/core/catalog/lease/this-holder.ts';
import type { CoreContext } from '../../../src/core/context.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { prune, type PruneReport } from '../../../src/core/maintain/prune.ts';
import { refuseClockAhead } from '../../../src/core/maintain/select-prunable.ts';
import { type Key, listedKey } from '../../../src/core/storage/key.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { delegate } from '../../../src/core/storage/wrappers/delegate.ts';
import {
  bundlePath,
  contextWith,
  owner,
  publishTo,
  put,
  snapshot,
  stateOf,
  testClock,
} from '../../faults/world.ts';
import { type MemoryOptions, memoryStorage } from '../../support/memory-storage.ts';
import { parseState } from '../../support/parse-state.ts';

/** The steps of prune: its announcement, and the state after a failure. */

const policy = { enabled: true, keepLatest: 1, olderThanMs: null };
const context = contextWith(testClock());
const state = '.publisher.json';

async function pruned(root: Storage, more: Partial<CoreContext> = {}): Promise<PruneReport> {
  return prune({ ...context, ...more }, root, { owner, policy, maxRemoved: null, dryRun: false });
}

/** Three outputs. `b` and `c` are removed. */
async function published(flavour: MemoryOptions['flavour'] = 'files'): Promise<Storage> {
  const root = memoryStorage({ flavour });
  await publishTo(root, { files: { a: 'a', b: 'b', c: 'c' } });
  return root;
}

const stateKeys = new Set([`${bundlePath}/${state}`, `${bundlePath}/.publisher.lock`]);

interface RecordedStorage {
  storage: Storage;
  /** Each state that was written, and each output that was removed, in order. */
  steps: (string | CatalogState)[];
}

/** A storage that reports writes and removals. `removing` may fail or act before a removal. */
function withChanges(
  root: Storage,
  removing: (key: Key) => Promise<void> = async () => undefined,
): RecordedStorage {
  const steps: RecordedStorage['steps'] = [];
  const remember = async (): Promise<void> => {
    const text = (await snapshot(root)).get(`${bundlePath}/${state}`);
    if (text !== undefined) steps.push(parseState(Buffer.from(text), ['local']));
  };
  const storage = delegate(root, {
    async write(key, body, options) {
      const written = await root.write(key, body, options);
      if (key.endsWith(`/${state}`)) await remember();
      return written;
    },
    async rename(moves) {
      await root.rename!(moves);
      if (moves.some(({ to }) => to.endsWith(`/${state}`))) await remember();
    },
    async remove(key, options) {
      if (!stateKeys.has(key)) {
        await removing(key);
        steps.push(key);
      }
      await root.remove(key, options);
    },
  });
  return { storage, steps };
}

for (const flavour of ['files', 'objects'] as const)
  t.test(
    `${flavour}: the intent lists removals before any file changes, and the commit the remaining files`,
    async (t) => {
      const { storage, steps } = withChanges(await published(flavour));
      t.match(await pruned(storage), {
        removed: [{ path: 'b' }, { path: 'c' }],
        errors: { length: 0 },
        refused: null,
      });
      t.equal(steps.length, 4);
      t.match(steps, [
        {
          kind: 'valid',
          catalog: {
            generation: 1,
            outputs: { length: 3 },
            pending: { action: 'prune', owner, outputs: { length: 0 }, removes: ['b', 'c'] },
          },
        },
        'bundle/b',
        'bundle/c',
        { kind: 'valid', catalog: { generation: 2, outputs: [{ path: 'a' }], pending: null } },
      ]);
    },
  );

t.test('writes nothing, takes no lease and sends no event when there is nothing to prune', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await publishTo(root, { files: { a: 'a' } });
  const still: Storage = {
    ...root,
    write: async () => Promise.reject(new Error('written')),
    rename: async () => Promise.reject(new Error('renamed')),
    obstacleTo: async () => Promise.reject(new Error('asked')),
  };
  const notify = (): void => void t.fail('an event was sent');
  t.same(await pruned(still, { notify }), {
    ...{ refused: null, removed: [], errors: [] },
    decisions: (await pruned(root)).decisions,
  });
});

t.test("reads the storage's clock only if a decision depends on age", async (t) => {
  const options = { owner, maxRemoved: null, dryRun: false };
  const byAge = (olderThanMs: number) => ({ enabled: true, keepLatest: null, olderThanMs });
  const root = await published();
  const behind = { ...root, facts: { ...root.facts, clockOffsetMs: -1_000_000 } };
  t.match(await prune(context, behind, { ...options, policy: byAge(1_000) }), {
    refused: null,
    removed: { length: 0 },
  });
  const later = { ...testClock(), now: () => new Date('2026-11-21T00:00:00Z') };
  t.match(await prune(contextWith(later), behind, { ...options, policy: byAge(1_000) }), {
    refused: { code: 'clock_ahead' },
  });
  t.match(await prune(contextWith(later), behind, { ...options, policy }), {
    refused: null,
    removed: { length: 2 },
  });
});

t.test('sweeps files of a dead publisher even if nothing is pruned', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await publishTo(root, { files: { a: 'a' } });
  const dead = newHolder();
  markDead(dead);
  await put(root, `${bundlePath}/.publisher.lock`, lockText(dead, 0));
  await pruned(root);
  t.same([...(await snapshot(root)).keys()], [`${bundlePath}/${state}`, `${bundlePath}/a`]);
});

t.test('settles an unfinished attempt, whether or not something is pruned', async (t) => {
  for (const [files, paths] of [
    [{ a: 'a' }, ['a']],
    [{ a: 'a', b: 'b' }, ['a']],
  ] as const) {
    const root = memoryStorage({ flavour: 'objects' });
    await publishTo(root, { files });
    await publishTo(dyingAt(root, 'bundle/z'), { files: { ...files, z: 'z' } });
    t.match(await stateOf(root), { catalog: { pending: { action: 'upsert_additive' } } });
    const swept: string[] = [];
    const { storage } = withChanges(root, async (key) => void swept.push(key));
    t.match(await pruned(storage), { errors: { length: 0 } });
    t.match(await stateOf(root), { catalog: { pending: null, outputs: paths.map((path) => ({ path })) } });
    t.ok(swept.includes('bundle/z'), 'unfinished files are swept');
  }
});

/** Fails like a process that is killed while it writes this key. */
function dyingAt(root: Storage, last: string): Storage {
  let isDead = false;
  const orDead = async <T>(work: () => Promise<T>): Promise<T> =>
    isDead ? Promise.reject(new Error('dead')) : work();
  return {
    ...root,
    write: (key, body, options) => {
      isDead ||= key === last;
      return orDead(() => root.write(key, body, options));
    },
    remove: (key, options) => orDead(() => root.remove(key, options)),
    removeTree: (directory) => orDead(() => root.removeTree(directory)),
  };
}

t.test('reports an unreadable catalog and prunes the others', async (t) => {
  const root = await published();
  await put(root, `broken/${state}`, 'nonsense');
  const occurrences: unknown[] = [];
  const notify = (occurrence: unknown): void => void occurrences.push(occurrence);
  t.match(await pruned(root, { notify }), {
    removed: [{ path: 'b' }, { path: 'c' }],
    errors: [{ destinationPath: 'broken', error: { code: 'state_conflict' } }],
  });
  t.match(occurrences, [{ type: 'outputs.pruned', data: { counts: { outputs_removed: 2, errors: 1 } } }]);
});

t.test('an output that was published again after the decision stays', async (t) => {
  const root = await published();
  let isDone = false;
  const again: Storage = {
    ...root,
    async *list(directory, options) {
      yield* root.list(directory, options);
    },
    async *read(key) {
      yield* root.read(key);
      if (isDone || !key.endsWith(state)) return;
      isDone = true;
      const later = { ...testClock(), now: () => new Date('2026-11-21T00:00:00Z') };
      await publishTo(root, { files: { a: 'a', b: 'B', c: 'c' } }, later);
    },
  };
  const { removed, errors } = await pruned(again);
  t.same([removed, errors], [[], []]);
  t.match(await stateOf(root), { catalog: { outputs: { length: 3 }, generation: 2 } });
});

t.test(
  'lists the remaining files in the state after a failure, and keeps unknown ones in the intent',
  async (t) => {
    const away = new WaybillError('storage_permanent', 'away');
    for (const isKnown of [true, false]) {
      const root = await published();
      const { storage } = withChanges(root, async (key) => {
        if (key === 'bundle/c') throw away;
      });
      const report = await pruned({
        ...storage,
        stat: async (key) => (isKnown || key !== 'bundle/c' ? storage.stat(key) : Promise.reject(away)),
      });
      t.match(report, {
        removed: [{ destinationPath: 'bundle', path: 'b' }],
        errors: [{ destinationPath: 'bundle', error: { message: 'away' } }],
      });
      const left = await stateOf(root);
      t.match(left, { catalog: { generation: 2, outputs: [{ path: 'a' }, { path: 'c' }] } });
      t.match(left, {
        catalog: { pending: isKnown ? null : { action: 'prune', removes: ['b', 'c'], holder: null } },
      });
      t.match(
        await pruned(root),
        { removed: [{ path: 'c' }], errors: { length: 0 } },
        'the next prune completes it',
      );
      t.match(await stateOf(root), { catalog: { outputs: [{ path: 'a' }], pending: null } });
    }
  },
);

t.test('if stopped between two files, removes no more, and the state has the remaining ones', async (t) => {
  const root = await published();
  const stop = new AbortController();
  const { storage } = withChanges(root, async () => stop.abort(new Error('SIGTERM')));
  t.match(await pruned(storage, { signal: stop.signal }), {
    removed: [{ path: 'b' }],
    errors: [{ error: { message: /SIGTERM|unexpected/ } }],
  });
  t.match(await stateOf(root), { catalog: { outputs: [{ path: 'a' }, { path: 'c' }], pending: null } });
});

t.test('if suspended past its lease between two files, removes no more, and the intent stays', async (t) => {
  const root = await published();
  const clock = testClock();
  let suspendedMs = 0;
  const late = { ...clock, monotonic: () => clock.monotonic() + suspendedMs };
  const { storage } = withChanges(root, async () => void (suspendedMs = 200_000));
  const report = await prune(contextWith(late), storage, { owner, policy, maxRemoved: null, dryRun: false });
  t.match(report, { removed: [{ path: 'b' }], errors: [{ error: { code: 'lease_lost' } }] });
  t.match(await stateOf(root), {
    catalog: { generation: 1, outputs: { length: 3 }, pending: { removes: ['b', 'c'] } },
  });
  t.ok((await snapshot(root)).has('bundle/c'));
});

t.test('reads the clock of the storage with a temporary file, and tolerates five minutes', async (t) => {
  const clock = { ...testClock(), now: () => new Date('2026-11-20T12:00:00Z') };
  const inner = memoryStorage({ flavour: 'files' });
  const written: string[] = [];
  const withTime = (modifiedAt: Date | null | undefined, offsetMs: number | null = null): Storage => ({
    ...inner,
    facts: { ...inner.facts, clockOffsetMs: offsetMs },
    async write(key, body, options) {
      written.push(`${options.mode} ${body.size} ${key.replace(/-[0-9a-f-]{36}\//, '-UUID/')}`);
      return inner.write(key, body, options);
    },
    stat: async () =>
      modifiedAt === undefined ? undefined : { type: 'file', size: 1, version: null, modifiedAt },
  });
  const asked = async (storage: Storage, mayWrite = true): Promise<string | null> =>
    refuseClockAhead(storage, clock, { mayWrite }).then(
      () => null,
      (error: unknown) => (error as WaybillError).message,
    );
  const behind = (ms: number): Date => new Date(clock.now().getTime() - ms);
  t.equal(await asked(withTime(behind(300_000))), null);
  t.match(
    await asked(withTime(behind(300_001))),
    /^the clock of this machine is .* ahead of the clock of memory/,
  );
  t.same(written, Array(2).fill('replace 1 .publisher-probe-UUID/clock'));
  t.equal((await snapshot(inner)).size, 0);
  t.equal(await asked(withTime(behind(-900_000))), null, 'if our clock is behind, outputs seem younger');
  t.equal(await asked(withTime(null)), null, 'a storage that reports no times');
  t.equal(await asked(withTime(undefined)), null, 'or lost the file');
  t.equal(await asked(withTime(behind(900_000)), false), null, 'not requested');
  t.equal(await asked(withTime(null, -300_000)), null, 'reported');
  t.match(await asked(withTime(null, -300_001), false), /ahead/);
  await t.rejects(
    refuseClockAhead(
      { ...withTime(null), write: async () => Promise.reject(new WaybillError('storage_denied', 'no')) },
      clock,
      { mayWrite: true },
    ),
    { code: 'storage_denied' },
  );
  t.equal(await inner.stat(listedKey('.publisher-probe')), undefined);
});
