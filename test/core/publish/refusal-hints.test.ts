import t from 'tap';
import { publishTo } from '../../faults/world.ts';
import { memoryStorage } from '../../support/memory-storage.ts';

t.test('a path that changes between file and directory gets a hint that works', async (t) => {
  for (const [first, second] of [
    [{ sw: 'a file' }, { 'sw/inner': 'a directory' }],
    [{ 'sw/inner': 'a directory' }, { sw: 'a file' }],
  ] as const) {
    const storage = memoryStorage({ flavour: 'files' });
    await publishTo(storage, { files: first });
    const { action, error } = await publishTo(storage, { files: second });
    t.equal(action, 'fail_unmanaged');
    t.match(error?.hint, /publish once with `workflow: replacement`/);
    t.notMatch(error?.hint, '--force');
    const followed = await publishTo(storage, { files: second, workflow: 'replacement' });
    t.match(followed, { action: 'replace_catalog', error: null }, 'following it works');
  }
});
