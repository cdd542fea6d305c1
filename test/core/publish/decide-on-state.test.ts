import t from 'tap';
import { readState } from '../../../src/core/catalog/catalog-store.ts';
import {
  type DecideOn,
  decideOnLatest,
  needsSurvey,
  newDecider,
} from '../../../src/core/publish/decide-on-state.ts';
import { planOutputs } from '../../../src/core/publish/outputs.ts';
import { publishBundle } from '../../../src/core/publish/publish-bundle.ts';
import { parseBundlePath } from '../../../src/core/storage/key.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { subdirectory } from '../../../src/core/storage/wrappers/subdirectory.ts';
import { bundleOf, contextWith, destinationOf, owner, put, testClock } from '../../faults/world.ts';
import { memoryStorage } from '../../support/memory-storage.ts';

const destination = destinationOf('replacement');
const destinationPath = 'bundle';

async function publish(root: Storage, files: Record<string, string>): Promise<void> {
  const publication = { bundle: bundleOf(files), owner, destination, destinationPath };
  const request = { dryRun: false, force: false };
  t.equal((await publishBundle(contextWith(testClock()), root, publication, request)).error, null);
}

/** A destination with `a` and `b`, and the decision about a bundle with a new `a`, and `c/d`. */
async function layOut(): Promise<{ root: Storage; storage: Storage; decideOn: DecideOn }> {
  const root = memoryStorage({ flavour: 'files' });
  await publish(root, { a: 'old', b: 'b' });
  const storage = subdirectory(root, parseBundlePath(destinationPath));
  const bundle = bundleOf({ a: 'new', b: 'b', 'c/d': 'd' });
  const planned = await planOutputs(bundle, { owner, destination, destinationPath, recorded: [] });
  const { identity: source, created } = bundle;
  const decideOn = newDecider({ storage, root }, destination, {
    owner,
    bundle: { source, created },
    workflow: destination.workflow,
    force: false,
    destinationPath,
    planned,
  });
  return { root, storage, decideOn };
}

t.test('under the lease, a decision is reused if nothing has changed', async (t) => {
  const { storage, decideOn } = await layOut();
  const first = await decideOn(await readState(storage));
  t.equal(first.action, 'replace_catalog');
  t.equal(await decideOn(await readState(storage)), first);
});

t.test(
  'decides again if the destination changed between two checks, with or without a new state',
  async (t) => {
    const first = await layOut();
    await first.decideOn(await readState(first.storage));
    await put(first.storage, 'c/d', 'unmanaged');
    const refused = await first.decideOn(await readState(first.storage));
    t.match(refused, { action: 'fail_unmanaged' }, 'a file at the path of an output');
    await first.storage.remove('c/d' as never);
    t.match(
      await first.decideOn(await readState(first.storage)),
      { action: 'replace_catalog' },
      'it is gone',
    );

    const second = await layOut();
    await second.decideOn(await readState(second.storage));
    await put(second.storage, 'c', 'unmanaged');
    const blocked = await second.decideOn(await readState(second.storage)).catch((error: unknown) => error);
    t.notMatch(blocked, { action: 'replace_catalog' }, 'a file where a directory is needed');

    const third = await layOut();
    const before = await third.decideOn(await readState(third.storage));
    await publish(third.root, { a: 'new', b: 'b', e: 'e' });
    const after = await third.decideOn(await readState(third.storage));
    t.same([before.writes.map(({ path }) => path), before.removes], [['a', 'c/d'], []]);
    t.same(
      [after.writes.map(({ path }) => path), after.removes],
      [['c/d'], ['e']],
      'another publisher has published',
    );
  },
);

t.test('checks an output again after another publisher damaged and republished it', async (t) => {
  const { root, storage, decideOn } = await layOut();
  await storage.remove('b' as never);
  const before = await decideOn(await readState(storage));
  t.same(
    before.writes.map(({ path }) => path),
    ['a', 'b', 'c/d'],
  );
  await publish(root, { a: 'old', b: 'b', e: 'e' });
  const after = await decideOn(await readState(storage));
  t.same(
    after.writes.map(({ path }) => path),
    ['a', 'c/d'],
    'it exists again',
  );
});

t.test('force does not empty a whole bucket unless that is allowed', async (t) => {
  const root = memoryStorage({ flavour: 'objects' });
  await put(root, 'unmanaged', 'x');
  const bundle = bundleOf({ a: 'a' });
  const { identity: source, created } = bundle;
  const bucket = { bucket: 'b', endpoint: null, region: 'us-east-1', pathStyle: false, credentials: null };
  const decided = async (prefix: string, allowBucketRoot: boolean, path: string) => {
    const location = { backend: 's3' as const, ...bucket, prefix, allowBucketRoot };
    const planned = await planOutputs(bundle, { owner, destination, destinationPath: path, recorded: [] });
    const storage = subdirectory(root, parseBundlePath(path));
    const decideOn = newDecider(
      { storage, root },
      { ...destination, location },
      {
        ...{ owner, bundle: { source, created }, workflow: 'replacement', force: true },
        ...{ destinationPath: path, planned },
      },
    );
    return decideOn(await readState(storage));
  };
  await t.rejects(decided('', false, '.'), {
    code: 'bucket_root_protected',
    message: /everything in the bucket; nothing was deleted/,
    hint: /allow_bucket_root/,
  });
  t.match(await decided('', true, '.'), { clears: true });
  t.match(await decided('live/', false, '.'), { clears: true });
  t.match(await decided('', false, 'bundle'), { clears: false, action: 'publish_new' });
});

t.test('only refusals and clearing depend on unrecorded files', (t) => {
  const depends = (action: string, clears = false): boolean =>
    needsSurvey({ action, clears } as Parameters<typeof needsSurvey>[0]);
  for (const action of ['fail_unmanaged', 'fail_conflict']) t.ok(depends(action), action);
  for (const action of ['publish_new', 'upsert_additive', 'replace_catalog', 'skip_same'])
    t.notOk(depends(action), action);
  t.ok(depends('force_replace', true));
  t.end();
});

t.test('without the lease, a refusal is final if the state did not change during the check', async (t) => {
  /** Publishes something else during each of the first checks. Returns the states that were checked. */
  const looks = async (changes: number, action: string): Promise<number[]> => {
    const { root, storage } = await layOut();
    const generations: number[] = [];
    const plan = await decideOnLatest(storage, await readState(storage), async ({ state }) => {
      generations.push(state.kind === 'valid' ? state.catalog.generation : 0);
      if (generations.length <= changes) await publish(root, { a: `version ${generations.length}` });
      return { action, clears: false, look: generations.length } as unknown as Awaited<ReturnType<DecideOn>>;
    });
    t.match(plan, { look: generations.length }, 'the last one counts');
    return generations;
  };
  t.same(await looks(0, 'fail_conflict'), [1]);
  t.same(await looks(2, 'fail_conflict'), [1, 2, 3], 'each with the current state');
  t.same(await looks(20, 'fail_conflict'), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 'but not forever');
  t.same(await looks(2, 'publish_new'), [1], 'the recorded state alone decides');
});

t.test('limits: none, not reached, exceeded, lifted', async (t) => {
  const { storage, root } = await layOut();
  const bundle = bundleOf({ a: 'new' });
  const { identity: source, created } = bundle;
  const decided = async (
    maxRemoved: { count: number } | null,
    files: Record<string, string>,
    allowRemovals: boolean,
  ): Promise<string> => {
    const planned = await planOutputs(bundleOf(files), {
      owner,
      destination,
      destinationPath,
      recorded: [],
    });
    const seen: unknown[] = [];
    const decideOn = newDecider(
      { storage, root },
      { ...destination, limits: { maxRemoved } },
      {
        ...{ owner, bundle: { source, created }, workflow: 'replacement', force: false },
        ...{ destinationPath, planned },
      },
      { allowRemovals, onDecided: (one) => void seen.push(one) },
    );
    const stored = await readState(storage);
    return decideOn(stored).then(
      (plan) => {
        t.same(seen, [{ plan, planned, stored }], 'callers get it');
        return plan.action;
      },
      (error: unknown) => {
        t.same(seen, []);
        return (error as { code: string }).code;
      },
    );
  };
  t.equal(await decided(null, { a: 'new' }, false), 'replace_catalog');
  t.equal(await decided({ count: 0 }, { a: 'new' }, false), 'too_many_removals');
  t.equal(await decided({ count: 0 }, { a: 'new' }, true), 'replace_catalog');
  t.equal(await decided({ count: 1 }, { a: 'new' }, false), 'replace_catalog');
  t.equal(await decided({ count: 0 }, { a: 'new', b: 'b' }, false), 'replace_catalog', 'it removes nothing');
});
