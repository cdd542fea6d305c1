import t from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { WaybillError } from '../../../../src/core/lib/errors.ts';
import { bytesBody, readAll } from '../../../../src/core/storage/body.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { withRetry } from '../../../../src/core/storage/wrappers/with-retry.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';

const options = { policy: { retries: 2, baseMs: 1, capMs: 1 }, clock: systemClock };
const transient = new WaybillError('storage_transient', 'lost');

/** A storage whose first call of a method fails with `storage_transient`, before or after it was applied. */
function flaky(method: 'write' | 'rename' | 'remove' | 'stat', when: 'before' | 'after'): Storage {
  const storage = memoryStorage({ flavour: 'files' });
  const original = storage[method]!.bind(storage) as (...args: unknown[]) => Promise<unknown>;
  let calls = 0;
  const once = async (...args: unknown[]): Promise<unknown> => {
    calls += 1;
    if (calls === 1 && when === 'after') await original(...args);
    if (calls === 1) throw transient;
    return original(...args);
  };
  return { ...storage, [method]: once };
}

t.test('retries a call that fails with storage_transient', async (t) => {
  const storage = withRetry(flaky('stat', 'before'), options);
  t.equal(await storage.stat(key('x')), undefined);
});

t.test('throws a failure that is not transient immediately', async (t) => {
  let calls = 0;
  const denied = new WaybillError('storage_denied', 'no');
  const stat = async (): Promise<never> => {
    calls += 1;
    throw denied;
  };
  const storage = withRetry({ ...memoryStorage({ flavour: 'files' }), stat }, options);
  await t.rejects(storage.stat(key('x')), denied);
  t.equal(calls, 1);
});

t.test('does not repeat moves of an attempt with a lost response', async (t) => {
  const storage = withRetry(flaky('rename', 'after'), options);
  await storage.write(key('a'), bytesBody('a'), { mode: 'scratch' });
  await storage.rename!([{ from: key('a'), to: key('b') }]);
  t.match(await storage.stat(key('b')), { type: 'file', size: 1 });
});

t.test('a move that the server makes during the next attempt counts as done', async (t) => {
  const memory = memoryStorage({ flavour: 'files' });
  const moves = ['a', 'b', 'c'].map((name) => ({ from: key(name), to: key(`out/${name}`) }));
  let calls = 0;
  const rename: Storage['rename'] = async (given) => {
    calls += 1;
    if (calls === 1) throw transient;
    // The request of the lost connection, which the server carries out only now.
    const late = moves[calls - 2];
    if (late !== undefined) await memory.rename!([late]);
    await memory.rename!(given);
  };
  const storage = withRetry({ ...memory, rename }, options);
  for (const { from } of moves) await storage.write(from, bytesBody(from), { mode: 'scratch' });
  await storage.rename!(moves);
  for (const { from, to } of moves) t.equal((await readAll(storage, to, 1)).toString(), from);
  t.equal(calls, 4);
  await t.rejects(
    storage.rename!(moves),
    { code: 'storage_not_found' },
    'but a missing file is not invented',
  );
});

t.test('a creation that the lost attempt may have made fails with the earlier error', async (t) => {
  const unreliable = flaky('write', 'after');
  let calls = 0;
  const write: Storage['write'] = (...args) => {
    calls += 1;
    return unreliable.write(...args);
  };
  const outage = {};
  const storage = withRetry({ ...unreliable, write }, { ...options, outage });
  await t.rejects(storage.write(key('a'), bytesBody('a'), { mode: 'create' }), transient);
  t.equal(calls, 2, 'immediately');
  t.match(outage, { since: undefined }, 'and the server is known to respond');
  await t.rejects(storage.write(key('a'), bytesBody('a'), { mode: 'create' }), { code: 'storage_exists' });
});

t.test('retries a stream before its first chunk, but not after it', async (t) => {
  let opened = 0;
  const read = async function* (failAt: number): AsyncIterable<Uint8Array> {
    opened += 1;
    if (opened === 1 && failAt === 0) throw transient;
    yield Buffer.from('x');
    if (failAt === 1) throw transient;
  };
  const reading = async (failAt: number): Promise<number> => {
    opened = 0;
    const storage = { ...memoryStorage({ flavour: 'files' as const }), read: () => read(failAt) };
    let bytes = 0;
    for await (const chunk of withRetry(storage, options).read(key('x'))) bytes += chunk.byteLength;
    return bytes;
  };
  t.equal(await reading(0), 1);
  t.equal(opened, 2);
  await t.rejects(reading(1), transient);
  t.equal(opened, 1);
});
