import { spawnSync } from 'node:child_process';
import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { Readable } from 'node:stream';
import t, { type Test } from 'tap';
import { type Digest, digestOf, hexOf } from '../../../src/core/lib/digest.ts';
import { type Log, silentLog } from '../../../src/core/lib/log.ts';
import { contentLimits, shortageOf } from '../../../src/workers/staging/content-limits.ts';
import {
  type ContentOptions,
  type ContentStore,
  openContentStore,
} from '../../../src/workers/staging/content-store.ts';
import { stageWithContent } from '../../../src/workers/staging/stage-with-content.ts';
import { type ManualClock, manualClock } from '../manual-clock.ts';

/** Storage of uploaded files: per pipeline, with a retention and a limit. */

const block = 4096;

interface Settings extends Partial<Pick<ContentOptions, 'log' | 'shortage' | 'yieldToEventLoop'>> {
  maxBytes?: number;
  ageMs?: number;
}

interface Place {
  staging: string;
  clock: ManualClock;
  open: (settings?: Settings) => Promise<ContentStore>;
  /** A file as if it had been staged. */
  file: (text: string) => { digest: Digest; size: number; file: string };
  /** The path of a stored file. */
  target: () => string;
}

function place(t: Test): Place {
  const staging = t.testdir({ staged: {} });
  const clock = manualClock(new Date());
  let count = 0;
  const name = (): string => path.join(staging, 'staged', String((count += 1)));
  return {
    staging,
    clock,
    open: ({ maxBytes = 3 * block, ageMs = 3_600_000, ...others } = {}) =>
      openContentStore({
        ...{ staging, clock, log: silentLog, shortage: async () => 0, ...others },
        ...contentLimits({ maxBytes, ageMs }, () => block),
      }),
    file: (text) => {
      const file = name();
      writeFileSync(file, text);
      return { digest: digestOf(text), size: text.length, file };
    },
    target: name,
  };
}

/** The size of all stored files on the disk. */
function onDisk(staging: string): number {
  const root = path.join(staging, 'content');
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(path.join(entry.parentPath, entry.name)).size, 0);
}

t.test('a file is stored for its pipeline only, and placed as a link', async (t) => {
  const { open, file, target } = place(t);
  const store = await open();
  const one = file('one');
  await store.forPipeline('maps').keep([one]);
  t.same(store.missing('maps', [one.digest, digestOf('two')]), [digestOf('two')]);
  t.same(store.missing('docs', [one.digest]), [one.digest], 'another pipeline does not see it');
  t.equal(await store.forPipeline('docs').place(one.digest, target()), null);
  rmSync(one.file);
  const placed = target();
  t.equal(await store.forPipeline('maps').place(one.digest, placed), 3);
  t.equal(readFileSync(placed, 'utf8'), 'one');
  t.equal(statSync(placed).nlink, 2, 'no byte was copied');
  t.same(store.stats(), { files: 1, bytes: block });
  await store.close();
});

t.test('evicts the least recently used file first, and does not keep oversized ones', async (t) => {
  const { staging, open, file, target } = place(t);
  const store = await open();
  const [one, two, three, four] = ['one', 'two', 'three', 'four'].map(file) as [
    ReturnType<typeof file>,
    ReturnType<typeof file>,
    ReturnType<typeof file>,
    ReturnType<typeof file>,
  ];
  const kept = store.forPipeline('maps');
  await kept.keep([one, two, three]);
  await kept.place(one.digest, target());
  t.same(store.missing('maps', [two.digest]), [], 'a request counts as a use');
  await kept.keep([four]);
  t.same(store.missing('maps', [one.digest, two.digest, three.digest, four.digest]), [three.digest]);
  await kept.keep([{ ...file('x'), size: 3 * block + 1 }]);
  t.same(store.stats(), { files: 3, bytes: 3 * block });
  t.equal(onDisk(staging), 'onetwofour'.length);
  const empty = readdirSync(path.join(staging, 'content'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .filter(({ parentPath, name }) => readdirSync(path.join(parentPath, name)).length === 0);
  t.same(empty, [], 'a removed file leaves no empty directory');
  await store.forPipeline('docs').keep([three]);
  t.same(store.stats(), { files: 4, bytes: 4 * block }, 'each pipeline has a separate limit');
  await store.close();
});

t.test('treats a damaged file as missing, and stores it again when it is uploaded', async (t) => {
  const { staging, open, file, target } = place(t);
  const store = await open();
  const one = file('one');
  const kept = store.forPipeline('maps');
  for (const damage of [
    () => writeFileSync(one.file, 'ONE'),
    () => writeFileSync(one.file, ''),
    () => rmSync(path.join(staging, 'content'), { recursive: true }),
    () => {
      const hex = hexOf(one.digest);
      const place = path.join(staging, 'content', 'maps', hex.slice(0, 2), hex);
      rmSync(place);
      mkdirSync(place);
    },
  ]) {
    writeFileSync(one.file, 'one');
    await kept.keep([one]);
    t.same(store.missing('maps', [one.digest]), []);
    damage();
    const placed = target();
    t.equal(await kept.place(one.digest, placed), null, String(damage));
    t.throws(() => statSync(placed), 'no file is left at its path');
    t.same(store.missing('maps', [one.digest]), [one.digest]);
  }
  await store.close();
});

t.test('stored files survive the process, within the limits', async (t) => {
  const { staging, open, file, target } = place(t);
  const before = await open();
  const [one, two] = [file('one'), file('two')];
  await before.forPipeline('maps').keep([one, two]);
  await before.forPipeline('docs').keep([one]);
  // Like a kill: the directory is not released, and the system releases the lock.
  await before.close();
  const after = await open();
  t.same(after.missing('maps', [one.digest, two.digest]), []);
  t.same(after.missing('docs', [one.digest, two.digest]), [two.digest]);
  t.equal(await after.forPipeline('maps').place(two.digest, target()), 3);
  await after.close();

  const smaller = await open({ maxBytes: block });
  t.same(smaller.stats(), { files: 2, bytes: 2 * block }, 'one of each pipeline');
  await smaller.close();
  const off = await open({ maxBytes: 0 });
  t.equal(off.isEnabled, false);
  t.same(off.stats(), { files: 0, bytes: 0 });
  t.equal(onDisk(staging), 0);
  await off.forPipeline('maps').keep([one]);
  t.same(off.missing('maps', [one.digest]), [one.digest]);
  await off.close();
});

t.test('sweeps files that are unused for too long, and all of them if the disk is full', async (t) => {
  const { clock, open, file } = place(t);
  const store = await open({ ageMs: 3_600_000 });
  const [one, two] = [file('one'), file('two')];
  await store.forPipeline('maps').keep([one, two]);
  await clock.advance(3_000_000);
  store.missing('maps', [two.digest]);
  await clock.advance(660_000);
  t.same(store.stats(), { files: 1, bytes: block });
  t.same(store.missing('maps', [one.digest, two.digest]), [one.digest]);
  await store.clear();
  t.same(store.stats(), { files: 0, bytes: 0 });
  await store.close();
});

t.test('evicts kept files for an upload that needs the space', async (t) => {
  const { staging, open, file } = place(t);
  const store = await open();
  await store.forPipeline('maps').keep([file('one')]);
  const stage = stageWithContent(store);
  const failing = (code: string): Promise<unknown> =>
    stage({
      input: Readable.from(
        (function* () {
          yield Buffer.alloc(0);
          throw Object.assign(new Error('by the will of the test'), { code });
        })(),
      ),
      directory: path.join(staging, 'upload'),
      limits: { maxUploadSize: 1, maxFiles: 1 },
      signal: new AbortController().signal,
      pipelineId: 'maps',
      partial: null,
      keeps: true,
    });
  await t.rejects(failing('EIO'));
  t.equal(store.stats().files, 1);
  await t.rejects(failing('ENOSPC'), { code: 'insufficient_storage' });
  t.equal(store.stats().files, 0);
  await store.close();
});

t.test('leaves unrelated files in the directory alone, and removes its own empty directories', async (t) => {
  const { staging, open, file } = place(t);
  const before = await open();
  await before.forPipeline('maps').keep([file('one')]);
  await before.close();
  const theirs = ['readme', 'maps/ab/page.html', `maps/ab/${'0'.repeat(64)}`, `posts/2026/${'a'.repeat(64)}`];
  for (const name of theirs) {
    const place = path.join(staging, 'content', name);
    mkdirSync(path.dirname(place), { recursive: true });
    writeFileSync(place, 'theirs');
  }
  mkdirSync(path.join(staging, 'content/docs/ff'), { recursive: true });
  const after = await open({ maxBytes: 0 });
  await after.close();
  await (await open()).close();
  for (const name of theirs) t.equal(readFileSync(path.join(staging, 'content', name), 'utf8'), 'theirs');
  t.notOk(existsSync(path.join(staging, 'content/docs')));
});

t.test('two processes with one staging directory have separate stores, and leave one', async (t) => {
  const { staging, open, file, target } = place(t);
  const [first, second] = [await open(), await open()];
  const one = file('one');
  await first.forPipeline('maps').keep([one]);
  await second.forPipeline('maps').keep([one]);
  t.equal(await second.forPipeline('maps').place(one.digest, target()), 3);
  await first.close();
  t.equal(await second.forPipeline('maps').place(one.digest, target()), 3);
  await second.close();
  t.ok(existsSync(path.join(staging, 'content-2')));
  const third = await open();
  t.same(third.missing('maps', [one.digest]), []);
  t.notOk(existsSync(path.join(staging, 'content-2')), 'of the dead process, which are unclaimed');
  await third.close();
});

t.test('files of an earlier process count, too', async (t) => {
  const { staging, open, file } = place(t);
  const [first, second] = [await open({ maxBytes: 2 * block }), await open({ maxBytes: 2 * block })];
  const [one, two, three] = [file('one'), file('two'), file('three')];
  await first.forPipeline('maps').keep([one, two]);
  await first.close();
  await second.forPipeline('maps').keep([three]);
  t.same(second.stats(), { files: 2, bytes: 2 * block });
  t.equal(onDisk(staging), 'twothree'.length);
  await second.close();
});

t.test('replaces a stored file that is not in the index', async (t) => {
  const { staging, open, file, target } = place(t);
  const store = await open();
  const one = file('one');
  const hex = hexOf(one.digest);
  const unknown = path.join(staging, 'content/maps', hex.slice(0, 2), hex);
  await store.forPipeline('docs').keep([one]);
  for (const obstacle of ['file', 'directory']) {
    mkdirSync(path.dirname(unknown), { recursive: true });
    if (obstacle === 'file') writeFileSync(unknown, 'ONE');
    else mkdirSync(unknown);
    await store.forPipeline('maps').keep([one]);
    t.equal(await store.forPipeline('maps').place(one.digest, target()), 3, obstacle);
    await store.clear();
  }
  await store.close();
});

/** A log that records its warnings. */
function listening(): { log: Log; warnings: unknown[] } {
  const warnings: unknown[] = [];
  return { warnings, log: { ...silentLog, warn: (facts: object) => void warnings.push(facts) } };
}

t.test('logs once if nothing can be kept, and continues uploads', async (t) => {
  const { staging, open, file } = place(t);
  const { log, warnings } = listening();
  const store = await open({ log });
  // On another file system, so that no link to it is possible.
  const elsewhere = { digest: digestOf('x'), size: 1, file: '/proc/version' };
  await store.forPipeline('maps').keep([elsewhere, file('one')]);
  await store.forPipeline('maps').keep([elsewhere]);
  t.match(warnings, [{ err: { code: 'EXDEV' } }]);
  t.equal(warnings.length, 1);
  t.same(store.stats(), { files: 1, bytes: block }, 'files requested with it are kept');
  await store.forPipeline('maps').keep([file('two')]);
  t.same(store.stats(), { files: 2, bytes: 2 * block }, 'the others are kept anyway');
  await store.close();

  rmSync(path.join(staging, 'content'), { recursive: true });
  writeFileSync(path.join(staging, 'content'), 'in the way');
  const blocked = await open({ log });
  await blocked.forPipeline('maps').keep([file('one')]);
  t.match(warnings, [{}, { err: { code: 'EEXIST' } }]);
  t.same(blocked.missing('maps', [digestOf('one')]), [digestOf('one')]);
  await blocked.close();
});

t.test('an unreadable directory does not prevent the start of a daemon', async (t) => {
  const { staging, open, file } = place(t);
  const before = await open();
  await before.forPipeline('maps').keep([file('one')]);
  await before.close();
  const { log, warnings } = listening();
  // Like a root that is a file, or belongs to another user.
  const clock = manualClock(new Date());
  const store = await openContentStore({
    ...{ staging: path.join(staging, 'staged/1'), clock, log, shortage: async () => 0 },
    ...contentLimits({ maxBytes: block, ageMs: 1000 }, () => block),
  });
  t.match(warnings, [{ err: { code: 'ENOTDIR' } }]);
  t.same(store.missing('maps', [digestOf('one')]), [digestOf('one')]);
  await store.close();
});

t.test('frees a full disk from the least recently used files of all pipelines', async (t) => {
  const { staging, clock, open, file } = place(t);
  let lacking = 0;
  const store = await open({ shortage: async () => lacking });
  const files = ['one', 'two', 'three', 'four', 'five'].map(file);
  for (const [index, one] of files.entries()) {
    await store.forPipeline(index % 2 === 0 ? 'maps' : 'docs').keep([one]);
    await clock.advance(1000);
  }
  const missing = (): number[] =>
    files.flatMap(({ digest }, index) =>
      store.missing(index % 2 === 0 ? 'maps' : 'docs', [digest]).length > 0 ? [index] : [],
    );
  lacking = 2 * block + 1;
  await store.forPipeline('maps').keep([]);
  t.equal(store.stats().files, 2);
  t.same(missing(), [0, 1, 2]);
  lacking = Infinity;
  await clock.advance(60_000);
  while (store.stats().files > 0) await new Promise((resolve) => setImmediate(resolve));
  t.equal(onDisk(staging), 0);
  await store.close();
});

t.test('limits are derived from the upload limit of a pipeline, unless they are configured', (t) => {
  const largest = (id: string): number | null => (id === 'maps' ? 512 * 2 ** 20 : null);
  const following = contentLimits({ maxBytes: null, ageMs: 1 }, largest);
  t.equal(following.maxBytes('maps'), 2 ** 30);
  t.equal(following.maxBytes('local'), 0, 'a pipeline without uploads, or an unknown one');
  const given = contentLimits({ maxBytes: 7, ageMs: 1 }, largest);
  t.equal(given.maxBytes('maps'), 7);
  t.equal(given.maxBytes('local'), 0);
  t.match([following.isEnabled, contentLimits({ maxBytes: 0, ageMs: 1 }, largest).isEnabled], [true, false]);

  const disk = (gibibytes: number, free: number): number =>
    shortageOf({ bsize: 4096, blocks: gibibytes * 2 ** 18, bavail: free * 2 ** 18 });
  t.equal(disk(100, 1), 0);
  t.equal(disk(100, 0.5), 2 ** 29, 'a gibibyte of a large disk');
  t.equal(disk(5, 0.25), 2 ** 28, 'a tenth of a small one');
  t.equal(disk(2 ** -5, 2 ** -7), 2 ** 23, 'the upload limit on a tiny one');
  t.end();
});

t.test('too many open files in a process do not make a file count as damaged', async (t) => {
  const { staging } = place(t);
  const large = path.join(staging, 'large');
  writeFileSync(large, Buffer.alloc(100_000));
  const script = `
    import { openSync } from 'node:fs';
    import { measureFile } from './src/workers/staging/content-files.ts';
    await measureFile(${JSON.stringify(large)});
    try { for (;;) openSync('/dev/null', 'r'); } catch {}
    console.log(await measureFile(${JSON.stringify(large)}).then(() => 'measured', (error) => error.code));`;
  const command = `ulimit -n 128 && exec "$0" --import=tsx --input-type=module -e "$1"`;
  const { stdout, stderr } = spawnSync('sh', ['-c', command, process.execPath, script], { encoding: 'utf8' });
  t.equal(stdout, 'EMFILE\n', stderr);
});

t.test('yields to the event loop before each kept file', async (t) => {
  const { staging, open, file } = place(t);
  const seen: number[] = [];
  const yieldToEventLoop = async (): Promise<void> => void seen.push(onDisk(staging));
  const store = await open({ yieldToEventLoop });
  await store.forPipeline('maps').keep([file('a'), file('bb'), file('ccc')]);
  t.same(seen, [0, 1, 3]);
  await store.close();
});

t.test('200 concurrent uploads never exceed the limit', async (t) => {
  const { staging, open, file, target } = place(t);
  const maxBytes = 40 * block;
  const store = await open({ maxBytes });
  const files = Array.from({ length: 600 }, (_, index) =>
    file(`${index} `.padEnd(block * (1 + (index % 3)), 'x')),
  );
  let [most, looks, isOver] = [0, 0, false];
  const look = async (): Promise<void> => {
    while (!isOver) {
      try {
        most = Math.max(most, onDisk(staging));
      } catch (error) {
        // The file may be deleted meanwhile.
        if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
      }
      looks += 1;
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const looking = look();
  await Promise.all(
    Array.from({ length: 200 }, async (_, upload) => {
      const own = files.slice(3 * upload, 3 * upload + 3);
      const kept = store.forPipeline('maps');
      await kept.keep(own);
      for (const { digest, size } of own) {
        const placed = await kept.place(digest, target());
        t.ok(placed === null || placed === size);
        await new Promise((resolve) => setImmediate(resolve));
      }
      await kept.keep(own);
    }),
  );
  isOver = true;
  await looking;
  t.ok(looks > 1);
  t.ok(most > 0 && most <= maxBytes, `${most} of ${maxBytes} bytes`);
  t.ok(store.stats().bytes <= maxBytes);
  await store.close();
});

t.test('copies a file that has the maximum number of links', async (t) => {
  const { open, file, staging } = place(t);
  const store = await open();
  const one = file('one');
  await store.forPipeline('maps').keep([one]);
  mkdirSync(path.join(staging, 'names'));
  let names = 2;
  try {
    for (; names < 70_000; names += 1) linkSync(one.file, path.join(staging, 'names', String(names)));
    t.comment('this file system allows more than 70,000 names for a file');
  } catch (error) {
    t.match(error, { code: 'EMLINK' });
    const placed = path.join(staging, 'placed');
    t.equal(await store.forPipeline('maps').place(one.digest, placed), 3);
    t.equal(statSync(placed).nlink, 1);
  }
  await store.close();
});
