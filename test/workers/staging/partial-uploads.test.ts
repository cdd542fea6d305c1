import { execFileSync } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { silentLog } from '../../../src/core/lib/log.ts';
import type { NewPartialUpload } from '../../../src/workers/staging/partial-upload.ts';
import { PartialUploads } from '../../../src/workers/staging/partial-uploads.ts';
import { type ManualClock, manualClock } from '../manual-clock.ts';

/** Storage of partial uploads: retention and ownership. */

const settings = { maxUploads: 3, maxBytes: 100, retentionMs: 3_600_000 };
const wanted: NewPartialUpload = {
  pipelineId: 'maps',
  caller: 'ci',
  key: null,
  rerunFailed: false,
  channel: null,
  partial: null,
  length: 4,
  maxBytes: 50,
  metadata: null,
};

const open = (staging: string, clock: ManualClock): Promise<PartialUploads> =>
  PartialUploads.open({ staging, clock, log: silentLog, settings });

async function* chunks(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text);
}

/** Waits until the background removal is done. */
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

t.test(
  'an upload is kept for the retention after its last bytes, and its result as long again',
  async (t) => {
    const staging = t.testdir();
    const clock = manualClock(new Date());
    const uploads = await open(staging, clock);
    t.teardown(() => uploads.close());
    const files = (): string[] =>
      readdirSync(path.join(staging, 'partial')).filter((name) => !name.endsWith('.sock'));
    const [one, other] = [await uploads.create(wanted), await uploads.create(wanted)];
    await clock.advance(settings.retentionMs - 1);
    await uploads.write(one.id, 0, chunks('a', 'b'));
    await clock.advance(60_000);
    await until(() => files().length === 2);
    t.equal(uploads.find(other.id), undefined, 'the other one received nothing');
    t.match(uploads.find(one.id), { received: 2 });
    await uploads.write(one.id, 2, chunks('cd'));
    await uploads.end(one.id, { runId: 'maps.1', position: 1, replayed: false });
    t.equal(files().length, 1, 'the bytes are gone');
    await clock.advance(settings.retentionMs - 60_000);
    t.match(uploads.find(one.id), { outcome: { runId: 'maps.1' } });
    await clock.advance(120_000);
    await until(() => files().length === 0);
    t.equal(uploads.find(one.id), undefined);
  },
);

t.test('does not sweep an upload that is being sent', async (t) => {
  const clock = manualClock(new Date());
  const uploads = await open(t.testdir(), clock);
  t.teardown(() => uploads.close());
  const { id } = await uploads.create(wanted);
  const hold = await uploads.hold(id);
  await clock.advance(2 * settings.retentionMs);
  t.ok(uploads.find(id));
  hold.release();
});

t.test('the next process continues intact uploads, and removes the rest', async (t) => {
  const staging = t.testdir();
  const clock = manualClock(new Date());
  const first = await open(staging, clock);
  const metadata = { filename: 'site.tar', draft: null };
  const { id } = await first.create({ ...wanted, key: 'k', rerunFailed: true, metadata });
  await first.write(id, 0, chunks('abc'));
  const { id: ended } = await first.create(wanted);
  await first.end(ended, { runId: 'maps.1', position: null, replayed: true });
  await first.close();
  const directory = path.join(staging, 'partial');
  const strays = [`${'x'.repeat(24)}.bytes`, `${'y'.repeat(24)}.json`, `${id}.json.new`];
  for (const name of [...strays, 'notes.txt']) writeFileSync(path.join(directory, name), '{');
  const second = await open(staging, clock);
  t.teardown(() => second.close());
  t.match(second.find(id), { received: 3, length: 4, key: 'k', rerunFailed: true, metadata, outcome: null });
  t.match(second.find(ended), { outcome: { runId: 'maps.1', position: null, replayed: true } });
  const names = readdirSync(directory).filter((name) => !name.endsWith('.sock'));
  t.same(names.sort(), [`${id}.bytes`, `${id}.json`, `${ended}.json`, 'notes.txt'].sort());
});

t.test('two processes with one staging directory have separate uploads', async (t) => {
  const staging = t.testdir();
  const clock = manualClock(new Date());
  const [one, other] = [await open(staging, clock), await open(staging, clock)];
  const { id } = await one.create(wanted);
  await other.create(wanted);
  t.equal(other.find(id), undefined);
  t.same(readdirSync(staging).sort(), ['partial', 'partial-2']);
  await one.close();
  await other.close();
  const again = await open(staging, clock);
  t.ok(again.find(id), 'the first process to start gets the first directory');
  await again.close();
});

t.test('creates no directory without uploads', async (t) => {
  const staging = t.testdir();
  const uploads = await open(staging, manualClock(new Date()));
  t.same(readdirSync(staging), []);
  const [{ id }, other] = await Promise.all([uploads.create(wanted), uploads.create(wanted)]);
  t.same(readdirSync(staging), ['partial']);
  for (const one of [id, other.id]) await uploads.remove(one);
  await uploads.close();
  t.same(readdirSync(staging), []);
});

t.test('concurrent uploads with one key do not lose files to each other', async (t) => {
  const staging = t.testdir();
  const uploads = await open(staging, manualClock(new Date()));
  t.teardown(() => uploads.close());
  const begun = await Promise.all([1, 2, 3].map(() => uploads.create({ ...wanted, key: 'k' })));
  const files = readdirSync(path.join(staging, 'partial')).filter((name) => !name.endsWith('.sock'));
  const known = begun.filter(({ id }) => uploads.find(id) !== undefined);
  t.same(files.sort(), known.flatMap(({ id }) => [`${id}.bytes`, `${id}.json`]).sort());
  t.equal(known.length, 3);
});

t.test('later processes of the same host continue uploads of earlier ones', async (t) => {
  const staging = t.testdir();
  const clock = manualClock(new Date());
  const [first, second] = [await open(staging, clock), await open(staging, clock)];
  const [one, two] = [await first.create(wanted), await second.create(wanted)];
  await first.write(one.id, 0, chunks('abc'));
  await second.write(two.id, 0, chunks('de'));
  t.same(readdirSync(staging).sort(), ['partial', 'partial-2']);
  await first.close();
  t.equal(second.find(one.id), undefined);
  await second.close();
  const third = await open(staging, clock);
  t.match([third.find(one.id), third.find(two.id)], [{ received: 3 }, { received: 2 }]);
  t.same(readdirSync(staging), ['partial']);
  await third.write(two.id, 2, chunks('fg'));
  t.equal(await text(third.read(two.id)), 'defg');

  const fourth = await open(staging, clock);
  await third.close();
  await fourth.create(wanted);
  t.match([fourth.find(one.id), fourth.find(two.id)], [{ received: 3 }, { received: 4 }]);
  await fourth.close();
});

async function text(bytes: AsyncIterable<Uint8Array>): Promise<string> {
  const all: Uint8Array[] = [];
  for await (const chunk of bytes) all.push(chunk);
  return Buffer.concat(all).toString();
}

t.test('more uploads than the process may open files survive a restart', async (t) => {
  const staging = t.testdir();
  const uploads = await PartialUploads.open({
    staging,
    clock: manualClock(new Date()),
    log: silentLog,
    settings: { ...settings, maxUploads: 300, maxBytes: 100_000 },
  });
  for (let count = 0; count < 300; count += 1) await uploads.create(wanted);
  await uploads.close();
  const directory = new URL('../../../src/workers/staging/partial-files.ts', import.meta.url).href;
  // Then with so few free descriptors that some records cannot be opened. Those uploads must not be deleted.
  const script = `
    import { closeSync, openSync } from 'node:fs';
    import { PartialDirectory } from ${JSON.stringify(directory)};
    const restore = async () => {
      const opened = await PartialDirectory.open(${JSON.stringify(staging)}, { sleep: async () => undefined });
      await opened.close();
      return opened.restored.length;
    };
    const found = [await restore()];
    for (let free = 0; free <= 12; free += 1) {
      const held = [];
      try { for (;;) held.push(openSync('/dev/null')); } catch {}
      for (const descriptor of held.splice(0, free)) closeSync(descriptor);
      found.push(await restore().catch((error) => error.code));
      held.forEach(closeSync);
    }
    found.push(await restore());
    console.log(JSON.stringify(found));`;
  const run = 'ulimit -n 120; exec "$0" --import=tsx --input-type=module -e "$1"';
  const printed = execFileSync('sh', ['-c', run, process.execPath, script], { encoding: 'utf8' });
  const found = JSON.parse(printed) as (number | string)[];
  t.same(found.slice(0, 2), [300, 'EMFILE']);
  t.same([...new Set(found.slice(1, -1))].sort(), [300, 'EMFILE']);
  t.equal(found.at(-1), 300);
});
