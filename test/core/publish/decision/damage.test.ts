import t from 'tap';
import { findDamage } from '../../../../src/core/publish/decision/damage.ts';
import type { PlannedOutput } from '../../../../src/core/publish/plan.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { put } from '../../../faults/world.ts';
import { output } from '../../../support/decisions.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';

/** Nine files in each of two directories, without the given ones. */
const outputs = Array.from({ length: 18 }, (_, index) => output(`d${index % 2}/f${index}`));

/** A destination with a missing file, a truncated file, and a directory in place of a file. */
async function damagedPlace(): Promise<{ storage: Storage; asked: string[] }> {
  const storage = memoryStorage({ flavour: 'files' });
  for (const { path } of outputs)
    if (path === 'd0/f0') await put(storage, `${path}/inside`, 'x');
    else if (path === 'd0/f2') await put(storage, path, '');
    else if (path !== 'd1/f1') await put(storage, path, 'x');
  await put(storage, 'd1/foreign', 'of no interest');
  const asked: string[] = [];
  const counting: Storage = {
    ...storage,
    stat: (key) => (asked.push(`stat ${key}`), storage.stat(key)),
    list: (directory, options) => (asked.push(`list ${directory}`), storage.list(directory, options)),
  };
  return { storage: counting, asked };
}

const damage = [
  ['d0/f0', 'not_a_file'],
  ['d0/f2', 'size_differs'],
  ['d1/f1', 'missing'],
];

async function found(storage: Storage, of: readonly PlannedOutput[], isRemote: boolean): Promise<unknown[]> {
  return [...(await findDamage(storage, of, isRemote))].sort();
}

t.test('checks single files, and finds missing ones, wrong sizes and non-files', async (t) => {
  const { storage, asked } = await damagedPlace();
  t.same(await found(storage, outputs, false), damage);
  t.equal(asked.length, outputs.length);
  t.same(
    await found(storage, outputs.slice(0, 16), true),
    damage,
    'also on a remote storage if there are few',
  );
  t.notOk(asked.some((question) => question.startsWith('list')));
});

t.test('lists a remote directory once if it replaces many requests', async (t) => {
  const { storage, asked } = await damagedPlace();
  t.same(await found(storage, outputs, true), damage);
  t.same(asked, ['list d0', 'list d1']);
});

t.test('checks each file of a directory that cannot be listed', async (t) => {
  const { storage, asked } = await damagedPlace();
  const broken: Storage = {
    ...storage,
    async *list(directory, options) {
      if (directory === 'd0') {
        // An interrupted listing proves nothing.
        yield { key: outputs[0]!.path as never, type: 'file', size: 1 };
        throw new Error('no directory any more');
      }
      yield* storage.list(directory, options);
    },
  };
  t.same(await found(broken, outputs, true), damage);
  t.same(
    asked.filter((question) => question.startsWith('stat')),
    outputs.filter(({ path }) => path.startsWith('d0/')).map(({ path }) => `stat ${path}`),
  );
});

t.test('an output that cannot be checked at all is an error', async (t) => {
  const { storage } = await damagedPlace();
  const broken: Storage = { ...storage, stat: async () => Promise.reject(new Error('gone')) };
  await t.rejects(findDamage(broken, outputs, false), { message: 'gone' });
});
