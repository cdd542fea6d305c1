import t from 'tap';
import type { Catalog, OutputRecord, Pending } from '../../../../src/core/catalog/catalog.ts';
import { type Lease, leaseLost } from '../../../../src/core/catalog/lease/lease.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import { WaybillError } from '../../../../src/core/lib/errors.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import type { RelativePath } from '../../../../src/core/lib/paths.ts';
import { apply } from '../../../../src/core/publish/apply/apply.ts';
import type { Plan, PlannedOutput, Work } from '../../../../src/core/publish/plan.ts';
import { bytesBody } from '../../../../src/core/storage/body.ts';
import type { LocalFiles } from '../../../../src/core/storage/capabilities.ts';
import { listedKey } from '../../../../src/core/storage/key.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { delegate } from '../../../../src/core/storage/wrappers/delegate.ts';
import { type FaultLog, withFaults } from '../../../faults/with-faults.ts';
import { owner, put, snapshot, testClock } from '../../../faults/world.ts';
import { instant } from '../../../support/instant.ts';
import { type MemoryOptions, memoryStorage } from '../../../support/memory-storage.ts';

function output(path: string, text: string): PlannedOutput {
  return {
    path: path as RelativePath,
    owner,
    source: { backend: 'local', id: '/source', path: 'bundle' },
    kind: 'file',
    digest: digestOf(text),
    size: Buffer.byteLength(text),
    generated: { contentType: null, cacheControl: null, generator: null },
    url: null,
    body: bytesBody(text),
  };
}

function record(path: string, text: string): OutputRecord {
  const { owner, source, kind, digest, size, generated, url } = output(path, text);
  const updatedAt = '2026-11-20T00:00:00.000Z';
  return { path: path as RelativePath, owner, source, kind, digest, size, generated, url, updatedAt };
}

const bundle = {
  source: { backend: 'local' as const, id: '/source', path: 'bundle' },
  created: instant('2026-11-20T00:00:00.123456Z'),
};

function planOf(overrides: Partial<Plan>): Plan {
  return {
    owner,
    bundle,
    destinationPath: 'bundle',
    action: 'replace_catalog',
    reason: { code: 'outputs_differ', message: '' },
    writes: [output('a', 'new'), output('b', 'b')],
    removes: [listedKey('gone')],
    kept: [],
    clears: false,
    unkept: [],
    untouched: [],
    changes: [],
    ...overrides,
  };
}

function catalogOf(outputs: OutputRecord[], pending: Pending | null = null): Catalog {
  return { generation: 7, updatedAt: '2026-11-20T00:00:00.000Z', bundles: [], outputs, pending };
}

const html = { contentType: 'text/html', cacheControl: null };
const asFound = { size: 8, digest: digestOf('as found'), body: bytesBody('as found') };

/** A destination with `a` and `gone`, and a list of every call on the storage and the lease. */
async function layOut(
  flavour: MemoryOptions['flavour'],
  found: Catalog = catalogOf([record('a', 'old'), record('gone', 'gone')]),
  overrides: Partial<Lease> = {},
  memory: Partial<MemoryOptions> = {},
): Promise<{ storage: Storage; bare: Storage; lease: Lease; calls: string[]; written: Catalog[] }> {
  const bare = memoryStorage({ ...memory, flavour });
  await put(bare, 'a', 'old');
  await put(bare, 'gone', 'gone');
  const log: FaultLog = { operations: [], fired: false, mutations: 0 };
  const calls = log.operations;
  const written: Catalog[] = [];
  const lease: Lease = {
    attemptId: 'attempt',
    holder: { host: 'h', pid: 1, bootId: null, process: null, thread: null, instanceId: 'i' },
    signal: new AbortController().signal,
    found: { state: { kind: 'valid', catalog: found }, raw: asFound },
    check: () => void calls.push('check'),
    fence: async () => void calls.push('fence'),
    writeState: async (catalog) => {
      calls.push(catalog.pending === null ? 'commit' : 'intent');
      written.push(catalog);
    },
    removeState: async () => void calls.push('remove state'),
    restoreState: async () => void calls.push('restore'),
    release: async () => void calls.push('release'),
    ...overrides,
  };
  return { storage: withFaults(bare, null, log), bare, lease, calls, written };
}

const options = { clock: testClock(), log: silentLog, concurrency: 1 };
const steps = (calls: readonly string[]): string[] => calls.filter((call) => call !== 'check');

/** The files that readers find, by name, without staged files before the release of the lease. */
async function published(storage: Storage): Promise<Record<string, string>> {
  const files = [...(await snapshot(storage))].filter(([name]) => !name.startsWith('.publisher.tmp/'));
  return Object.fromEntries(files);
}

t.test('on a file system: intent, stage, keep, fence, rename, remove, commit, in this order', async (t) => {
  const { storage, bare, lease, calls, written } = await layOut('files');
  const applied = await apply(planOf({}), { ...options, storage, lease });
  t.same(steps(calls), [
    'intent',
    'write .publisher.tmp/attempt/output-0',
    'write .publisher.tmp/attempt/output-1',
    'keep a',
    'keep gone',
    'fence',
    'rename .publisher.tmp/attempt/output-0 a',
    'rename .publisher.tmp/attempt/output-1 b',
    'remove gone',
    'commit',
  ]);
  t.same(applied, { written: new Set(['a', 'b']), linked: new Set() });
  t.same(await published(bare), { a: 'new', b: 'b' });
  const [intent, commit] = written;
  t.match(intent, { generation: 7, pending: { attemptId: 'attempt', removes: ['gone'] } });
  t.same(
    intent?.pending?.outputs.map(({ path }) => path),
    ['a', 'b'],
  );
  t.same(
    intent?.outputs.map(({ path, digest }) => [path, digest]),
    [
      ['a', digestOf('old')],
      ['gone', digestOf('gone')],
    ],
  );
  t.match(commit, { generation: 8, pending: null, bundles: [{ owner, ...bundle }] });
  t.same(intent?.bundles, [], 'the bundle is recorded by the commit');
  t.same(
    commit?.outputs.map(({ path, digest }) => [path, digest]),
    [
      ['a', digestOf('new')],
      ['b', digestOf('b')],
    ],
  );
});

for (const flavour of ['files', 'objects'] as const)
  t.test(
    `${flavour}: neither announces nor writes kept files, and sets them to the time of the commit`,
    async (t) => {
      const found = catalogOf([record('a', 'old'), record('gone', 'gone'), record('same', 'same')]);
      const { storage, bare, lease, calls, written } = await layOut(flavour, found);
      await put(bare, 'same', 'same');
      const clock = { ...testClock(), now: () => new Date('2026-11-21T00:00:00Z') };
      const plan = planOf({ kept: [output('same', 'same')] });
      const applied = await apply(plan, { ...options, clock, storage, lease });
      t.same(applied.written, new Set(['a', 'b']));
      t.notOk(
        calls.some((call) => call.includes('same')),
        'not even read',
      );
      const [intent, commit] = written;
      t.same(
        intent?.pending?.outputs.map(({ path }) => path),
        ['a', 'b'],
      );
      const old = '2026-11-20T00:00:00.000Z';
      t.same(
        intent?.outputs.map(({ path, updatedAt }) => [path, updatedAt]),
        [
          ['a', old],
          ['gone', old],
          ['same', old],
        ],
        'the intent still records all of it unchanged',
      );
      t.same(
        commit?.outputs.map(({ path, updatedAt }) => [path, updatedAt]),
        ['a', 'b', 'same'].map((path) => [path, '2026-11-21T00:00:00.000Z']),
      );
    },
  );

t.test('on an object store: intent, keep, fence, put, fence, remove, commit, in this order', async (t) => {
  const { storage, bare, lease, calls } = await layOut('objects');
  await put(bare, '.publisher.tmp/dead/kept-0', 'left by another attempt');
  await put(bare, '.publisher.tmp/probe-1', 'of a publisher that is alive');
  await apply(planOf({}), { ...options, storage, lease });
  t.same(steps(calls), [
    'intent',
    'list .publisher.tmp',
    'removeTree .publisher.tmp/dead',
    'keep a',
    'keep gone',
    'fence',
    'write a',
    'write b',
    'fence',
    'remove gone',
    'commit',
    'removeTree .publisher.tmp/attempt',
  ]);
  t.same([...(await snapshot(bare)).keys()].sort(), ['.publisher.tmp/probe-1', 'a', 'b']);
});

t.test('assets become visible before pages, feeds and listings', async (t) => {
  const typed = (path: string, contentType: string, generator?: string): PlannedOutput => {
    const generated = generator === undefined ? null : { name: generator, version: 1, inputs: digestOf('') };
    return { ...output(path, path), generated: { contentType, cacheControl: null, generator: generated } };
  };
  const writes = [
    typed('SHA256SUMS', 'text/plain; charset=utf-8', 'checksums'),
    typed('about.html', 'text/html; charset=utf-8'),
    typed('blog/feed.xml', 'text/xml; charset=utf-8'),
    typed('data/map.json', 'application/json'),
    typed('style.css', 'text/css; charset=utf-8'),
  ];
  // If directories can be moved, new ones move whole.
  for (const flavour of ['files', 'objects'] as const) {
    const [data, blog] = flavour === 'files' ? ['data', 'blog'] : ['data/map.json', 'blog/feed.xml'];
    const assets = [data, 'style.css'];
    const pages = ['SHA256SUMS', 'about.html', blog];
    const { storage, lease, calls } = await layOut(flavour);
    await apply(planOf({ writes, removes: [] }), { ...options, storage, lease, concurrency: 5 });
    const shown = calls.filter((call) => call.startsWith(flavour === 'files' ? 'rename ' : 'write '));
    const names = shown.map((call) => call.slice(call.lastIndexOf(' ') + 1));
    t.same(names.slice(0, 2).sort(), assets, flavour);
    t.same(names.slice(2).sort(), pages, flavour);
  }
});

t.test('checks the lease before every write, every kept file, the renames and every removal', async (t) => {
  for (const flavour of ['files', 'objects'] as const) {
    const { storage, lease, calls } = await layOut(flavour);
    await apply(planOf({}), { ...options, storage, lease });
    const unchecked = calls.filter(
      (call, index) => /^(write|keep|remove) /.test(call) && calls[index - 1] !== 'check',
    );
    t.same(unchecked, [], flavour);
    if (flavour === 'files')
      t.equal(calls[calls.findIndex((call) => call.startsWith('rename')) - 1], 'check');
  }
});

for (const flavour of ['files', 'objects'] as const)
  t.test(`${flavour}: an attempt that is fenced off removes nothing and commits nothing`, async (t) => {
    const lost = leaseLost({ label: 'memory' }, 'another publisher holds it');
    const fence = async (): Promise<void> => Promise.reject(lost);
    const { storage, bare, lease, calls } = await layOut(flavour, undefined, { fence });
    await t.rejects(apply(planOf({}), { ...options, storage, lease }), { code: 'lease_lost' });
    t.notOk(calls.some((call) => /^(rename|remove|commit|restore)/.test(call)));
    const files = await snapshot(bare);
    t.equal(files.get('gone'), 'gone');
    t.equal(files.get('a'), 'old', 'nothing visible changed');
    t.notOk(files.has('b'), 'and nothing was created');
  });

t.test('an attempt on an object store that is fenced off after its writes removes nothing', async (t) => {
  let fences = 0;
  const fence = async (): Promise<void> => {
    fences += 1;
    if (fences > 1) throw leaseLost({ label: 'memory' }, 'another publisher holds it');
  };
  const { storage, bare, lease, calls } = await layOut('objects', undefined, { fence });
  await t.rejects(apply(planOf({}), { ...options, storage, lease }), { code: 'lease_lost' });
  t.notOk(calls.some((call) => /^(remove|commit|restore)/.test(call)));
  t.equal((await snapshot(bare)).get('gone'), 'gone');
});

t.test('a failed write leaves the state unchanged and no files of the attempt', async (t) => {
  const { storage, bare, lease, calls } = await layOut('files');
  const wrong = { ...output('b', 'b'), digest: digestOf('something else') };
  const plan = planOf({ writes: [output('a', 'new'), wrong] });
  await t.rejects(apply(plan, { ...options, storage, lease }), { code: 'body_mismatch' });
  t.same(steps(calls).slice(-3), ['fence', 'removeTree .publisher.tmp/attempt', 'restore']);
  t.same(Object.fromEntries(await snapshot(bare)), { a: 'old', gone: 'gone' });
});

t.test('reports a wrong body by its file name, not by its staged name', async (t) => {
  for (const flavour of ['files', 'objects'] as const) {
    const { storage, lease } = await layOut(flavour);
    const wrong = { ...output('maps/b "2": x', 'b'), digest: digestOf('something else') };
    const short = { ...output('maps/c', 'c'), body: { ...bytesBody(''), size: 1 } };
    for (const [bad, message] of [
      [wrong, /^"maps\/b "2": x": the bytes have the digest sha256:.*, but sha256:.* was expected$/],
      [short, /^"maps\/c": 0 bytes were read, but 1 were expected$/],
    ] as const)
      await t.rejects(apply(planOf({ writes: [bad] }), { ...options, storage, lease }), {
        code: 'body_mismatch',
        message,
        hint: /run again/,
      });
  }
});

t.test(
  'after a visible change, restores everything and removes files that the attempt created',
  async (t) => {
    const { storage, bare, lease, calls } = await layOut('objects');
    const wrong = { ...output('c', 'c'), digest: digestOf('something else') };
    const plan = planOf({ writes: [output('a', 'new'), output('b', 'b'), wrong] });
    await t.rejects(apply(plan, { ...options, storage, lease }), { code: 'body_mismatch' });
    t.same(steps(calls).slice(-2), ['restore', 'removeTree .publisher.tmp/attempt']);
    t.ok(calls.includes('remove b') && calls.includes('remove c'));
    t.notOk(calls.includes('remove a'), 'an overwritten file is not removed');
    t.same(Object.fromEntries(await snapshot(bare)), { a: 'old', gone: 'gone' });
  },
);

const keepings: MemoryOptions[] = [
  { flavour: 'files' },
  { flavour: 'files', keepBy: 'move' },
  { flavour: 'objects' },
];
const localFiles: LocalFiles = { sizeOf: () => undefined };
const before = { a: 'old', gone: 'gone' };

/** Makes the first call of a kind fail: it is rejected, or its response is lost. */
function failing(storage: Storage, call: 'rename' | 'remove' | 'write', at: string, error: Error): Storage {
  const refuse = async (key: string): Promise<void> => {
    if (key === at) throw error;
  };
  return delegate(storage, {
    write: async (key, body, how) =>
      call === 'write'
        ? refuse(key).then(() => storage.write(key, body, how))
        : storage.write(key, body, how),
    async rename(moves) {
      for (const move of moves) {
        if (call === 'rename') await refuse(move.to);
        await storage.rename!([move]);
      }
    },
    remove: async (key) =>
      call === 'remove' ? refuse(key).then(() => storage.remove(key)) : storage.remove(key),
  });
}

for (const options_ of keepings) {
  const { flavour, keepBy = 'as it does' } = options_;
  const inPlace = flavour === 'objects';
  const refused = new WaybillError('storage_denied', 'no');
  const lost = new WaybillError('storage_transient', 'no answer');
  const writes = [output('a', 'new'), output('b', 'b'), output('z', 'z')];
  const points = [
    [inPlace ? 'write' : 'rename', 'z'],
    [inPlace ? 'write' : 'rename', 'b'],
    ['remove', 'gone'],
  ] as const;
  for (const [call, at] of points)
    t.test(`${flavour}, kept ${keepBy}: if ${call} ${at} is rejected, everything is restored`, async (t) => {
      const { storage, bare, lease, calls } = await layOut(flavour, undefined, {}, options_);
      const plan = planOf({ writes });
      const broken = failing(storage, call, at, refused);
      await t.rejects(apply(plan, { ...options, storage: broken, lease }), refused);
      t.same(Object.fromEntries(await snapshot(bare)), before);
      t.ok(calls.includes('restore'), 'including the state');
    });

  t.test(`${flavour}, kept ${keepBy}: if the commit is rejected, everything is restored`, async (t) => {
    const writeState = async ({ pending }: Catalog): Promise<void> => {
      if (pending === null) throw refused;
    };
    const { storage, bare, lease, calls } = await layOut(flavour, undefined, { writeState }, options_);
    await t.rejects(apply(planOf({ writes }), { ...options, storage, lease }), refused);
    t.same(Object.fromEntries(await snapshot(bare)), before);
    t.ok(calls.includes('restore'), 'including the state');
  });

  t.test(`${flavour}, kept ${keepBy}: after a change with a lost response, the intent stays`, async (t) => {
    const { storage, bare, lease, calls } = await layOut(flavour, undefined, {}, options_);
    const broken = failing(storage, ...points[0], lost);
    await t.rejects(apply(planOf({ writes }), { ...options, storage: broken, lease }), lost);
    t.same(Object.fromEntries(await snapshot(bare)), before, 'the files are unchanged');
    t.notOk(calls.includes('restore'), 'a late request would make the state wrong');
  });
}

t.test('does not restore an object that the server refused to change', async (t) => {
  const { storage, bare, lease, calls } = await layOut('objects');
  const refused = new WaybillError('storage_denied', 'no');
  const deny = async (key: string): Promise<void> => {
    if (key === 'gone' || key === 'new') throw refused;
  };
  const guarded: Storage = {
    ...storage,
    write: async (key, body, how) => deny(key).then(() => storage.write(key, body, how)),
    remove: async (key) => deny(key).then(() => storage.remove(key)),
    restore: async (kept) => deny(kept.key).then(() => storage.restore!(kept)),
  };
  for (const writes of [[output('a', 'new')], [output('a', 'new'), output('new', 'n')]]) {
    await t.rejects(apply(planOf({ writes }), { ...options, storage: guarded, lease }), refused);
    t.same(Object.fromEntries(await snapshot(bare)), before);
    t.ok(calls.includes('restore'));
    calls.length = 0;
  }
});

t.test('publishes even if old files cannot be kept, and leaves the intent after a failure', async (t) => {
  const { storage, bare, lease, calls } = await layOut('objects', undefined, {}, { keepBy: 'nothing' });
  const refused = new WaybillError('storage_denied', 'no');
  const plan = planOf({ writes: [output('a', 'new'), output('b', 'b')], removes: [] });
  await t.rejects(
    apply(plan, { ...options, storage: failing(storage, 'write', 'b', refused), lease }),
    refused,
  );
  t.notOk(calls.includes('restore'));
  t.same(Object.fromEntries(await snapshot(bare)), { a: 'new', gone: 'gone' });
  await apply(plan, { ...options, storage, lease });
  t.same(Object.fromEntries(await snapshot(bare)), { a: 'new', b: 'b', gone: 'gone' });
});

t.test('nothing is deleted after an unknown commit', async (t) => {
  const writeState = async ({ pending }: Catalog): Promise<void> => {
    if (pending === null) throw new WaybillError('commit_unknown', 'no answer');
  };
  const { storage, lease, calls } = await layOut('files', undefined, { writeState });
  await t.rejects(apply(planOf({ removes: [] }), { ...options, storage, lease }), { code: 'commit_unknown' });
  t.notOk(calls.some((call) => /^(remove|restore)/.test(call)));
});

t.test('staged files that are missing because the lease was lost are reported as a lost lease', async (t) => {
  let fences = 0;
  const fence = async (): Promise<void> => {
    fences += 1;
    if (fences > 1) throw leaseLost({ label: 'memory' }, 'another publisher holds it');
    await swept();
  };
  const { storage, bare, lease } = await layOut('files', undefined, { fence });
  const swept = async (): Promise<void> => bare.removeTree(listedKey('.publisher.tmp/attempt'));
  await t.rejects(apply(planOf({}), { ...options, storage, lease }), { code: 'lease_lost' });
});

t.test('records files of an interrupted attempt unchanged, and sweeps its unfinished files', async (t) => {
  const interrupted: Pending = {
    attemptId: 'before',
    owner,
    action: 'upsert_additive',
    startedAt: '2026-11-20T00:00:00.000Z',
    holder: null,
    renewals: 0,
    outputs: [record('left', 'left'), record('never', 'never')],
    removes: [],
  };
  const found = catalogOf([record('left', 'older')], interrupted);
  const { storage, lease, calls, written } = await layOut('objects', found);
  await put(storage, 'left', 'left');
  calls.length = 0;
  await apply(planOf({ writes: [output('a', 'new')], removes: [] }), { ...options, storage, lease });
  t.same(
    written.at(-1)?.outputs.map(({ path, digest }) => [path, digest]),
    [
      ['left', digestOf('left')],
      ['a', digestOf('new')],
    ],
  );
  const sequence = steps(calls);
  t.ok(sequence.indexOf('remove never') > sequence.indexOf('intent'), 'swept after the intent');
  t.ok(sequence.indexOf('remove never') < sequence.indexOf('write a'), 'and before the first output');
});

t.test('a forced replacement removes files as planned, and announces that', async (t) => {
  const { storage, bare, lease, written } = await layOut('files');
  await put(bare, 'deep/unmanaged', 'u');
  const removes = [listedKey('deep/unmanaged'), listedKey('gone')];
  const plan = planOf({ action: 'force_replace', clears: true, removes });
  await apply(plan, { ...options, storage, lease });
  t.same(written[0]?.pending?.removes.toSorted(), ['deep/unmanaged', 'gone']);
  t.same(await published(bare), { a: 'new', b: 'b' });
});

t.test('removes obstacles of a directory before the renames', async (t) => {
  const { storage, lease, calls } = await layOut('files');
  const plan = planOf({ writes: [output('gone/inner', 'i')] });
  await apply(plan, { ...options, storage, lease });
  const sequence = steps(calls);
  t.same(sequence.slice(3), [
    'keep gone',
    'fence',
    'remove gone',
    'rename .publisher.tmp/attempt/output-0 gone/inner',
    'commit',
  ]);
});

t.test('copies of another attempt are swept only under the lease', async (t) => {
  const { storage, bare, lease, calls } = await layOut('objects');
  await put(bare, '.publisher.tmp/dead/kept-0', 'left by another attempt');
  await apply(planOf({}), { ...options, storage, lease });
  t.equal(calls[calls.indexOf('removeTree .publisher.tmp/dead') - 1], 'check');
});

t.test('a missing file under the lease is reported as such', async (t) => {
  const { storage, lease } = await layOut('files');
  const missing = new WaybillError('storage_not_found', 'it is gone');
  const broken = failing(storage, 'rename', 'b', missing);
  await t.rejects(apply(planOf({}), { ...options, storage: broken, lease }), missing);
});

t.test(
  'the intent records each path once, keeps the time of the catalog, and names stored keys',
  async (t) => {
    const untouched = record('same', 'same');
    const found = catalogOf([record('a', 'old'), record('gone', 'gone'), untouched]);
    const { storage, lease, written } = await layOut('files', found);
    const clock = { ...testClock(), now: () => new Date('2026-11-21T00:00:00Z') };
    const removes = [listedKey('gone'), listedKey('odd//name')];
    await apply(planOf({ untouched: [untouched], removes }), { ...options, clock, storage, lease });
    const [intent, commit] = written;
    t.same(intent?.outputs.map(({ path }) => path).sort(), ['a', 'gone', 'same']);
    t.same(intent?.pending?.removes, ['gone'], 'a key that no catalog may contain is not announced');
    t.equal(intent?.updatedAt, found.updatedAt);
    t.equal(commit?.updatedAt, '2026-11-21T00:00:00.000Z');
  },
);

/** A lease that is lost once `lose` is called, as for a suspended process. */
function losable(): { check: () => void; lose: () => void } {
  let isLost = false;
  return {
    check: () => {
      if (isLost) throw leaseLost({ label: 'memory' }, 'not renewed in time');
    },
    lose: () => (isLost = true),
  };
}

t.test(
  'an attempt suspended past its lease during a failed write neither checks the lease nor restores',
  async (t) => {
    const { check, lose } = losable();
    const { storage, lease, calls } = await layOut('files', undefined, { check });
    const refused = new WaybillError('storage_denied', 'no');
    const broken: Storage = {
      ...storage,
      write: async () => {
        lose();
        throw refused;
      },
    };
    await t.rejects(apply(planOf({}), { ...options, storage: broken, lease }), refused);
    t.same(calls, ['intent'], 'not even a check of the lease');
  },
);

t.test('an attempt that is suspended while it checks its lease restores nothing', async (t) => {
  const { check, lose } = losable();
  let fences = 0;
  const fence = async (): Promise<void> => {
    fences += 1;
    if (fences === 2) lose();
  };
  const { storage, bare, lease, calls } = await layOut('objects', undefined, { check, fence });
  const refused = new WaybillError('storage_denied', 'no');
  const broken = failing(storage, 'write', 'z', refused);
  const writes = [output('a', 'new'), output('b', 'b'), output('z', 'z')];
  await t.rejects(apply(planOf({ writes }), { ...options, storage: broken, lease }), refused);
  t.equal(fences, 2);
  t.notOk(calls.some((call) => /^(remove|restore)/.test(call)));
  t.equal((await snapshot(bare)).get('a'), 'new', 'the next holder completes it');
});

t.test('does not check the lease again after it was reported lost', async (t) => {
  let fences = 0;
  const fence = async (): Promise<void> => {
    fences += 1;
    if (fences === 1) throw leaseLost({ label: 'memory' }, 'another publisher holds it');
  };
  const { storage, lease, calls } = await layOut('files', undefined, { fence });
  await t.rejects(apply(planOf({}), { ...options, storage, lease }), { code: 'lease_lost' });
  t.equal(fences, 1);
  t.notOk(calls.some((call) => /^(remove|restore)/.test(call)));
});

t.test(
  'on an object store, staging has only copies that may have been created, and only they are removed',
  async (t) => {
    const refused = new WaybillError('storage_denied', 'no');
    const emptied = (calls: readonly string[]): number =>
      calls.filter((call) => call === 'removeTree .publisher.tmp/attempt').length;
    const first = planOf({ action: 'publish_new', writes: [output('b', 'b')], removes: [] });
    const nothing = await layOut('objects');
    await apply(first, { ...options, ...nothing });
    t.equal(emptied(nothing.calls), 0, 'there were none');

    const failed = await layOut('objects');
    const broken = failing(failed.storage, 'write', 'b', refused);
    await t.rejects(apply(first, { ...options, ...failed, storage: broken }), refused);
    t.equal(emptied(failed.calls), 0, 'nor after a failure');

    const unkept = await layOut('objects', undefined, {}, { keepBy: 'nothing' });
    await apply(planOf({}), { ...options, ...unkept });
    t.equal(emptied(unkept.calls), 0, 'nothing was kept');

    const lost = await layOut('objects');
    const late: Storage = {
      ...lost.storage,
      backUp: async (key, aside) => {
        await lost.storage.backUp!(key, aside);
        throw refused;
      },
    };
    await t.rejects(apply(planOf({}), { ...options, ...lost, storage: late }), refused);
    t.equal(emptied(lost.calls), 1, 'a copy with a lost response counts as created');
    t.same(Object.fromEntries(await snapshot(lost.bare)), before);

    const files = await layOut('files', undefined, {}, { keepBy: 'copy' });
    await apply(planOf({}), { ...options, ...files });
    t.equal(emptied(files.calls), 0, 'on a file system, the release does it');
  },
);

t.test('a recorded but missing file is created, and removed again if the attempt fails', async (t) => {
  for (const flavour of ['files', 'objects'] as const) {
    const { storage, bare, lease, calls } = await layOut(flavour);
    await bare.remove(listedKey('a'));
    const refused = new WaybillError('storage_denied', 'no');
    const broken = failing(storage, 'remove', 'gone', refused);
    await t.rejects(apply(planOf({}), { ...options, storage: broken, lease }), refused);
    t.same(Object.fromEntries(await snapshot(bare)), { gone: 'gone' }, flavour);
    t.ok(calls.includes('restore'), flavour);
  }
});

t.test('a failure with an unknown result leaves the intent, except on a local disk', async (t) => {
  for (const [error, files, isRestored] of [
    [new Error('socket hang up'), undefined, false],
    [new WaybillError('storage_transient', 'no answer'), localFiles, true],
    [new WaybillError('storage_denied', 'no'), undefined, true],
  ] as const) {
    const { storage, bare, lease, calls } = await layOut('files');
    const broken = failing({ ...storage, localFiles: files }, 'rename', 'b', error);
    await t.rejects(apply(planOf({}), { ...options, storage: broken, lease }), error);
    t.equal(calls.includes('restore'), isRestored, error.message);
    t.same(Object.fromEntries(await snapshot(bare)), before);
  }
});

t.test('a removal that failed halfway and cannot be undone leaves the intent', async (t) => {
  const { storage, lease, calls } = await layOut('files');
  const halfway = new WaybillError('storage_transient', 'busy');
  const broken: Storage = {
    ...failing(storage, 'remove', 'gone', halfway),
    localFiles,
    restore: async ({ key }) => {
      if (key === 'gone') throw new WaybillError('storage_denied', 'no');
    },
  };
  await t.rejects(apply(planOf({}), { ...options, storage: broken, lease }), halfway);
  t.notOk(calls.includes('restore'));
});

t.test(
  'a moved file that cannot be restored leaves the intent, even if its removal was rejected',
  async (t) => {
    const { storage, lease, calls } = await layOut('files', undefined, {}, { keepBy: 'move' });
    const refused = new WaybillError('storage_denied', 'no');
    const broken: Storage = {
      ...failing(storage, 'remove', 'gone', refused),
      restore: async (kept) => {
        if (kept.key === 'gone') throw refused;
        await storage.restore!(kept);
      },
    };
    await t.rejects(apply(planOf({}), { ...options, storage: broken, lease }), refused);
    t.notOk(calls.includes('restore'));
  },
);

for (const flavour of ['files', 'objects'] as const)
  t.test(`${flavour}: a stopped attempt writes no further output, and restores everything`, async (t) => {
    const { storage, bare, lease, calls } = await layOut(flavour);
    const stop = new AbortController();
    const reason = new Error('stop');
    const onOutput = (): void => stop.abort(reason);
    const stopping = { ...options, storage, lease, signal: stop.signal, onOutput };
    await t.rejects(apply(planOf({}), stopping), reason);
    t.equal(calls.filter((call) => call.startsWith('write ')).length, 1);
    t.same(Object.fromEntries(await snapshot(bare)), before);
  });

t.test('keeps only files that may have existed before the attempt', async (t) => {
  const kept = (calls: readonly string[]): string[] => calls.filter((call) => call.startsWith('keep '));
  const writes = [output('a', 'new'), output('b', 'b')];
  const absent = { found: { state: { kind: 'absent' as const }, raw: null } };
  const invalid = { found: { state: { kind: 'invalid' as const, reason: 'x' }, raw: asFound } };
  for (const [what, overrides, plan, expected] of [
    ['recorded', {}, {}, ['keep a']],
    ['a first publication', absent, { action: 'publish_new' }, []],
    ['by force, without a catalog', absent, { action: 'force_replace', clears: true }, ['keep a', 'keep b']],
    ['by force, a broken one', invalid, { action: 'force_replace', clears: true }, ['keep a', 'keep b']],
    ['by force, a sound one', {}, { action: 'force_replace', clears: true }, ['keep a', 'keep b']],
  ] as const) {
    const { storage, bare, lease, calls } = await layOut('objects', undefined, overrides);
    await put(bare, 'b', 'unmanaged');
    const refused = new WaybillError('storage_denied', 'no');
    const broken = failing(storage, 'remove', 'gone', refused);
    const removes = [listedKey('gone')];
    const isForced = expected.length === 2;
    await apply(planOf({ ...plan, writes, removes: [] }), { ...options, storage, lease });
    t.same(kept(calls), expected, what);
    if (!isForced) continue;
    await put(bare, 'b', 'unmanaged');
    await t.rejects(
      apply(planOf({ ...plan, writes, removes }), { ...options, storage: broken, lease }),
      refused,
    );
    t.equal((await snapshot(bare)).get('b'), 'unmanaged', what);
  }
});

t.test('each output is written with its own headers only', async (t) => {
  const { storage, lease } = await layOut('objects');
  const headers: unknown[] = [];
  const noting: Storage = {
    ...storage,
    write: async (key, body, how) => {
      headers.push(how.headers);
      return storage.write(key, body, how);
    },
  };
  const typed = (path: string, contentType: string | null, cacheControl: string | null): PlannedOutput => ({
    ...output(path, path),
    generated: { contentType, cacheControl, generator: null },
  });
  const writes = [
    typed('a', null, null),
    typed('b', 'text/css', null),
    typed('c', null, 'no-cache'),
    typed('d', 'text/css', 'no-cache'),
  ];
  await apply(planOf({ writes, removes: [] }), { ...options, storage: noting, lease });
  t.same(headers, [
    {},
    { contentType: 'text/css' },
    { cacheControl: 'no-cache' },
    { contentType: 'text/css', cacheControl: 'no-cache' },
  ]);
});

t.test('checks the lease once more only before removals that follow writes in place', async (t) => {
  const { storage, lease, calls } = await layOut('objects');
  await apply(planOf({ removes: [] }), { ...options, storage, lease });
  t.equal(calls.filter((call) => call === 'fence').length, 1);
});

t.test('the state is removed with the last unpublished output, and only then', async (t) => {
  const unpublish = (overrides: Partial<Plan>): Work => ({
    ...planOf({ writes: [], ...overrides }),
    action: 'unpublish',
    bundle: null,
  });
  const removes = [listedKey('a'), listedKey('gone')];
  const last = await layOut('objects');
  await apply(unpublish({ removes }), { ...options, ...last });
  t.same(steps(last.calls).slice(-4), [
    'remove a',
    'remove gone',
    'removeTree .publisher.tmp/attempt',
    'remove state',
  ]);

  const others = await layOut('objects');
  const untouched = [record('a', 'old')];
  await apply(unpublish({ removes: [listedKey('gone')], untouched }), { ...options, ...others });
  t.same(steps(others.calls).slice(-2), ['commit', 'removeTree .publisher.tmp/attempt']);

  const replaced = await layOut('objects');
  await apply(planOf({ writes: [], removes }), { ...options, ...replaced });
  t.ok(replaced.calls.includes('commit'), 'an empty publication has a state');

  const refused = new WaybillError('storage_denied', 'no');
  const removeState = async (): Promise<void> => Promise.reject(refused);
  const failed = await layOut('objects', undefined, { removeState });
  await t.rejects(apply(unpublish({ removes }), { ...options, ...failed }), refused);
  t.notOk(failed.calls.includes('restore'), 'the copies are gone, so the intent stays');
  t.equal(failed.calls.filter((call) => call.startsWith('removeTree')).length, 1);
});

t.test('without a previous state, an undone attempt removes its copies before its intent', async (t) => {
  const absent = { found: { state: { kind: 'absent' as const }, raw: null } };
  const forced = planOf({ action: 'force_replace', clears: true });
  const refused = new WaybillError('storage_denied', 'no');
  const undone = await layOut('objects', undefined, absent);
  const broken = failing(undone.storage, 'remove', 'gone', refused);
  await t.rejects(apply(forced, { ...options, ...undone, storage: broken }), refused);
  t.same(
    undone.calls.filter((call) => call === 'restore' || call.startsWith('removeTree ')),
    ['removeTree .publisher.tmp/attempt', 'restore'],
  );
  t.same(Object.fromEntries(await snapshot(undone.bare)), before);

  const stuck = await layOut('objects', undefined, absent);
  const keeping: Storage = {
    ...failing(stuck.storage, 'remove', 'gone', refused),
    removeTree: async () => Promise.reject(refused),
  };
  await t.rejects(apply(forced, { ...options, ...stuck, storage: keeping }), refused);
  t.notOk(stuck.calls.includes('restore'), 'while copies exist, the intent stays');
});

t.test('a forced replacement takes over nothing from an interrupted attempt', async (t) => {
  const interrupted: Pending = {
    attemptId: 'before',
    owner,
    action: 'upsert_additive',
    startedAt: '2026-11-20T00:00:00.000Z',
    holder: null,
    renewals: 0,
    outputs: [record('left', 'left')],
    removes: [],
  };
  const { storage, bare, lease, calls, written } = await layOut('objects', catalogOf([], interrupted));
  await put(bare, 'left', 'left');
  const removes = [listedKey('gone')];
  const plan = planOf({ action: 'force_replace', clears: true, removes });
  await apply(plan, { ...options, storage, lease });
  t.notOk(
    calls.some((call) => call === 'read left'),
    'nor is it read',
  );
  t.same(
    written.map(({ outputs }) => outputs.map(({ path }) => path)),
    [[], ['a', 'b']],
  );
});

t.test('records outside of the plan are kept as planned, unless they were interrupted', async (t) => {
  const untouched = [record('same', 'same')];
  const absent = { found: { state: { kind: 'absent' as const }, raw: null } };
  const invalid = { found: { state: { kind: 'invalid' as const, reason: 'x' }, raw: asFound } };
  for (const overrides of [{}, absent, invalid]) {
    const { storage, lease, calls, written } = await layOut('files', undefined, overrides);
    await apply(planOf({ untouched }), { ...options, storage, lease });
    t.same(
      written.at(-1)?.outputs.map(({ path }) => path),
      ['same', 'a', 'b'],
    );
    t.notOk(calls.some((call) => call.startsWith('read ')));
  }
});

t.test('removes obstacles of a file before the renames', async (t) => {
  const { storage, bare, lease, calls } = await layOut('files');
  await put(bare, 'd/e/f', 'f');
  const plan = planOf({ writes: [output('d', 'd')], removes: [listedKey('d/e/f'), listedKey('gone')] });
  await apply(plan, { ...options, storage, lease });
  t.same(steps(calls).slice(-5), [
    'fence',
    'remove d/e/f',
    'rename .publisher.tmp/attempt/output-0 d',
    'remove gone',
    'commit',
  ]);
});

t.test('a forced replacement of objects makes no unnecessary requests', async (t) => {
  const { storage, lease, calls } = await layOut('objects', undefined, {
    found: { state: { kind: 'absent' }, raw: null },
  });
  await apply(planOf({ action: 'force_replace', clears: true }), { ...options, storage, lease });
  t.same(steps(calls), [
    'intent',
    'keep a',
    'keep b',
    'keep gone',
    'fence',
    'write a',
    'write b',
    'fence',
    'remove gone',
    'commit',
    'removeTree .publisher.tmp/attempt',
  ]);
});

t.test('existing content without a catalog counts as its first generation', async (t) => {
  const legacy = { kind: 'legacy' as const, version: 2 as const, records: [] };
  for (const [action, state, generations] of [
    ['publish_new', { kind: 'absent' as const }, [0, 1]],
    ['force_replace', { kind: 'absent' as const }, [1, 2]],
    ['upsert_additive', legacy, [1, 2]],
    ['replace_catalog', { kind: 'valid' as const, catalog: catalogOf([]) }, [7, 8]],
  ] as const) {
    const found = { state, raw: state.kind === 'absent' ? null : asFound };
    const { storage, lease, written } = await layOut('files', undefined, { found });
    await apply(planOf({ action, removes: [] }), { ...options, storage, lease });
    t.same(
      written.map(({ generation }) => generation),
      generations,
      action,
    );
  }
});

t.test('a superseded state does not list its files, so all overwritten files are kept', async (t) => {
  const state = { kind: 'legacy' as const, version: 2 as const, records: [] };
  const { storage, bare, lease } = await layOut('files', undefined, { found: { state, raw: asFound } });
  const before = await published(bare);
  const refused = new WaybillError('storage_denied', 'no');
  const broken = failing(storage, 'remove', 'gone', refused);
  await t.rejects(apply(planOf({}), { ...options, storage: broken, lease }), refused);
  t.same(await published(bare), before);
});

t.test('counts writes immediately and reports those that cannot be undone', async (t) => {
  for (const flavour of ['files', 'objects'] as const) {
    const { storage, lease } = await layOut(flavour);
    let bytes = 0;
    const modes: unknown[] = [];
    const noting: Storage = {
      ...storage,
      write: async (key, body, how) => {
        modes.push(how.mode);
        return storage.write(key, body, how);
      },
    };
    const onBytes = (count: number): void => void (bytes += count);
    await apply(planOf({}), { ...options, storage: noting, lease, onBytes });
    t.equal(bytes, 'new'.length + 'b'.length);
    t.same(modes, flavour === 'files' ? ['scratch', 'scratch'] : ['replace', 'replace']);
  }
  const warnings: object[] = [];
  const log = { ...silentLog, warn: (fields: object) => void warnings.push(fields) };
  const stuck = new WaybillError('storage_denied', 'stuck');
  const { storage, lease } = await layOut('files', undefined, {
    restoreState: async () => Promise.reject(stuck),
  });
  const refused = new WaybillError('storage_denied', 'no');
  const broken = failing(storage, 'remove', 'gone', refused);
  await t.rejects(apply(planOf({}), { ...options, log, storage: broken, lease }), refused);
  t.match(warnings, [{ err: stuck }]);
});

t.test('many files are renamed in parts, each of them once, pages last', async (t) => {
  const count = 70_000;
  const page = { ...output('page.html', 'page'), generated: { ...html, generator: null } };
  const writes = Array.from({ length: count }, (_, index) => output(`file-${index}`, 'x'));
  const { bare, lease } = await layOut('files', catalogOf([]));
  const calls: string[][] = [];
  const noting: Storage = {
    ...bare,
    write: async () => ({ size: 1, digest: digestOf('x'), version: null }),
    rename: async (moves) => void calls.push(moves.map(({ from, to }) => `${from} ${to}`)),
  };
  await apply(planOf({ writes: [page, ...writes], removes: [] }), { ...options, storage: noting, lease });
  t.same(
    calls.map(({ length }) => length),
    [32_768, 32_768, count - 2 * 32_768, 1],
  );
  const asked = [...writes, page].map(({ path }, index) => {
    const staged = index === count ? 0 : index + 1;
    return `.publisher.tmp/attempt/output-${staged} ${path}`;
  });
  t.ok(calls.flat().every((call, index) => call === asked[index]));
});
