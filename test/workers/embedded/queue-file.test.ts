import { fork, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { findFrames, frame, unframe } from '../../../src/workers/embedded/framing.ts';
import { openLmdb } from '../../../src/workers/embedded/lmdb-file.ts';
import { openQueueStore, type QueueStore } from '../../../src/workers/embedded/queue-store.ts';
import { readQueueFile } from '../../../src/workers/embedded/read-file.ts';
import { parseStoredRun } from '../../../src/workers/embedded/stored-run.ts';
import type { StoredRun } from '../../../src/workers/memory/journal.ts';
import type { LegacyRunRecord } from '../../../src/workers/queue/run-record.ts';
import { acceptedRun, queuedRun } from '../../../src/workers/queue/run-transitions.ts';
import { howMany, sampleOf } from '../../support/sampling.ts';

const open = (root: string): Promise<QueueStore> =>
  openQueueStore({
    directory: path.join(root, 'queue'),
    staging: path.join(root, 'staging'),
    clock: systemClock,
    log: silentLog,
  });

const fileIn = (root: string): string => path.join(root, 'queue/data.mdb');

/** A queue with this many waiting runs. */
async function filled(root: string, runs: number): Promise<void> {
  const store = await open(root);
  await accept(store, 'maps', runs);
  await store.close();
}

function accept({ journal }: QueueStore, pipelineId: string, runs: number): Promise<StoredRun[]> {
  return Promise.all(
    Array.from({ length: runs }, async (_, index) => {
      const job = { runId: `${pipelineId}.${index + 1}`, pipelineId, staged: null };
      const record = queuedRun(acceptedRun(job, new Date()), new Date());
      // Some are larger than a page of the file.
      const reported = index % 3 === 0 ? ['x'.repeat(6_000)] : [];
      const kept = { job, bundle: 'none', rerunAs: null, record, key: null, position: 1 } as const;
      const run = { ...kept, begun: 0, begunAt: null, reported };
      await journal.saveAccepted(run);
      return run;
    }),
  );
}

/** Like `filled`, after others were added and removed, so that its file has free pages. */
async function worn(root: string, runs: number): Promise<void> {
  const store = await open(root);
  await accept(store, 'maps', runs);
  for (let round = 0; round < 3; round += 1) {
    for (const run of await accept(store, `other-${round}`, 40)) store.journal.deleteRun(run);
    await store.journal.flushed();
  }
  await store.close();
}

t.test('no other user can read the queue, whatever the umask and earlier modes', async (t) => {
  const root = t.testdir();
  const umask = process.umask(0);
  t.teardown(() => process.umask(umask));
  const modeOf = (name: string): string =>
    (statSync(path.join(root, 'queue', name)).mode & 0o7777).toString(8);
  await filled(root, 1);
  t.same(['', 'data.mdb', 'data.mdb-lock'].map(modeOf), ['700', '600', '600']);
  chmodSync(fileIn(root), 0o644);
  await (await open(root)).close();
  t.equal(modeOf('data.mdb'), '600');
});

t.test('finds a value among other bytes, and rejects any that changed', async (t) => {
  const json = fc.json();
  fc.assert(
    fc.property(json, fc.uint8Array(), fc.uint8Array(), (value, before, after) => {
      t.equal(unframe('run/1', frame('run/1', value)), value);
      t.equal(unframe('run/2', frame('run/1', value)), undefined);
      const bytes = Buffer.concat([before, Buffer.from(frame('run/1', value)), after]);
      t.ok([...findFrames(bytes)].includes(value));
      const one = bytes.length - after.length - 1;
      bytes[one] = (bytes[one] ?? 0) ^ 1;
      t.notOk([...findFrames(bytes)].includes(value));
    }),
    { numRuns: howMany(200, 20) },
  );
  const whole = frame('k', '{}');
  for (const text of ['', 'waybill1', whole.slice(0, -1), whole.replace('{', '['), `${whole} `])
    t.equal(unframe('k', text), undefined, text);
});

t.test('restores runs in the order of acceptance', async (t) => {
  const root = t.testdir();
  await filled(root, 40);
  const store = await open(root);
  t.same(
    store.journal.runs.map(({ job }) => job.runId),
    Array.from({ length: 40 }, (_, index) => `maps.${index + 1}`),
  );
  await store.close();
});

t.test('converts runs of an earlier version', async (t) => {
  const job = { runId: 'maps.1', pipelineId: 'maps', staged: 'upload-0123456789abcdef', bundlePath: '.' };
  const record: LegacyRunRecord = acceptedRun(job, new Date());
  delete record.rerun_of;
  delete record.rerunnable;
  const kept = { job, record, key: null, position: 1, begun: 0, begunAt: null };
  const earlier = { ...kept, told: ['published'] };
  t.match(parseStoredRun(JSON.stringify(earlier)), {
    ...kept,
    reported: ['published'],
    bundle: 'staged',
    rerunAs: null,
    record: { ...record, rerun_of: null, rerunnable: false },
  });
  t.match(parseStoredRun(JSON.stringify({ ...earlier, job: { ...job, staged: null } })), { bundle: 'none' });
});

t.test('only one daemon at a time can use a directory', async (t) => {
  // Longer than the maximum address of a socket.
  const root = path.join(t.testdir(), 'a-name-of-some-length'.repeat(6));
  const first = await open(root);
  await t.rejects(open(root), {
    code: 'queue_unusable',
    message: /another daemon uses the queue in .*queue$/,
    hint: /server\.queue\.directory/,
  });
  await first.close();
  const many = await Promise.allSettled(Array.from({ length: 4 }, () => open(root)));
  const opened = many.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  t.equal(opened.length, 1, 'one of several concurrent processes gets it');
  for (const one of many)
    if (one.status === 'rejected') t.equal((one.reason as WaybillError).code, 'queue_unusable');
  for (const one of opened) await one.close();
});

t.test('the directory of a killed daemon is available immediately', async (t) => {
  const root = t.testdir();
  const module = new URL('../../../src/workers/embedded/queue-store.ts', import.meta.url).href;
  const script = `
    const { openQueueStore } = await import(${JSON.stringify(module)});
    const timeout = () => ({ cancel() {} });
    const log = { debug() {}, info() {}, warn() {}, error() {} };
    await openQueueStore({ directory: process.argv[1], staging: process.argv[1], clock: { timeout }, log });
    console.log('open');
    process.stdin.resume();`;
  const child = spawn(
    process.execPath,
    ['--import', 'tsx', '--input-type', 'module', '--eval', script, path.join(root, 'queue')],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  );
  t.teardown(() => child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  await t.rejects(open(root), { code: 'queue_unusable' });
  child.kill('SIGKILL');
  await once(child, 'exit');
  const store = await open(root);
  await store.close();
});

t.test(
  'accepts nothing while its file is not in its directory, since no restart would find it',
  async (t) => {
    const root = t.testdir();
    const store = await open(root);
    await accept(store, 'maps', 1);
    const moved = path.join(root, 'moved');
    renameSync(path.join(root, 'queue'), moved);
    const gone = { code: 'queue_unavailable', message: /moved, removed or replaced/ };
    t.throws(() => store.check(), gone, 'the health check fails');
    symlinkSync('queue', path.join(root, 'queue'));
    t.throws(() => store.check(), gone, 'its name cannot be resolved');
    rmSync(path.join(root, 'queue'));
    await t.rejects(accept(store, 'docs', 1), gone);
    mkdirSync(path.join(root, 'queue'));
    writeFileSync(fileIn(root), '');
    await t.rejects(accept(store, 'docs', 1), gone, 'another file has its name');
    rmSync(path.join(root, 'queue'), { recursive: true });
    renameSync(moved, path.join(root, 'queue'));
    await accept(store, 'docs', 1);
    t.doesNotThrow(() => store.check());
    await store.close();
  },
);

t.test('a power loss while the file is created leaves no file with its name', async (t) => {
  const root = t.testdir({ queue: { 'data.mdb.new': '\0'.repeat(8192) } });
  const store = await open(root);
  await store.close();
  t.same(
    readdirSync(path.join(root, 'queue')).filter((name) => name.includes('new')),
    [],
  );
});

t.test('rejects a newer version, with the fix', async (t) => {
  const root = t.testdir();
  await filled(root, 1);
  const file = openLmdb(fileIn(root));
  await file.commit(new Map([['meta/version', frame('meta/version', '2')]]));
  await file.close();
  await t.rejects(open(root), { code: 'queue_unusable', message: /is of version 2.*reads versions up to 1/ });
});

t.test('reports an unusable directory', async (t) => {
  const root = t.testdir({ queue: 'a file' });
  await t.rejects(open(root), {
    code: 'queue_unusable',
    message: /server\.queue\.directory .*cannot be used/,
  });
});

t.test('rejects a damaged file with its readable content, and never ends the process', async (t) => {
  const root = t.testdir();
  await filled(root, 60);
  const whole = readFileSync(fileIn(root));
  const copy = path.join(root, 'copy.mdb');
  const damages: Record<string, (bytes: Buffer) => Buffer> = {
    'cut in the middle': (bytes) => bytes.subarray(0, bytes.length / 2),
    'without its first pages': (bytes) => Buffer.concat([Buffer.alloc(8_192), bytes.subarray(8_192)]),
    'of another kind': () => Buffer.from('not a queue at all'),
  };
  const pages = whole.length / 4_096;
  const chosen = Array.from({ length: pages }, (_, page) => page).filter(
    (page) => page % Math.ceil(pages / howMany(24, 4)) === 0,
  );
  for (const page of chosen)
    damages[`page ${page} garbled`] = (bytes) => {
      const garbled = Buffer.from(bytes);
      for (let at = page * 4_096; at < (page + 1) * 4_096; at += 1) garbled[at] = (at * 31 + 7) & 0xff;
      return garbled;
    };
  let refused = 0;
  for (const [name, damage] of Object.entries(damages)) {
    writeFileSync(copy, damage(whole));
    try {
      const values = await readQueueFile(copy);
      const runs = [...values.keys()].filter((key) => key.startsWith('run/'));
      t.equal(runs.length, 60, `${name}: the damage hit no used bytes`);
    } catch (error) {
      refused += 1;
      t.match(error, { code: 'queue_unusable' }, name);
      const { message, hint } = error as WaybillError;
      t.match(message, copy);
      t.match(message, /is damaged: .*\. \d+ runs can be read in it/);
      t.match(hint, /move it away/);
      if (name.startsWith('page') || name.startsWith('without'))
        t.match(message, /[4-6]\d runs can be read in it, of which [4-6]\d had not finished: maps\./, name);
    }
  }
  t.ok(refused >= 3, 'most of it was detected');
});

/** Pages in which only a writer notices damage: free pages, and the transaction of a page. */
const hits: Record<string, (page: Buffer) => void> = {
  zeroed: (page) => void page.fill(0),
  garbled: (page) => page.forEach((_, at) => (page[at] = (at * 31 + 7) & 0xff)),
  'of a later transaction': (page) => void page.writeBigUInt64LE(0x4100n + page.readBigUInt64LE(8), 8),
};

t.test('a file that passes the check is writable and current, whichever page was damaged', async (t) => {
  const root = t.testdir();
  await worn(root, 30);
  const whole = readFileSync(fileIn(root));
  const pages = whole.length / 4_096;
  const chosen = Array.from({ length: pages }, (_, page) => page).filter(
    (page) => page < 8 || page % 5 === 0,
  );
  const all = Object.entries(hits).flatMap(([name, hit]) =>
    chosen.map((page) => ({ name: `page ${page} ${name}`, page, hit })),
  );
  const copy = path.join(root, 'copy');
  mkdirSync(path.join(copy, 'queue'), { recursive: true });
  const passed: string[] = [];
  let refused = 0;
  for (const { name, page, hit } of sampleOf(all, 40, 'pages that are hit')) {
    const bytes = Buffer.from(whole);
    hit(bytes.subarray(page * 4_096, (page + 1) * 4_096));
    writeFileSync(fileIn(copy), bytes);
    try {
      const runs = [...(await readQueueFile(fileIn(copy))).keys()].filter((key) => key.startsWith('run/'));
      t.equal(runs.length, 30, `${name}: the damage hit no used bytes`);
      // Starting a process for each takes some time.
      if (passed.push(name) % 6 === 1) t.same(used(copy), { status: 0, signal: null }, name);
    } catch (error) {
      refused += 1;
      t.match(error, { code: 'queue_unusable' }, name);
    }
  }
  t.ok(refused >= 10 && passed.length >= 5, `${refused} rejected, ${passed.length} harmless`);
});

/** The exit of a process that opens the queue and uses all of its pages again. */
function used(root: string): { status: number | null; signal: string | null } {
  const module = new URL('../../../src/workers/embedded/queue-store.ts', import.meta.url).href;
  const script = `
    const { openQueueStore } = await import(${JSON.stringify(module)});
    const timeout = () => ({ cancel() {} });
    const log = { debug() {}, info() {}, warn() {}, error() {} };
    const keepAlive = setInterval(() => undefined, 1000);
    const { journal, close } = await openQueueStore({ directory: process.argv[1], staging: '.', clock: { timeout }, log });
    for (let round = 0; round < 4; round += 1) {
      for (const run of journal.runs) journal.saveChange({ ...run, reported: ['y'.repeat(9_000 * round)] });
      await journal.flushed();
    }
    await close();
    clearInterval(keepAlive);`;
  const args = ['--import', 'tsx', '--input-type', 'module', '--eval', script, path.join(root, 'queue')];
  const { status, signal } = spawnSync(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] });
  return { status, signal };
}

t.test('answers requests sent before the reader was ready', async (t) => {
  const root = t.testdir({ staging: {} });
  await filled(root, 3);
  const late = 'data:text/javascript,await new Promise((go) => setTimeout(go, 300))';
  const child = fork(path.resolve('src/workers/embedded/file-reader.ts'), [], {
    execArgv: ['--import', 'tsx', '--import', late],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    serialization: 'advanced',
  });
  const answers: object[] = [];
  child.on('message', (answer: object) => answers.push(answer));
  child.send(fileIn(root));
  t.same(await once(child, 'close'), [0, null]);
  t.match(answers, [{ entries: Array }, { failure: null }]);
});
