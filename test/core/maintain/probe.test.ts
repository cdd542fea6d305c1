import { readdirSync, utimesSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { systemClock } from '../../../src/core/clock.ts';
import { WaybillError } from '../../../src/core/errors.ts';
import { firstRefusal, probeStorage, rightNames } from '../../../src/core/maintain/probe.ts';
import { localStorage } from '../../../src/core/storage/local/driver.ts';
import { memoryStorage, type MemoryDisk } from '../../support/memory-storage.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { testClock } from '../../faults/world.ts';

const answers = (probe: Awaited<ReturnType<typeof probeStorage>>): string[] =>
  rightNames.map((right) => `${right} ${probe.rights[right].answer}`);

t.test('a file system is tried in full and nothing stays', async (t) => {
  const storage = await localStorage(t.testdir());
  const probe = await probeStorage(storage, testClock(), { write: true });
  t.same(answers(probe), ['list yes', 'read yes', 'create yes', 'replace yes', 'rename yes', 'remove yes']);
  t.match(probe, { rename: 'atomic', conditionalWrites: 'create', clockOffsetMs: 0 });
  t.equal(firstRefusal(probe), null);
  t.same(
    (await (await localStorage(t.testdirName)).list('', { recursive: false })[Symbol.asyncIterator]().next())
      .done,
    true,
  );
});

t.test('an object store has no rename to try', async (t) => {
  const disk: MemoryDisk = new Map();
  const probe = await probeStorage(memoryStorage({ disk, flavour: 'objects' }), testClock(), { write: true });
  t.equal(probe.rights.rename.answer, 'not_tried');
  t.equal(probe.conditionalWrites, 'full');
  t.equal(disk.size, 0);
});

t.test('a place that is only read is not written to', async (t) => {
  const disk: MemoryDisk = new Map();
  const probe = await probeStorage(memoryStorage({ disk, flavour: 'files', readOnly: true }), testClock(), {
    write: false,
  });
  t.same(answers(probe).slice(0, 3), ['list yes', 'read not_tried', 'create not_tried']);
  t.equal(firstRefusal(probe), null);
});

t.test(
  'a right that is missing is an answer with its reason, and what follows from it is not tried',
  async (t) => {
    const storage = memoryStorage({ flavour: 'files', readOnly: true });
    const probe = await probeStorage(storage, testClock(), { write: true });
    t.equal(probe.rights.create.answer, 'no');
    t.equal(probe.rights.rename.answer, 'not_tried');
    t.equal(firstRefusal(probe)?.code, probe.rights.create.error?.code);
  },
);

t.test(
  'a storage that creates twice under one name has no exclusive creation, whatever it says',
  async (t) => {
    const honest = memoryStorage({ flavour: 'files' });
    const liar: Storage = {
      ...honest,
      write: (key, body, options) => honest.write(key, body, { ...options, mode: 'replace' }),
    };
    t.equal((await probeStorage(liar, testClock(), { write: true })).conditionalWrites, 'none');
  },
);

t.test('a storage that answers nothing has no latency, and the listing tells why', async (t) => {
  const gone = new WaybillError('storage_transient', 'connection lost');
  const storage: Storage = {
    ...memoryStorage({ flavour: 'objects' }),
    stat: async () => Promise.reject(gone),
    list: () => ({ [Symbol.asyncIterator]: () => ({ next: async () => Promise.reject(gone) }) }),
  };
  const probe = await probeStorage(storage, testClock(), { write: false });
  t.equal(probe.latencyMs, null);
  t.match(firstRefusal(probe), { code: 'storage_transient', message: 'connection lost' });
});

t.test('what a killed probe left is removed by the next one, and what one in use has is not', async (t) => {
  const root = t.testdir({
    '.publisher-probe-killed': { a: '1', staged: { b: '3' } },
    '.publisher-probe-in-use': { a: '1' },
    'a-bundle': { file: 'x' },
  });
  const long = new Date(Date.now() - 3_600_000);
  for (const name of ['a', 'staged/b'])
    utimesSync(path.join(root, '.publisher-probe-killed', name), long, long);
  await probeStorage(await localStorage(root), systemClock, { write: true });
  t.same(readdirSync(root).sort(), ['.publisher-probe-in-use', 'a-bundle']);
});

t.test('a storage whose directories cannot be removed has no right to remove', async (t) => {
  const inner = memoryStorage({ flavour: 'files' });
  const refused = new WaybillError('storage_permanent', 'status 19');
  const storage: Storage = { ...inner, removeTree: async () => Promise.reject(refused) };
  const probe = await probeStorage(storage, testClock(), { write: true });
  t.match(probe.rights.remove, { answer: 'no', error: { message: 'status 19' } });
});
