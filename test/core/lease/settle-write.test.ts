import t from 'tap';
import { WaybillError } from '../../../src/core/errors.ts';
import { settleWrite } from '../../../src/core/lease/settle-write.ts';

const label = { label: 'memory' };
const bytes = Buffer.from('new');
const failing = (code: 'storage_transient' | 'storage_permanent') => async (): Promise<void> =>
  Promise.reject(new WaybillError(code, 'failed'));

t.test('a lost answer is no failure if the state is there', async (t) => {
  await settleWrite(label, bytes, failing('storage_transient'), async () => Buffer.from('new'));
  await settleWrite(label, bytes, failing('storage_permanent'), async () => Buffer.from('new'));
  t.pass('both returned');
});

t.test('a write that succeeds is not read back', async (t) => {
  await settleWrite(
    label,
    bytes,
    async () => undefined,
    async () => {
      t.fail('read back');
      return null;
    },
  );
  t.pass();
});

t.test('a request that may still arrive, and a state that cannot be read back, are unknown', async (t) => {
  const old = async (): Promise<Buffer> => Buffer.from('old');
  const unreadable = async (): Promise<Buffer> => Promise.reject(new Error('unreadable'));
  const unknown = { code: 'commit_unknown' };
  await t.rejects(settleWrite(label, bytes, failing('storage_transient'), old), unknown);
  await t.rejects(
    settleWrite(label, bytes, failing('storage_transient'), async () => null),
    unknown,
  );
  await t.rejects(settleWrite(label, bytes, failing('storage_permanent'), unreadable), unknown);
});

t.test('a failure that is known not to have been applied is thrown as it is', async (t) => {
  const old = async (): Promise<Buffer> => Buffer.from('old');
  await t.rejects(settleWrite(label, bytes, failing('storage_permanent'), old), {
    code: 'storage_permanent',
  });
});
