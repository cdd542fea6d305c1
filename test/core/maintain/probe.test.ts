import { readdirSync, utimesSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { firstRefusal, probeStorage, rightNames } from '../../../src/core/maintain/probe.ts';
import { bytesBody } from '../../../src/core/storage/body.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import { localStorage } from '../../../src/core/storage/local/local-storage.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { delegate } from '../../../src/core/storage/wrappers/delegate.ts';
import { testClock } from '../../faults/world.ts';
import { type MemoryDisk, memoryStorage } from '../../support/memory-storage.ts';

const answers = (probe: Awaited<ReturnType<typeof probeStorage>>): string[] =>
  rightNames.map((right) => `${right} ${probe.rights[right].answer}`);

t.test('tries all operations of a file system and leaves no files', async (t) => {
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

t.test('does not try rename on an object store', async (t) => {
  const disk: MemoryDisk = new Map();
  const probe = await probeStorage(memoryStorage({ disk, flavour: 'objects' }), testClock(), { write: true });
  t.equal(probe.rights.rename.answer, 'not_tried');
  t.equal(probe.conditionalWrites, 'full');
  t.equal(disk.size, 0);
});

t.test('does not write to a read-only destination', async (t) => {
  const disk: MemoryDisk = new Map();
  const probe = await probeStorage(memoryStorage({ disk, flavour: 'files', readOnly: true }), testClock(), {
    write: false,
  });
  t.same(answers(probe).slice(0, 3), ['list yes', 'read not_tried', 'create not_tried']);
  t.equal(firstRefusal(probe), null);
});

t.test(
  'a missing permission is reported with its reason, and operations that depend on it are not tried',
  async (t) => {
    const storage = memoryStorage({ flavour: 'files', readOnly: true });
    const probe = await probeStorage(storage, testClock(), { write: true });
    t.equal(probe.rights.create.answer, 'no');
    t.equal(probe.rights.rename.answer, 'not_tried');
    t.equal(firstRefusal(probe)?.code, probe.rights.create.error?.code);
  },
);

t.test('a storage that overwrites on exclusive creation does not have it, whatever it reports', async (t) => {
  const honest = memoryStorage({ flavour: 'files' });
  const liar: Storage = delegate(honest, {
    write: (key, body, options) => honest.write(key, body, { ...options, mode: 'replace' }),
  });
  t.equal((await probeStorage(liar, testClock(), { write: true })).conditionalWrites, 'none');
});

t.test('reports no latency for an unresponsive storage, and the listing reports why', async (t) => {
  const gone = new WaybillError('storage_transient', 'connection lost');
  const storage: Storage = delegate(memoryStorage({ flavour: 'objects' }), {
    stat: async () => Promise.reject(gone),
    list: () => ({ [Symbol.asyncIterator]: () => ({ next: async () => Promise.reject(gone) }) }),
  });
  const probe = await probeStorage(storage, testClock(), { write: false });
  t.equal(probe.latencyMs, null);
  t.match(firstRefusal(probe), { code: 'storage_transient', message: 'connection lost' });
});

t.test('removes files of a killed probe, but not those of an active one', async (t) => {
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

t.test('a storage that cannot remove directories has no permission to remove', async (t) => {
  const inner = memoryStorage({ flavour: 'files' });
  const refused = new WaybillError('storage_permanent', 'status 19');
  const storage: Storage = delegate(inner, { removeTree: async () => Promise.reject(refused) });
  const probe = await probeStorage(storage, testClock(), { write: true });
  t.match(probe.rights.remove, { answer: 'no', error: { message: 'status 19' } });
});

/** A storage that reports each call, without the random part of names. */
function withCalls(inner: Storage): { storage: Storage; calls: string[] } {
  const calls: string[] = [];
  const record = (call: string): void =>
    void calls.push(call.replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, 'UUID'));
  const storage: Storage = delegate(inner, {
    stat: async (key) => (record(`stat ${key}`), inner.stat(key)),
    list(directory, options) {
      record(`list "${directory}" ${options.recursive ? 'deep' : 'flat'}`);
      return inner.list(directory, options);
    },
    read(key) {
      record(`read ${key}`);
      return inner.read(key);
    },
    async write(key, body, options) {
      record(`${options.mode} ${body.size} ${key}`);
      return inner.write(key, body, options);
    },
    rename: async (moves) => {
      for (const { from, to } of moves) record(`rename ${from} ${to}`);
      await inner.rename!(moves);
    },
    sync: async () => (record('sync'), inner.sync!()),
    remove: async (key, options) => (record(`remove ${key}`), inner.remove(key, options)),
    removeTree: async (directory) => (record(`removeTree ${directory}`), inner.removeTree(directory)),
  });
  return { storage, calls };
}

const place = '.publisher-probe-UUID';

t.test('a probe makes the same calls as a publication, below its reserved name', async (t) => {
  const files = withCalls(memoryStorage({ flavour: 'files' }));
  await probeStorage(files.storage, testClock(), { write: true });
  t.same(files.calls, [
    ...Array<string>(5).fill(`stat ${place}`),
    'list "" flat',
    `create 1 ${place}/a`,
    `read ${place}/a`,
    `create 1 ${place}/a`,
    `replace 1 ${place}/a`,
    `scratch 1 ${place}/staged/b`,
    `rename ${place}/staged/b ${place}/a`,
    'sync',
    `removeTree ${place}/staged`,
    `remove ${place}/a`,
    'list "" flat',
  ]);
  const objects = withCalls(memoryStorage({ flavour: 'objects', conditionalWrites: 'none' }));
  const probe = await probeStorage(objects.storage, testClock(), { write: true });
  t.same(objects.calls.slice(6), [
    `replace 1 ${place}/a`,
    `read ${place}/a`,
    `replace 1 ${place}/a`,
    `remove ${place}/a`,
    'list "" flat',
  ]);
  t.equal(probe.conditionalWrites, 'none');
});

t.test('reports files that cannot be read, replaced or renamed', async (t) => {
  const no = async (): Promise<never> => Promise.reject(new WaybillError('storage_denied', 'no'));
  const inner = memoryStorage({ flavour: 'files' });
  const failing: [string, Partial<Storage>][] = [
    ['read', { read: () => ({ [Symbol.asyncIterator]: () => ({ next: no }) }) }],
    [
      'replace',
      {
        write: async (key, body, options) =>
          options.mode === 'replace' ? no() : inner.write(key, body, options),
      },
    ],
    ['rename', { rename: no }],
  ];
  for (const [right, members] of failing) {
    const probe = await probeStorage(delegate(inner, members), testClock(), { write: true });
    t.same(
      answers(probe).filter((answer) => !answer.endsWith('yes')),
      [`${right} no`],
    );
  }
});

t.test('determines the clock of a server from the time of a new file', async (t) => {
  const inner = memoryStorage({ flavour: 'files' });
  const clock = { ...testClock(), now: () => new Date('2026-11-20T12:00:00Z') };
  const offset = async (found: Awaited<ReturnType<Storage['stat']>>, clockOffsetMs: number | null = null) => {
    const facts = { ...inner.facts, clockOffsetMs };
    const probe = await probeStorage(delegate(inner, { facts, stat: async () => found }), clock, {
      write: true,
    });
    return probe.clockOffsetMs;
  };
  const file = { type: 'file', size: 1, version: null } as const;
  t.equal(await offset({ ...file, modifiedAt: new Date('2026-11-20T12:00:03Z') }), 3_000);
  t.equal(await offset({ ...file, modifiedAt: null }), null);
  t.equal(await offset(undefined), null);
  t.equal(await offset({ ...file, modifiedAt: new Date(0) }, 7), 7, 'already reported');
});

t.test('latency is the median and the maximum of five calls', async (t) => {
  const inner = memoryStorage({ flavour: 'files' });
  const takes = [30, 10, 50, 20, 40];
  let now = 0;
  const clock = { ...testClock(), monotonic: () => now };
  const storage: Storage = delegate(inner, {
    async stat(key) {
      now += takes.shift() ?? 0;
      return inner.stat(key);
    },
  });
  const { latencyMs } = await probeStorage(storage, clock, { write: false });
  t.same(latencyMs, { median: 30, slowest: 50 });
});

t.test(
  'the newest file of a killed probe determines its age, and a file with such a name is ignored',
  async (t) => {
    const inner = memoryStorage({ flavour: 'files' });
    const now = Date.parse('2026-11-20T12:00:00Z');
    const ages: Record<string, number | null> = {
      '.publisher-probe-old/a': 600_001,
      '.publisher-probe-old/staged/b': 900_000,
      '.publisher-probe-edge/a': 600_000,
      '.publisher-probe-young/a': 900_000,
      '.publisher-probe-young/staged/b': 1,
      '.publisher-probe-younger/a': 1,
      '.publisher-probe-younger/staged/b': 900_000,
      '.publisher-probe-timeless/a': null,
      '.publisher-probe-file': 900_000,
      'a-bundle/a': 900_000,
    };
    for (const name of Object.keys(ages))
      await inner.write(listedKey(name), bytesBody(''), { mode: 'replace' });
    const storage: Storage = delegate(inner, {
      async stat(key) {
        const found = await inner.stat(key);
        const age = ages[key];
        return found === undefined || age === undefined
          ? found
          : { ...found, modifiedAt: age === null ? null : new Date(now - age) };
      },
    });
    await probeStorage(storage, { ...testClock(), now: () => new Date(now) }, { write: true });
    const left: string[] = [];
    for await (const { key } of inner.list('', { recursive: true })) left.push(key);
    t.same(
      left.sort(),
      Object.keys(ages)
        .filter((name) => !name.startsWith('.publisher-probe-old'))
        .sort(),
    );
  },
);

t.test("measures age by the storage's clock, and needs a time", async (t) => {
  const now = Date.parse('2026-11-20T12:00:00Z');
  const hour = 3_600_000;
  for (const [offset, modifiedAt, isLeft] of [
    [0, 'gone', true],
    [hour, new Date(now), false],
    [-hour, new Date(now - hour), true],
    [-hour, new Date(now - 2 * hour), false],
    [0, null, true],
  ] as const) {
    const inner = memoryStorage({ flavour: 'files' });
    const name = listedKey('.publisher-probe-other/a');
    await inner.write(name, bytesBody(''), { mode: 'replace' });
    const storage: Storage = delegate(inner, {
      facts: { ...inner.facts, clockOffsetMs: offset },
      async stat(key) {
        const found = await inner.stat(key);
        if (key !== name || found === undefined) return found;
        return modifiedAt === 'gone' ? undefined : { ...found, modifiedAt };
      },
    });
    const probe = await probeStorage(storage, { ...testClock(), now: () => new Date(now) }, { write: true });
    t.equal(probe.rights.remove.answer, 'yes');
    t.equal((await inner.stat(name)) !== undefined, isLeft, `${offset / hour} h, ${String(modifiedAt)}`);
  }
});

t.test('a listing is closed after its first entry', async (t) => {
  let isLeft = false;
  const asked: unknown[] = [];
  const storage: Storage = delegate(memoryStorage({ flavour: 'objects' }), {
    list: (...question) => ({
      [Symbol.asyncIterator]: () => ({
        next: async () => {
          asked.push(question);
          return { done: false, value: { key: listedKey('a'), type: 'file', size: 0 } };
        },
        return: async () => {
          isLeft = true;
          return { done: true, value: undefined };
        },
      }),
    }),
  });
  await probeStorage(storage, testClock(), { write: false });
  t.ok(isLeft);
  t.same(asked, [['', { recursive: false }]], 'and reads no subdirectory');
});
