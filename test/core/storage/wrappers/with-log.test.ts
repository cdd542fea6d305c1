import t from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { type Log, silentLog } from '../../../../src/core/lib/log.ts';
import { bytesBody } from '../../../../src/core/storage/body.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import { withLog } from '../../../../src/core/storage/wrappers/with-log.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';

t.test('logs each call with its keys and its duration, and failures with their error', async (t) => {
  const lines: unknown[][] = [];
  const log: Log = { ...silentLog, debug: (...args: unknown[]) => void lines.push(args) };
  let now = 0;
  const clock = { ...systemClock, monotonic: () => (now += 5) };
  const storage = withLog(memoryStorage({ flavour: 'files' }), log, clock);
  await storage.write(key('a'), bytesBody('abc'), { mode: 'create' });
  await t.rejects(storage.write(key('a'), bytesBody('abc'), { mode: 'create' }), { code: 'storage_exists' });
  for await (const entry of storage.list('', { recursive: true })) t.equal(entry.key, 'a');
  const write = { storage: storage.label, operation: 'write', key: 'a', size: 3, mode: 'create', ms: 5 };
  t.match(lines, [
    [write, 'storage'],
    [{ ...write, err: { code: 'storage_exists' } }, 'storage failed'],
    [{ operation: 'list', directory: '', recursive: true }, 'storage'],
  ]);
  t.equal(lines.length, 3);
});
