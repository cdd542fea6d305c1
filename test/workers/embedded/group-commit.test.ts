import t from 'tap';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { GroupCommit } from '../../../src/workers/embedded/group-commit.ts';
import { manualClock } from '../manual-clock.ts';

type Entries = ReadonlyMap<string, string | null>;

/** Commits that the test completes, or fails, one by one. */
function harness({ duringSync = async (): Promise<void> => undefined } = {}) {
  const clock = manualClock();
  const commits: { entries: Entries; done: () => void; fail: (error: unknown) => void }[] = [];
  const health: (string | null)[] = [];
  const synced: string[][] = [];
  const failures = new Map<string, unknown>();
  let onCommit = (): void => undefined;
  const writes = new GroupCommit({
    clock,
    timeoutMs: 10_000,
    sync: async (directories) => {
      synced.push([...directories]);
      await duringSync();
      return failures;
    },
    commit: (entries) =>
      new Promise((resolve, reject) => {
        commits.push({ entries, done: resolve, fail: reject });
        onCommit();
      }),
    onHealth: (failure) => void health.push(failure?.code ?? null),
  });
  /** The n-th commit, once it has begun. */
  const commit = async (n: number) => {
    while (commits.length < n) await new Promise<void>((resolve) => (onCommit = resolve));
    return commits[n - 1]!;
  };
  const add = (key: string, directory: string | null = null) =>
    writes.add({ key, value: () => `${key}!`, directory });
  return { clock, writes, commits, commit, health, synced, failures, add };
}

t.test('batches work that arrives during a transaction into the next one', async (t) => {
  const { commit, commits, synced, add, writes } = harness();
  const first = add('a', '/staging/a');
  const one = await commit(1);
  const others = ['b', 'c', 'd'].map((key) => add(key, `/staging/${key}`));
  writes.set('e', () => 'old');
  writes.set('e', () => 'new');
  writes.set('f', () => 'gone');
  writes.set('f', null);
  t.same(commits.length, 1);
  one.done();
  await first;
  const two = await commit(2);
  t.same([...one.entries], [['a', 'a!']]);
  t.same(new Map(two.entries), new Map(Object.entries({ b: 'b!', c: 'c!', d: 'd!', e: 'new', f: null })));
  t.same(synced, [['/staging/a'], ['/staging/b', '/staging/c', '/staging/d']]);
  two.done();
  await Promise.all(others);
  t.equal(await writes.close(1_000), true);
});

t.test('changes during the sync of staged bundles are written in the next transaction', async (t) => {
  const state = { event: 'nothing', arrived: 'as accepted' };
  const { commit, writes } = harness({
    duringSync: async () => {
      if (state.event !== 'nothing') return;
      // Stores an event and marks the run as notified in the same transaction.
      state.event = 'published';
      state.arrived = 'as changed';
      writes.set('event', () => 'published');
      writes.set('run', () => state.event);
    },
  });
  writes.set('run', () => state.event);
  const added = writes.add({ key: 'arriving', value: () => state.arrived, directory: '/staging/a' });
  const one = await commit(1);
  t.same(new Map(one.entries), new Map(Object.entries({ run: 'nothing', arriving: 'as accepted' })));
  one.done();
  await added;
  const two = await commit(2);
  t.same(new Map(two.entries), new Map(Object.entries({ event: 'published', run: 'published' })));
  two.done();
  t.equal(await writes.close(1_000), true);
});

t.test('a failed transaction rejects added entries and retries changes', async (t) => {
  const { clock, commit, commits, health, add, writes } = harness();
  const added = add('a');
  writes.set('b', () => '1');
  writes.set('c', () => '1');
  const one = await commit(1);
  writes.set('c', () => '2');
  one.fail(new WaybillError('insufficient_storage', 'the disk of the queue is full'));
  await t.rejects(added, { code: 'insufficient_storage' });
  t.equal(writes.failure?.code, 'insufficient_storage');
  writes.set('a', null);
  t.equal(commits.length, 1, 'not immediately: no caller waits for it');
  await clock.advance(5_000);
  const two = await commit(2);
  t.same(new Map(two.entries), new Map(Object.entries({ b: '1', c: '2', a: null })));
  two.fail(new Error('the disk is gone'));
  const later = add('d');
  const three = await commit(3);
  t.same(new Map(three.entries), new Map(Object.entries({ b: '1', c: '2', a: null, d: 'd!' })));
  three.done();
  await later;
  t.equal(writes.failure, null);
  t.same(health, ['insufficient_storage', 'queue_unavailable', null]);
  t.equal(await writes.close(1_000), true);
});

t.test('settles a write once it succeeds, after any number of failures', async (t) => {
  const { clock, commit, writes } = harness();
  writes.set('a', () => '1');
  const one = await commit(1);
  const order: string[] = [];
  const settled = writes.settled().then(() => order.push('settled'));
  writes.set('b', () => '1');
  one.done();
  const two = await commit(2);
  t.same(order, [], 'b came in the same turn, so a reader cannot distinguish them');
  two.fail(new Error('the disk is gone'));
  await clock.advance(5_000);
  const three = await commit(3);
  t.same([...three.entries], [['b', '1']]);
  t.same(order, []);
  order.push('written');
  three.done();
  await settled;
  t.same(order, ['written', 'settled']);
  await writes.settled();
  t.equal(await writes.close(1_000), true, 'without writes, it settles immediately');
});

t.test('an upload that cannot become durable does not reject the others', async (t) => {
  const { commit, failures, add, writes } = harness();
  failures.set('/staging/a', new Error('gone'));
  const [a, b] = [add('a', '/staging/a'), add('b', '/staging/b')];
  void a.catch(() => undefined);
  const one = await commit(1);
  t.same([...one.entries], [['b', 'b!']]);
  one.done();
  await b;
  await t.rejects(a, { message: 'gone' });
  t.equal(await writes.close(1_000), true);
});

t.test(
  'a disk that does not answer causes a rejection in time, and rejected entries are reverted',
  async (t) => {
    const { clock, commit, commits, health, add, writes } = harness();
    const first = add('a');
    const one = await commit(1);
    const second = add('b');
    await Promise.all([
      t.rejects(first, { code: 'queue_unavailable', message: /not answered for 10 s/ }),
      t.rejects(second, { code: 'queue_unavailable' }),
      clock.advance(10_000),
    ]);
    t.equal(writes.failure?.code, 'queue_unavailable');
    for (const key of ['a', 'b']) writes.set(key, null);
    const closing = writes.close(5_000);
    await clock.advance(5_000);
    t.equal(await closing, false, 'close does not wait for it');
    t.equal(commits.length, 1);
    one.done();
    const two = await commit(2);
    t.same(new Map(two.entries), new Map(Object.entries({ a: null, b: null })), 'once it answers again');
    two.done();
    await new Promise((resolve) => setImmediate(resolve));
    t.same(health, ['queue_unavailable', null]);
  },
);

t.test('writes entries that are set or added during another write', async (t) => {
  const { commit, add, writes } = harness();
  const begun = async (n: number): Promise<void> => (await commit(n)).done();
  // Any number of steps that the waiting caller needs to continue.
  for (const [round, steps] of [0, 1, 2, 3, 4, 5, 8].entries()) {
    const wait = async (): Promise<void> => {
      for (let step = 0; step < steps; step += 1) await Promise.resolve();
    };
    const number = 3 * round;
    const first = add(`a${round}`);
    await begun(number + 1);
    await first;
    await wait();
    writes.set(`b${round}`, () => 'b');
    const settled = writes.settled();
    await begun(number + 2);
    await settled;
    await wait();
    const last = add(`c${round}`);
    await begun(number + 3);
    await last;
  }
  t.equal(await writes.close(1_000), true);
});
