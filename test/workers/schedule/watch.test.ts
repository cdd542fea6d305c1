import { watch } from 'node:fs';
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { type Log, silentLog } from '../../../src/core/lib/log.ts';
import { memoryQueue } from '../../../src/workers/memory/memory-queue.ts';
import { watchSource } from '../../../src/workers/schedule/watch-source.ts';
import {
  isRemote,
  WatchedTree,
  type WatchedTreeOptions,
} from '../../../src/workers/schedule/watched-tree.ts';
import { runResult } from '../../contract/queue.ts';
import { manualClock } from '../manual-clock.ts';
import { newTally, until } from './hosts.ts';

/** A tree that counts detected changes. */
function openTree(t: Test, root: string, options: Partial<WatchedTreeOptions> = {}) {
  let noticed = 0;
  const tree = new WatchedTree(root, { onChange: () => void (noticed += 1), ...options });
  t.teardown(() => tree.close());
  /** Waits until a change since the start of `work` was detected, and returns the current state. */
  const after = async (work: () => Promise<unknown>): Promise<string | null> => {
    const before = noticed;
    await work();
    await until(
      () => noticed,
      (count) => count > before,
    );
    return tree.read();
  };
  return { tree, after };
}

t.test('detects every kind of change at any depth, and in the signature of the tree', async (t) => {
  const root = t.testdir({ one: { 'a.txt': 'a', deep: { 'b.txt': 'b' } }, two: {} });
  const at = (...names: string[]): string => path.join(root, ...names);
  const { tree, after } = openTree(t, root);
  const states = [await tree.read()];
  t.equal(await tree.read(), states[0], 'the same tree has the same signature');
  t.equal(tree.failure, null);
  for (const work of [
    () => writeFile(at('one/deep/c.txt'), 'c'),
    () => writeFile(at('one/a.txt'), 'longer'),
    () => rename(at('one/a.txt'), at('two/a.txt')),
    () => mkdir(at('three')),
    () => writeFile(at('three/new.txt'), 'in a directory that was not there'),
    () => rename(at('three'), at('two/three')),
    () => writeFile(at('two/three/new.txt'), 'in one that was moved'),
    () => rm(at('one'), { recursive: true }),
    () => mkdir(at('one')),
    () => writeFile(at('one/again.txt'), 'in one that was made again'),
    () => symlink('again.txt', at('one/link')),
  ])
    states.push(await after(work));
  t.notOk(states.includes(null));
  t.equal(new Set(states).size, states.length, 'no two states are the same');
});

t.test('watches a replaced directory again, and a deleted one once it is back', async (t) => {
  const parent = t.testdir({ root: { 'a.txt': 'a' }, other: { 'b.txt': 'b' } });
  const root = path.join(parent, 'root');
  const { tree, after } = openTree(t, root);
  const first = await tree.read();
  const second = await after(async () => {
    await rename(root, path.join(parent, 'old'));
    await rename(path.join(parent, 'other'), root);
  });
  t.not(second, first);
  t.not(await after(() => writeFile(path.join(root, 'c.txt'), 'c')), second, 'the new directory is watched');
  t.equal(await after(() => rm(root, { recursive: true })), null);
  t.match(tree.failure, /ENOENT/);
  await mkdir(root);
  t.ok(await tree.read());
  t.equal(tree.failure, null);
  t.ok(await after(() => writeFile(path.join(root, 'd.txt'), 'd')));
});

t.test('if a directory cannot be watched, it is polled, and watched again later', async (t) => {
  const root = t.testdir({ one: {}, two: {} });
  let left = 1;
  const watchDirectory = ((...args: Parameters<typeof watch>) => {
    left -= 1;
    if (left < 0)
      throw Object.assign(new Error('ENOSPC: System limit for number of file watchers reached'), {
        code: 'ENOSPC',
      });
    return watch(...args);
  }) as typeof watch;
  const { tree, after } = openTree(t, root, { watchDirectory });
  const first = await tree.read();
  t.match(tree.failure, /ENOSPC/);
  await writeFile(path.join(root, 'one/a.txt'), 'a');
  t.not(await tree.read(), first);
  left = 100;
  t.ok(await tree.read());
  t.match(tree.failure, /ENOSPC/, 'not automatically');
  tree.retry();
  t.ok(await tree.read());
  t.equal(tree.failure, null);
  t.ok(await after(() => writeFile(path.join(root, 'two/b.txt'), 'b')));
});

t.test('network file systems are only polled', async (t) => {
  const root = t.testdir({ one: {} });
  const { tree } = openTree(t, root, { fileSystemOf: async () => 0x6969 });
  t.ok(await tree.read());
  t.match(tree.failure, process.platform === 'linux' ? /network file system/ : null);
  t.notOk(isRemote(0xef53), 'ext4');
});

interface Line {
  message: string;
  fields: Record<string, unknown>;
}

/** A pipeline whose source is watched, with its own clock. */
function watching(t: Test, directory: string, options: { watchDirectory?: typeof watch; host?: Host } = {}) {
  const clock = manualClock();
  const { queue, begun, tally } = options.host ?? openHost(t);
  const lines: Line[] = [];
  const note = (fields: object, message: string): void => void lines.push({ message, fields: { ...fields } });
  const log: Log = { ...silentLog, info: note, warn: note };
  const stop = new AbortController();
  const { observer } = tally;
  const { signal } = stop;
  const { watchDirectory } = options;
  const common = {
    pipelineId: 'maps',
    directory,
    settleMs: 2_000,
    clock,
    log,
    signal,
    observer,
    watchDirectory,
  };
  const done = watchSource({ ...common, triggers: queue.triggers });
  const close = async (): Promise<void> => {
    stop.abort(new Error('closed'));
    await done;
  };
  t.teardown(close);
  /** Advances time, a second at a time, until this many runs have begun. */
  const runs = (count: number) =>
    until(
      async () => {
        await clock.advance(1_000);
        return begun.length;
      },
      (length) => length >= count,
    );
  return { clock, queue, begun, tally, lines, runs, close };
}

type Host = ReturnType<typeof openHost>;

function openHost(t: Test) {
  const queue = memoryQueue({
    clock: systemClock,
    log: silentLog,
    queueSize: 1,
    maxConcurrency: 1,
    retentionMs: 60_000,
    onExpire: async () => undefined,
  });
  t.teardown(() => queue.close(0));
  const begun: string[] = [];
  let open: () => void = () => undefined;
  let gate = Promise.resolve();
  void queue.start(async ({ runId }) => {
    begun.push(runId);
    await gate;
    return runResult('ok');
  });
  const hold = (): void => void (gate = new Promise((resolve) => (open = resolve)));
  return { queue, begun, tally: newTally(), hold, release: () => open() };
}

t.test(
  'a change starts a run once the source is stable, and so does the first check after the start',
  async (t) => {
    const root = t.testdir({ one: { 'a.txt': 'a' } });
    const { clock, queue, begun, lines, runs } = watching(t, root);
    await runs(1);
    t.match(await queue.find(begun[0] ?? ''), { triggered_by: { kind: 'watch', tick: null } });
    await clock.advance(120_000);
    t.equal(begun.length, 1, 'nothing has changed');

    // It is not stable as long as it is written to.
    for (let second = 0; second < 6; second++) {
      await writeFile(path.join(root, 'one/a.txt'), 'b'.repeat(second + 2));
      await clock.advance(1_000);
    }
    const early = begun.length;
    await runs(2);
    await clock.advance(120_000);
    t.equal(begun.length, 2, 'one for all changes');
    t.equal(early, 1);
    t.same(
      lines.map(({ message }) => message),
      Array(2).fill('run started by a change of its source'),
    );
  },
);

t.test('a source that keeps changing is logged once, and published when it is left alone', async (t) => {
  const root = t.testdir({ 'a.txt': 'a' });
  const { clock, begun, lines, runs } = watching(t, root);
  await runs(1);
  const isLogged = (): boolean =>
    lines.some(({ message }) => message.startsWith('the source keeps changing'));
  let writes = 0;
  const change = async (): Promise<void> => {
    writes += 1;
    await writeFile(path.join(root, 'a.txt'), 'a'.repeat(writes + 1));
    await clock.advance(1_000);
  };
  while (!isLogged()) await change();
  for (let count = 0; count < 60; count += 1) await change();
  t.equal(begun.length, 1);
  await runs(2);
  t.match(
    lines.map(({ message }) => message),
    [/^run started/, /^the source keeps changing/, /^run started/],
  );
  t.match(lines[1]?.fields, { pipeline_id: 'maps', directory: root, settle: '2s' });
});

t.test('changes during a run start exactly one more run after it', async (t) => {
  const root = t.testdir({ 'a.txt': 'a' });
  const host = openHost(t);
  host.hold();
  const { clock, begun, tally, runs } = watching(t, root, { host });
  await runs(1);
  for (let change = 1; change <= 3; change++) {
    await writeFile(path.join(root, `${change}.txt`), 'b');
    await until(
      async () => {
        await clock.advance(1_000);
        return (tally.counts['started'] ?? 0) + (tally.counts['coalesced'] ?? 0);
      },
      (count) => count > change,
    );
  }
  t.same(tally.counts, { started: 2, coalesced: 2 });
  host.release();
  await runs(2);
  await clock.advance(120_000);
  t.equal(begun.length, 2);
});

t.test('hosts that share a directory start one run per change', async (t) => {
  const root = t.testdir({ 'a.txt': 'a' });
  const host = openHost(t);
  const [one, other] = [watching(t, root, { host }), watching(t, root, { host })];
  await one.runs(1);
  await other.clock.advance(60_000);
  await writeFile(path.join(root, 'b.txt'), 'b');
  await other.runs(2);
  await one.clock.advance(120_000);
  await other.clock.advance(120_000);
  t.equal(host.begun.length, 2);
  await one.close();
  await other.close();
  const again = watching(t, root, { host });
  await again.clock.advance(60_000);
  await writeFile(path.join(root, 'c.txt'), 'c');
  await again.runs(3);
  t.equal(host.begun.length, 3, 'changes seen before a restart start no run after it');
});

t.test('a lost source is reported once, polled until it is back, and watched again', async (t) => {
  const parent = t.testdir({ root: { 'a.txt': 'a' } });
  const root = path.join(parent, 'root');
  const { clock, begun, lines, runs } = watching(t, root);
  await runs(1);
  await rename(root, path.join(parent, 'gone'));
  await until(
    async () => {
      await clock.advance(1_000);
      return lines.length;
    },
    (count) => count === 2,
  );
  await clock.advance(60_000);
  t.equal(begun.length, 1, 'a missing source starts nothing');
  await mkdir(root);
  await writeFile(path.join(root, 'b.txt'), 'b');
  await runs(2);
  t.match(
    lines.map(({ message }) => message),
    [/^run started/, /^the source cannot be watched/, /^the source is watched again/, /^run started/],
  );
  t.match(lines[1]?.fields, { pipeline_id: 'maps', reason: /ENOENT/ });
});

t.test('without watches, a source is polled, and a watch is retried every ten minutes', async (t) => {
  const root = t.testdir({ 'a.txt': 'a' });
  let isFull = true;
  const watchDirectory = ((...args: Parameters<typeof watch>) => {
    if (isFull) throw new Error('ENOSPC: System limit for number of file watchers reached');
    return watch(...args);
  }) as typeof watch;
  const { begun, lines, runs, clock } = watching(t, root, { watchDirectory });
  await runs(1);
  await writeFile(path.join(root, 'b.txt'), 'b');
  await runs(2);
  t.equal(lines.filter(({ message }) => message.startsWith('the source cannot')).length, 1);
  isFull = false;
  await until(
    async () => {
      await clock.advance(10_000);
      return lines.at(-1)?.message;
    },
    (message) => message === 'the source is watched again',
  );
  await writeFile(path.join(root, 'c.txt'), 'c');
  await runs(3);
  t.equal(begun.length, 3);
});
