import t from 'tap';
import { isStoredState, verifyWrite } from '../../../../src/core/catalog/catalog-store.ts';
import { WaybillError } from '../../../../src/core/lib/errors.ts';
import { bytesBody } from '../../../../src/core/storage/body.ts';
import { put } from '../../../faults/world.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';

const label = { label: 'memory' };
const failing = (code: 'storage_transient' | 'storage_permanent') => async (): Promise<void> =>
  Promise.reject(new WaybillError(code, 'failed'));

t.test('a lost response is not a failure if the state was written', async (t) => {
  await verifyWrite(label, failing('storage_transient'), async () => true);
  await verifyWrite(label, failing('storage_permanent'), async () => true);
  t.pass('both returned');
});

t.test('does not read back a successful write', async (t) => {
  await verifyWrite(
    label,
    async () => undefined,
    async () => {
      t.fail('read back');
      return false;
    },
  );
  t.pass();
});

t.test('reports commit_unknown if a request may still arrive or the state is unreadable', async (t) => {
  const old = async (): Promise<boolean> => false;
  const unreadable = async (): Promise<boolean> => Promise.reject(new Error('unreadable'));
  const unknown = { code: 'commit_unknown' };
  await t.rejects(verifyWrite(label, failing('storage_transient'), old), unknown);
  await t.rejects(
    verifyWrite(label, failing('storage_transient'), async () => false),
    unknown,
  );
  await t.rejects(verifyWrite(label, failing('storage_permanent'), unreadable), {
    ...unknown,
    cause: { message: 'unreadable' },
  });
});

t.test('throws the original error if the write was certainly not applied', async (t) => {
  const old = async (): Promise<boolean> => false;
  await t.rejects(verifyWrite(label, failing('storage_permanent'), old), {
    code: 'storage_permanent',
  });
});

t.test('compares states by all of their bytes', async (t) => {
  const storage = memoryStorage({ flavour: 'objects' });
  const mine = bytesBody('new');
  t.notOk(await isStoredState(storage, mine), 'there is no state');
  await put(storage, '.publisher.json', 'new');
  t.ok(await isStoredState(storage, mine));
  await put(storage, '.publisher.json', 'old');
  t.notOk(await isStoredState(storage, mine), 'other bytes of the same size');
  await put(storage, '.publisher.json', 'newer');
  t.notOk(await isStoredState(storage, mine), 'more bytes');
  const denied = new WaybillError('storage_denied', 'no rights');
  const unreadable = {
    ...storage,
    read: () => ({ [Symbol.asyncIterator]: () => ({ next: async () => Promise.reject(denied) }) }),
  };
  await t.rejects(isStoredState(unreadable, mine), { code: 'storage_denied' });
});
