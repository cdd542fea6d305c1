import t from 'tap';
import { publishBundle } from '../../../../src/core/publish/publish-bundle.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { delegate } from '../../../../src/core/storage/wrappers/delegate.ts';
import { bundleOf, contextWith, destinationOf, newWorld, owner, testClock } from '../../../faults/world.ts';

const names = Array.from({ length: 100 }, (_, index) => `file-${index}.txt`);
const request = { dryRun: false, force: false };

/** The storage, and the number of checks of each file of the bundle, or of its directory as a whole. */
function counting(storage: Storage): { storage: Storage; looks: Map<string, number> } {
  const looks = new Map<string, number>();
  const count = (key: string): void => void looks.set(key, (looks.get(key) ?? 0) + 1);
  const stat: Storage['stat'] = (key) => {
    if (names.some((name) => key === `bundle/${name}`)) count(key);
    return storage.stat(key);
  };
  const list: Storage['list'] = (directory, options) => {
    if (directory === 'bundle') count(directory);
    return storage.list(directory, options);
  };
  const localFiles: Storage['localFiles'] = {
    sizeOf: (key) => {
      if (names.some((name) => key === `bundle/${name}`)) count(key);
      return storage.localFiles?.sizeOf(key);
    },
  };
  return { storage: delegate(storage, { localFiles, stat, list }), looks };
}

for (const kind of ['memory files', 'memory objects', 'local'] as const)
  t.test(`${kind}: checks kept files once before the lease, and not again under it`, async (t) => {
    const world = newWorld(kind, t);
    const publish = async (storage: Storage, text: string): ReturnType<typeof publishBundle> => {
      const files = Object.fromEntries(names.map((name, index) => [name, index === 0 ? text : name]));
      const publication = { owner, destination: destinationOf('additive'), destinationPath: 'bundle' };
      return publishBundle(
        contextWith(testClock()),
        storage,
        { ...publication, bundle: bundleOf(files) },
        request,
      );
    };
    await publish(await world.open(), 'old');
    const { storage, looks } = counting(await world.open());
    t.match(await publish(storage, 'new'), { error: null, outputsWritten: 1, outputsKept: 99 });
    const once = kind === 'local' ? names.slice(1).map((name) => `bundle/${name}`) : ['bundle'];
    t.same(
      once.map((key) => looks.get(key)),
      once.map(() => 1),
    );
  });
