import fc from 'fast-check';
import t from 'tap';
import type { BundleFile } from '../../src/core/bundle/source-bundle.ts';
import type { Owner } from '../../src/core/identity.ts';
import { publishBundle } from '../../src/core/publish/publish-bundle.ts';
import type { ActionResult } from '../../src/core/publish/result.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import { howMany } from '../support/sampling.ts';
import { scheduled } from './interleaved.ts';
import {
  bundleOf,
  bundlePath,
  contextWith,
  destinationOf,
  litter,
  newWorld,
  otherOwner,
  owner,
  publishTo,
  put,
  snapshot,
  testClock,
  untruths,
  type Files,
} from './world.ts';

/**
 * Two owners whose first publications meet at one bundle path. Digests that the manifest does not declare are
 * computed between the first look at the state and the decision, which can take minutes.
 */

const kinds = ['memory files', 'memory objects', 'local'] as const;
const rounds = howMany(200, 40);

/** Publishes files whose digests have to be computed; `whileHashing` runs before each file is hashed. */
async function publishHashing(
  storage: Storage,
  files: Files,
  whileHashing: () => Promise<unknown>,
  options: { as?: Owner; dryRun?: boolean; force?: boolean } = {},
): Promise<ActionResult> {
  const bundle = bundleOf(files);
  const undigested = bundle.files.map((file): BundleFile => ({
    ...file,
    digest: null,
    body: {
      size: file.body.size,
      async *open() {
        await whileHashing();
        yield* file.body.open();
      },
    },
  }));
  const as = options.as ?? owner;
  return publishBundle(
    contextWith(testClock()),
    storage,
    {
      bundle: { ...bundle, files: undigested },
      owner: as,
      destination: destinationOf('additive', as.destinationId),
      destinationPath: bundlePath,
    },
    { dryRun: options.dryRun ?? false, force: options.force ?? false },
  );
}

/** Runs `work` the first time it is called. */
function once(work: () => Promise<unknown>): () => Promise<unknown> {
  let begun: Promise<unknown> | undefined;
  return async () => (begun ??= work());
}

for (const kind of kinds) {
  t.test(`${kind}: a first publication during the hashing of another is not unmanaged content`, async (t) => {
    for (const dryRun of [true, false]) {
      const world = newWorld(kind, t);
      const theirs = once(async () =>
        publishTo(await world.open(), { files: { 'theirs.txt': 't' }, as: otherOwner }),
      );
      const ours = await publishHashing(await world.open(), { 'ours.txt': 'o' }, theirs, { dryRun });
      t.match(ours, { action: 'upsert_additive', error: null }, dryRun ? 'dry run' : 'run');
      t.same(
        [...(await snapshot(await world.open())).keys()].filter((name) => name.endsWith('.txt')).sort(),
        dryRun ? ['bundle/theirs.txt'] : ['bundle/ours.txt', 'bundle/theirs.txt'],
      );
    }
  });

  t.test(`${kind}: nor is it replaced by force`, async (t) => {
    for (const dryRun of [true, false]) {
      const world = newWorld(kind, t);
      const theirs = once(async () =>
        publishTo(await world.open(), { files: { 'theirs.txt': 't' }, as: otherOwner }),
      );
      const files = { 'ours.txt': 'o' };
      const ours = await publishHashing(await world.open(), files, theirs, { dryRun, force: true });
      t.match(ours, { action: 'upsert_additive', error: null });
      t.equal((await snapshot(await world.open())).get('bundle/theirs.txt'), 't');
    }
  });

  t.test(`${kind}: content that nobody manages is refused without a lock or any other write`, async (t) => {
    const world = newWorld(kind, t);
    await put(await world.open(), 'bundle/stray.txt', 's');
    const storage = await world.open();
    const mutations: string[] = [];
    const watched: Storage = {
      ...storage,
      write: async (key, body, how) => {
        mutations.push(`write ${key}`);
        return storage.write(key, body, how);
      },
    };
    const { action } = await publishHashing(watched, { 'ours.txt': 'o' }, async () => undefined);
    t.equal(action, 'fail_unmanaged');
    t.same(mutations, []);
  });

  t.test(`${kind}: two owners' first publications at one path, ${rounds} times, both succeed`, async (t) => {
    let publications = 0;
    await fc.assert(
      fc.asyncProperty(fc.scheduler(), fc.nat(80), async (scheduler, turns) => {
        const world = newWorld(kind, t);
        const pause = async (): Promise<void> => {
          for (let turn = 0; turn < turns; turn += 1) await scheduler.schedule(Promise.resolve(), 'hash');
        };
        const first = scheduled(await world.open(), scheduler);
        const second = scheduled(await world.open(), scheduler);
        const results = await scheduler.waitFor(
          Promise.all([
            publishHashing(first, { 'a.txt': 'a', 'both/one': '1' }, pause),
            publishHashing(second, { 'b.txt': 'b', 'both/two': '2' }, pause, { as: otherOwner }),
          ]),
        );
        for (const { action, error } of results) {
          publications += 1;
          // Waiting in vain is honest: time passes only by waiting here. Finding "unmanaged content" is not.
          if (error !== null && error.code !== 'destination_busy' && error.code !== 'lease_lost')
            throw new Error(`${action}: ${error.code}: ${error.message}`);
        }
        const storage = await world.open();
        const wrong = [...(await untruths(storage)), ...litter(await snapshot(storage))];
        if (wrong.length > 0) throw new Error(wrong.join('; '));
      }),
      { numRuns: rounds },
    );
    t.ok(publications >= 2 * rounds, `${publications} publications`);
  });
}
