import { linkSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Readable } from 'node:stream';
import t, { type Test } from 'tap';
import { digestOf, hexOf, type Digest } from '../../../src/core/digest.ts';
import { silentLog } from '../../../src/core/log.ts';
import { openContentStore, type ContentStore } from '../../../src/workers/content/content-store.ts';
import { stageWithContent } from '../../../src/workers/content/stage-with-content.ts';
import { manualClock, type ManualClock } from '../manual-clock.ts';

/** What is kept of uploads, for whom, for how long, and that it is never more than it may be. */

const block = 4096;

interface Place {
  staging: string;
  clock: ManualClock;
  open: (settings?: { mostBytes?: number; ageMs?: number }) => Promise<ContentStore>;
  /** A file as if it had been staged. */
  file: (text: string) => { digest: Digest; size: number; file: string };
  /** Where a kept file would be placed. */
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
    open: (settings) =>
      openContentStore({
        staging,
        clock,
        log: silentLog,
        settings: { mostBytes: 3 * block, ageMs: 3_600_000, ...settings },
      }),
    file: (text) => {
      const file = name();
      writeFileSync(file, text);
      return { digest: digestOf(text), size: text.length, file };
    },
    target: name,
  };
}

/** Bytes of all files that are kept on the disk. */
function onDisk(staging: string): number {
  const root = path.join(staging, 'content');
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(path.join(entry.parentPath, entry.name)).size, 0);
}

t.test('a file is kept for its pipeline alone, and placed as a link', async (t) => {
  const { open, file, target } = place(t);
  const store = await open();
  const one = file('one');
  await store.of('maps').keep([one]);
  t.same(store.missing('maps', [one.digest, digestOf('two')]), [digestOf('two')]);
  t.same(store.missing('docs', [one.digest]), [one.digest], 'another pipeline is told nothing');
  t.equal(await store.of('docs').place(one.digest, target()), null);
  rmSync(one.file);
  const placed = target();
  t.equal(await store.of('maps').place(one.digest, placed), 3);
  t.equal(readFileSync(placed, 'utf8'), 'one');
  t.equal(statSync(placed).nlink, 2, 'no byte was copied');
  t.same(store.stats(), { files: 1, bytes: block });
  await store.close();
});

t.test('what was of no use for longest goes first, and what is too large is not kept', async (t) => {
  const { staging, open, file, target } = place(t);
  const store = await open();
  const [one, two, three, four] = ['one', 'two', 'three', 'four'].map(file) as [
    ReturnType<typeof file>,
    ReturnType<typeof file>,
    ReturnType<typeof file>,
    ReturnType<typeof file>,
  ];
  const kept = store.of('maps');
  await kept.keep([one, two, three]);
  await kept.place(one.digest, target());
  t.same(store.missing('maps', [two.digest]), [], 'to be asked for is of use, too');
  await kept.keep([four]);
  t.same(store.missing('maps', [one.digest, two.digest, three.digest, four.digest]), [three.digest]);
  await kept.keep([{ ...file('x'), size: 3 * block + 1 }]);
  t.same(store.stats(), { files: 3, bytes: 3 * block });
  t.equal(onDisk(staging), 'onetwofour'.length);
  await store.of('docs').keep([three]);
  t.same(store.stats(), { files: 4, bytes: 4 * block }, 'each pipeline has room of its own');
  await store.close();
});

t.test('a damaged file counts as missing, and is kept anew when it comes again', async (t) => {
  const { staging, open, file, target } = place(t);
  const store = await open();
  const one = file('one');
  const kept = store.of('maps');
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
    // Where the directory was removed, it takes a second upload to be kept again.
    if (store.missing('maps', [one.digest]).length > 0) await kept.keep([one]);
    t.same(store.missing('maps', [one.digest]), []);
    damage();
    const placed = target();
    t.equal(await kept.place(one.digest, placed), null, String(damage));
    t.throws(() => statSync(placed), 'nothing is left where it would have been');
    t.same(store.missing('maps', [one.digest]), [one.digest]);
    rmSync(path.join(staging, 'content', 'maps'), { recursive: true, force: true });
  }
  await store.close();
});

t.test('it outlives the process, within its bounds, and strays go', async (t) => {
  const { staging, open, file, target } = place(t);
  const before = await open();
  const [one, two] = [file('one'), file('two')];
  await before.of('maps').keep([one, two]);
  await before.of('docs').keep([one]);
  // Killed: the directory is not given back. Of the dead the system closes the lock.
  await before.close();
  const stray = path.join(staging, 'content/maps/ab/not-a-digest');
  mkdirSync(path.dirname(stray), { recursive: true });
  writeFileSync(stray, 'x');
  const wrong = path.join(staging, 'content/maps/ab', '0'.repeat(64));
  writeFileSync(wrong, 'x');

  const after = await open();
  t.same(after.missing('maps', [one.digest, two.digest]), []);
  t.same(after.missing('docs', [one.digest, two.digest]), [two.digest]);
  t.equal(await after.of('maps').place(two.digest, target()), 3);
  t.throws(() => statSync(stray));
  t.throws(() => statSync(wrong), 'a digest in the wrong place');
  await after.close();

  const smaller = await open({ mostBytes: block });
  t.same(smaller.stats(), { files: 2, bytes: 2 * block }, 'one of each pipeline');
  await smaller.close();
  const off = await open({ mostBytes: 0 });
  t.equal(off.isOn, false);
  t.same(off.stats(), { files: 0, bytes: 0 });
  t.equal(onDisk(staging), 0);
  await off.of('maps').keep([one]);
  t.same(off.missing('maps', [one.digest]), [one.digest]);
  await off.close();
});

t.test('what is of no use for long enough is swept; a full disk takes everything', async (t) => {
  const { clock, open, file } = place(t);
  const store = await open({ ageMs: 3_600_000 });
  const [one, two] = [file('one'), file('two')];
  await store.of('maps').keep([one, two]);
  await clock.advance(3_000_000);
  store.missing('maps', [two.digest]);
  await clock.advance(660_000);
  t.same(store.stats(), { files: 1, bytes: block });
  t.same(store.missing('maps', [one.digest, two.digest]), [one.digest]);
  store.clear();
  t.same(store.stats(), { files: 0, bytes: 0 });
  await store.close();
});

t.test('an upload for which the disk has no room takes the place of what is kept', async (t) => {
  const { staging, open, file } = place(t);
  const store = await open();
  await store.of('maps').keep([file('one')]);
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

t.test('two processes on one staging directory have a store each', async (t) => {
  const { open, file, target } = place(t);
  const [first, second] = [await open(), await open()];
  const one = file('one');
  await first.of('maps').keep([one]);
  await second.of('maps').keep([one]);
  t.equal(await second.of('maps').place(one.digest, target()), 3);
  await first.close();
  t.equal(await second.of('maps').place(one.digest, target()), 3);
  await second.close();
});

t.test('200 uploads at once never make it more than it may be', async (t) => {
  const { staging, open, file, target } = place(t);
  const mostBytes = 40 * block;
  const store = await open({ mostBytes });
  const files = Array.from({ length: 600 }, (_, index) =>
    file(`${index} `.padEnd(block * (1 + (index % 3)), 'x')),
  );
  let [most, looks, isOver] = [0, 0, false];
  const look = async (): Promise<void> => {
    while (!isOver) {
      try {
        most = Math.max(most, onDisk(staging));
      } catch (error) {
        // It goes while it is looked at.
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
      const kept = store.of('maps');
      await kept.keep(own);
      for (const { digest, size } of own) {
        const placed = await kept.place(digest, target());
        t.ok(placed === null || placed === size);
      }
      await kept.keep(own);
    }),
  );
  isOver = true;
  await looking;
  t.ok(looks > 1);
  t.ok(most > 0 && most <= mostBytes, `${most} of ${mostBytes} bytes`);
  t.ok(store.stats().bytes <= mostBytes);
  await store.close();
});

t.test('a file that has as many names as it may is copied', async (t) => {
  const { open, file, staging } = place(t);
  const store = await open();
  const one = file('one');
  await store.of('maps').keep([one]);
  mkdirSync(path.join(staging, 'names'));
  let names = 2;
  try {
    for (; names < 70_000; names += 1) linkSync(one.file, path.join(staging, 'names', String(names)));
    t.comment('this file system gives a file more than 70,000 names');
  } catch (error) {
    t.match(error, { code: 'EMLINK' });
    const placed = path.join(staging, 'placed');
    t.equal(await store.of('maps').place(one.digest, placed), 3);
    t.equal(statSync(placed).nlink, 1);
  }
  await store.close();
});
