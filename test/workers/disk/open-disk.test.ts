import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { blockingDisk } from '../../../src/core/lib/disk.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { answerIntervalMs, type DiskResponse } from '../../../src/workers/disk/disk-messages.ts';
import { runCalls } from '../../../src/workers/disk/disk-thread.ts';
import { type DiskOptions, openDisk, type OpenedDisk } from '../../../src/workers/disk/open-disk.ts';
import { manualClock } from '../manual-clock.ts';

const slowThread = new URL('../../fixtures/workers/slow-disk.mjs', import.meta.url);

function opened(t: Test, options: Partial<DiskOptions> = {}): OpenedDisk & { directory: string } {
  const one = openDisk({ clock: systemClock, log: silentLog, ...options });
  t.teardown(() => one.close(10_000));
  return { ...one, directory: t.testdir() };
}

async function untilAnswers(requireAnswers: () => void): Promise<void> {
  for (;;)
    try {
      requireAnswers();
      return;
    } catch {
      await systemClock.sleep(5);
    }
}

for (const kind of ['a thread', 'the caller'] as const)
  t.test(`${kind} writes, links and removes in the requested order`, async (t) => {
    const { disk: threaded, directory } = opened(t);
    const disk = kind === 'a thread' ? threaded : blockingDisk;
    const at = (...names: string[]): string => path.join(directory, ...names);
    const bytes = Buffer.from('text');
    const calls = [
      disk.makeDirectory(at('gone', 'one')),
      disk.makeDirectories([at('gone'), at('gone', 'one', 'two')]),
      disk.writeFile(at('gone', 'one', 'small'), bytes),
      disk.openFile(at('gone', 'large')),
      disk.appendToFile(at('gone', 'large'), bytes),
      disk.appendToFile(at('gone', 'large'), Buffer.alloc(100_000, 'x')),
      disk.closeFile(at('gone', 'large')),
      disk.linkInPlace(at('gone', 'large'), at('kept', 'shard', 'name')),
      disk.linkInPlace(at('gone', 'one', 'small'), at('kept', 'shard', 'name')),
      disk.remove(at('gone', 'large')),
      disk.remove(at('not there')),
    ];
    bytes.fill('?');
    await Promise.all(calls);
    t.equal(readFileSync(at('kept/shard/name'), 'utf8'), 'text', 'the bytes at the time of the call');
    t.equal(await disk.linkOrCopy(at('kept/shard/name'), at('again')), true);
    t.equal(await disk.linkOrCopy(at('kept/shard/gone'), at('never')), false);
    t.same(readdirSync(at('gone'), { recursive: true }).sort(), ['one', 'one/small', 'one/two']);
    await disk.remove(at('gone'));
    t.same(readdirSync(directory).sort(), ['again', 'kept']);
    await t.rejects(disk.writeFile(at('again'), bytes), {
      code: 'EEXIST',
      syscall: 'open',
      path: at('again'),
    });
    await t.rejects(disk.writeFile(at('nowhere', 'file'), bytes), { code: 'ENOENT' });
    await t.rejects(disk.appendToFile(at('again'), bytes), /created by openFile/);
    t.equal(readFileSync(at('again'), 'utf8'), 'text');
  });

t.test(
  'an unresponsive disk fails waiting and new calls, and removes directories created late',
  async (t) => {
    const clock = manualClock();
    const { disk, directory, requireAnswers } = opened(t, { file: slowThread, timeoutMs: 300, clock });
    const at = (name: string): string => path.join(directory, name);
    await disk.makeDirectory(at('before'));
    writeFileSync(at('frozen'), '');
    const refusal = { code: 'staging_unavailable', message: /has not answered/ };
    const waiting = [disk.makeDirectory(at('first')), disk.makeDirectory(at('second'))];
    const refused = waiting.map((one) => t.rejects(one, refusal));
    const removal = disk.remove(at('before'));
    await clock.advance(300);
    await Promise.all(refused);
    await removal;
    t.ok(existsSync(at('before')), 'does not wait for a removal');
    t.throws(requireAnswers, refusal);
    await t.rejects(disk.makeDirectory(at('third')), refusal);
    const last = disk.remove(at('first'));
    await last;
    t.ok(existsSync(at('frozen')), 'all of that while it did not answer');
    rmSync(at('frozen'));
    await untilAnswers(requireAnswers);
    await disk.makeDirectory(at('after'));
    const journal = readFileSync(at('journal'), 'utf8').trim().split('\n');
    t.same(journal, [
      'makeDirectory before',
      'makeDirectory first',
      'remove before',
      'remove first',
      'makeDirectory after',
    ]);
    t.notOk(existsSync(at('first')));
    t.ok(existsSync(at('after')));
  },
);

t.test('a crashed thread fails its calls, and is replaced', async (t) => {
  const { disk, directory } = opened(t, { file: slowThread });
  const broken = disk.makeDirectory(path.join(directory, 'broken'));
  const next = disk.makeDirectory(path.join(directory, 'next'));
  await t.rejects(broken, /the thread breaks/);
  await next;
  t.ok(existsSync(path.join(directory, 'next')));
});

t.test('a thread that crashes while the disk does not answer is replaced, too', async (t) => {
  const clock = manualClock();
  const { disk, directory, requireAnswers } = opened(t, { file: slowThread, timeoutMs: 300, clock });
  const at = (name: string): string => path.join(directory, name);
  writeFileSync(at('frozen'), '');
  const refused = t.rejects(disk.makeDirectory(at('broken')), { code: 'staging_unavailable' });
  await clock.advance(300);
  await refused;
  rmSync(at('frozen'));
  await untilAnswers(requireAnswers);
  await disk.makeDirectory(at('after'));
  t.ok(existsSync(at('after')));
});

t.test('has an outcome for every call, also if it answers in the middle of a removal', async (t) => {
  const directory = t.testdir({ full: { one: '', two: '' }, last: '' });
  const removals = ['full', 'last'].map((name) => ({
    name: 'remove' as const,
    args: [path.join(directory, name)],
  }));
  const answers: DiskResponse[] = [];
  let now = 0;
  // A message is a copy, too.
  const send = (answer: DiskResponse): void => void answers.push([...answer]);
  runCalls(removals, send, { monotonic: () => (now += answerIntervalMs) });
  t.ok(answers.length > removals.length, 'it answers during the removal');
  t.same(answers.flat(), [{ value: undefined }, { value: undefined }]);
  t.same(readdirSync(directory), []);
});

t.test('waits a limited time for active work when it closes', async (t) => {
  const { disk, directory, close } = opened(t, { file: slowThread });
  mkdirSync(path.join(directory, 'one'));
  const removal = disk.remove(path.join(directory, 'one'));
  await close(60_000);
  await removal;
  t.notOk(existsSync(path.join(directory, 'one')));
  await t.rejects(disk.makeDirectory(path.join(directory, 'late')), /was closed/);

  const frozen = opened(t, { file: slowThread });
  writeFileSync(path.join(frozen.directory, 'frozen'), '');
  const stuck = frozen.disk.remove(path.join(frozen.directory, 'x'));
  await frozen.close(50);
  rmSync(path.join(frozen.directory, 'frozen'));
  void stuck;
  t.pass('although the disk has not answered');
});
