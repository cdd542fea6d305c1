import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { openAppendLock } from '../../../src/core/audit/append-lock.ts';
import { readPage } from '../../../src/core/audit/read-trail.ts';
import { type ActEntry, canonicalJson, digestOfLine, parseLine } from '../../../src/core/audit/record.ts';
import { openTrail } from '../../../src/core/audit/trail.ts';
import type { TrailSettings } from '../../../src/core/audit/trail-writer.ts';
import { verifyTrail } from '../../../src/core/audit/verify-trail.ts';
import { type Clock, systemClock } from '../../../src/core/lib/clock.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { generator } from '../../support/sampling.ts';

const actor = { type: 'token', id: 'ci' };
const entry = (n: number): ActEntry => ({
  act: 'upload',
  result: 'done',
  actor,
  requestId: `r${n}`,
  pipelineId: 'maps',
});

type Options = Partial<TrailSettings> & { clock?: Clock };

async function write(
  directory: string,
  from: number,
  to: number,
  { clock = systemClock, ...rest }: Options = {},
): Promise<void> {
  const settings = {
    directory,
    maxBytes: 1_000_000,
    maxAgeMs: 86_400_000,
    onFull: 'refuse' as const,
    ...rest,
  };
  const trail = await openTrail(settings, { clock, log: silentLog, host: 'h1' });
  for (let n = from; n <= to; n += 1) await trail.append(entry(n));
  await trail.close();
}

const files = (directory: string): string[] =>
  readdirSync(directory)
    .filter((name) => name.endsWith('.jsonl'))
    .sort();

function lines(directory: string, file = files(directory)[0] ?? ''): string[] {
  return readFileSync(path.join(directory, file), 'utf8').split('\n').slice(0, -1);
}

function rewrite(
  directory: string,
  change: (all: string[]) => string[],
  file = files(directory)[0] ?? '',
): void {
  const all = change(lines(directory, file));
  writeFileSync(path.join(directory, file), all.map((line) => `${line}\n`).join(''));
}

async function faults(directory: string): Promise<string[]> {
  return (await verifyTrail(directory)).problems.map(
    ({ fault, line }) => `${fault}${line === null ? '' : ` ${line}`}`,
  );
}

t.test('each record holds the digest of the line before, in canonical JSON', async (t) => {
  const directory = t.testdir();
  await write(directory, 1, 3);
  const [first = '', second = ''] = lines(directory);
  t.equal(parseLine(first)?.prev, null);
  t.equal(parseLine(second)?.prev, digestOfLine(first));
  t.equal(canonicalJson(JSON.parse(second)), second);
  t.match(parseLine(second), { seq: 2, host: 'h1', act: 'upload', actor, request_id: 'r2', run_id: null });
  const { problems, records, end } = await verifyTrail(directory);
  t.same([problems, records, end.seq], [[], 3, 3]);
  t.equal(statSync(path.join(directory, files(directory)[0] ?? '')).mode & 0o777, 0o600);
});

t.test('a later process continues the chain', async (t) => {
  const directory = t.testdir();
  await write(directory, 1, 2);
  await write(directory, 3, 4);
  t.same(
    lines(directory).map((line) => parseLine(line)?.seq),
    [1, 2, 3, 4],
  );
  t.same(await faults(directory), []);
});

t.test('a link in the directory of the trail is not followed', async (t) => {
  for (const name of ['head', 'reserve', 'audit-000000000001.jsonl']) {
    const directory = t.testdir({ trail: {}, victim: 'precious' });
    symlinkSync('../victim', path.join(directory, 'trail', name));
    await write(path.join(directory, 'trail'), 1, 2).catch(() => undefined);
    t.equal(readFileSync(path.join(directory, 'victim'), 'utf8'), 'precious', name);
  }
});

t.test('verify names the line that was edited, removed, moved or truncated', async (t) => {
  const change = async (t: Test, apply: (all: string[]) => string[]): Promise<string[]> => {
    const directory = t.testdir();
    await write(directory, 1, 6);
    rewrite(directory, apply);
    return faults(directory);
  };
  const edit = (all: string[], index: number): string[] =>
    all.map((line, at) => (at === index ? line.replace('"ci"', '"me"') : line));
  t.same(await change(t, (all) => edit(all, 0)), ['edited 1']);
  t.same(await change(t, (all) => edit(all, 3)), ['edited 4']);
  t.same(await change(t, (all) => edit(all, 5)), ['edited 6'], 'the last one, detected by the head');
  t.same(
    await change(t, (all) =>
      all.map((line, at) => (at === 2 ? line.replace(/"prev":"sha256:../, '"prev":"sha256:zz') : line)),
    ),
    ['edited 3'],
  );
  t.same(await change(t, (all) => all.map((line, at) => (at === 2 ? line.replace(',', ', ') : line))), [
    'edited 3',
    'edited 3',
  ]);
  t.same(await change(t, (all) => all.map((line, at) => (at === 2 ? 'nonsense' : line))), [
    'edited 3',
    'removed 4',
  ]);
  t.same(await change(t, (all) => all.toSpliced(2, 2)), ['removed 3']);
  t.same(await change(t, (all) => all.slice(1)), ['removed 1']);
  t.same(await change(t, (all) => all.slice(0, 4)), ['cut']);
  t.same(await change(t, () => []), ['cut']);
  t.same(await change(t, ([a = '', b = '', c = '', d = '', ...rest]) => [a, c, b, d, ...rest]), [
    'reordered 3',
  ]);
  t.same(await change(t, (all) => [...all, all[1] ?? '']), ['reordered 7'], 'a copy');
});

t.test('a removed head is reported, at the end and after further records', async (t) => {
  const directory = t.testdir();
  await write(directory, 1, 3);
  rmSync(path.join(directory, 'head'));
  t.same(await faults(directory), ['head']);
  await write(directory, 4, 4);
  t.same(await faults(directory), ['head 4'], 'a record reports it');
});

t.test('a failed write of the head causes no second record', async (t) => {
  const directory = t.testdir();
  await write(directory, 1, 1);
  const trail = await openTrail(
    { directory, maxBytes: 1_000_000, maxAgeMs: 86_400_000, onFull: 'continue' },
    { clock: systemClock, log: silentLog, host: 'h1' },
  );
  await trail.append(entry(2));
  execFileSync('chattr', ['+i', path.join(directory, 'head')]);
  try {
    await trail.append(entry(3));
    await trail.append(entry(4));
  } finally {
    execFileSync('chattr', ['-i', path.join(directory, 'head')]);
  }
  await trail.append(entry(5));
  await trail.close();
  t.same(
    lines(directory).map((line) => parseLine(line)?.request_id),
    ['r1', 'r2', 'r3', 'r4', 'r5'],
  );
  t.same(await faults(directory), []);
});

t.test('truncated records stay missing when the trail continues', async (t) => {
  const directory = t.testdir();
  await write(directory, 1, 5);
  rewrite(directory, (all) => all.slice(0, 3));
  await write(directory, 6, 6);
  t.same(
    lines(directory).map((line) => parseLine(line)?.seq),
    [1, 2, 3, 6],
  );
  t.same(await faults(directory), ['removed 4']);
});

t.test('the chain continues across files, by size and by age', async (t) => {
  const directory = t.testdir();
  await write(directory, 1, 10, { maxBytes: 1_000 });
  t.ok(files(directory).length > 2);
  t.same(await faults(directory), []);
  let ms = Date.now();
  const clock = { ...systemClock, now: () => new Date(ms) };
  const before = files(directory).length;
  await write(directory, 11, 12, { clock });
  ms += 2 * 86_400_000;
  await write(directory, 13, 13, { clock });
  t.equal(files(directory).length, before + 1);
  t.same(await faults(directory), []);
  t.equal((await verifyTrail(directory)).records, 13);
});

t.test('detects a removed file: the first, a middle one, and the last', async (t) => {
  for (const [index, expected] of [
    [0, 'removed'],
    [1, 'removed'],
    [-1, 'cut'],
  ] as const) {
    const directory = t.testdir();
    await write(directory, 1, 10, { maxBytes: 1_000 });
    rmSync(path.join(directory, files(directory).at(index) ?? ''));
    const { problems } = await verifyTrail(directory);
    t.match(problems, [{ fault: expected }]);
    t.equal((await verifyTrail(directory, { isPartial: true })).problems.length, index === 0 ? 0 : 1);
  }
});

t.test('detects a trail without a record that was noted elsewhere', async (t) => {
  const directory = t.testdir();
  await write(directory, 1, 3);
  const { end } = await verifyTrail(directory);
  await write(directory, 4, 5);
  t.same((await verifyTrail(directory, { expected: end })).problems, []);
  const other = t.testdir({ other: {} });
  await write(path.join(other, 'other'), 1, 5);
  t.match((await verifyTrail(path.join(other, 'other'), { expected: end })).problems, [{ fault: 'removed' }]);
});

t.test('an interrupted write is completed by a record, and does not count as a change', async (t) => {
  const directory = t.testdir();
  await write(directory, 1, 2);
  const file = path.join(directory, files(directory)[0] ?? '');
  appendFileSync(file, '{"act":"upload","actor":{"id":"c');
  t.match(await verifyTrail(directory), { problems: { length: 0 }, interrupted: [{ line: 3 }], records: 2 });
  await write(directory, 3, 3);
  const [, , torn, recovery = ''] = lines(directory);
  t.match(torn, /^\{"act":"upload"/);
  t.match(parseLine(recovery), { seq: 3, act: 'audit.recover', detail: { torn_bytes: 32 } });
  t.match(await verifyTrail(directory), { problems: { length: 0 }, interrupted: [{ line: 3 }], records: 4 });
  rewrite(directory, (all) => all.map((line, at) => (at === 2 ? `${line}x` : line)));
  t.same(await faults(directory), ['edited 3'], 'the record has the digest of the interrupted write');
});

t.test('a write of several records torn by a power loss is truncated, and recorded', async (t) => {
  const directory = t.testdir();
  await write(directory, 1, 2);
  const file = path.join(directory, files(directory)[0] ?? '');
  const torn = `${'\0'.repeat(512)}${lines(directory)[1] ?? ''}\n`;
  appendFileSync(file, torn);
  await write(directory, 3, 3);
  t.match(parseLine(lines(directory)[2] ?? ''), {
    act: 'audit.recover',
    detail: { torn_bytes: torn.length },
  });
  t.match(await verifyTrail(directory), { problems: { length: 0 }, interrupted: { length: 0 }, records: 4 });
});

t.test('a record with a missing member, or one of another type, is reported as edited', async (t) => {
  const directory = t.testdir();
  await write(directory, 1, 3);
  const [, line = ''] = lines(directory);
  const record = JSON.parse(line) as Record<string, unknown>;
  for (const name of Object.keys(record))
    for (const value of [undefined, 7.5, [], ...(name === 'seq' ? [] : [{ id: 7 }])]) {
      rewrite(directory, (all) => all.with(1, JSON.stringify({ ...record, [name]: value })));
      t.match(await faults(directory), [/^edited 2/], `${name}: ${JSON.stringify(value)}`);
      rewrite(directory, (all) => all.with(1, line));
    }
  t.same(await faults(directory), []);
});

t.test('detects any single change of a random trail', async (t) => {
  const random = generator('changes of a trail');
  const pick = (n: number): number => Math.floor(random() * n);
  const directory = t.testdir();
  await write(directory, 1, 60, { maxBytes: 4_000 });
  const all = files(directory);
  for (let round = 0; round < 150; round += 1) {
    const file = all[pick(all.length)] ?? '';
    const at = path.join(directory, file);
    const before = readFileSync(at);
    const count = lines(directory, file).length;
    const index = pick(count);
    const kind = ['byte', 'remove', 'swap', 'copy', 'file', 'cut'][pick(6)];
    if (kind === 'byte') {
      const bytes = Buffer.from(before);
      const position = pick(bytes.length);
      bytes[position] = ((bytes[position] ?? 0) + 1 + pick(255)) % 256;
      writeFileSync(at, bytes);
    } else if (kind === 'remove') rewrite(directory, (old) => old.toSpliced(index, 1), file);
    else if (kind === 'swap' && count > 1)
      rewrite(
        directory,
        (old) =>
          old.toSpliced(
            index % (count - 1),
            2,
            old[(index % (count - 1)) + 1] ?? '',
            old[index % (count - 1)] ?? '',
          ),
        file,
      );
    else if (kind === 'copy')
      rewrite(directory, (old) => old.toSpliced(index, 0, old[pick(count)] ?? ''), file);
    else if (kind === 'file') renameSync(at, path.join(directory, 'gone'));
    else writeFileSync(at, before.subarray(0, pick(before.length)));
    const { problems, interrupted } = await verifyTrail(directory);
    if (problems.length === 0) t.fail(`${kind ?? ''} in ${file} is not found`, { interrupted, index, count });
    if (kind === 'file') renameSync(path.join(directory, 'gone'), at);
    writeFileSync(at, before);
  }
  t.same(await faults(directory), []);
});

t.test('pages go from the newest to the oldest record, with filters', async (t) => {
  const directory = t.testdir();
  await write(directory, 1, 30, { maxBytes: 3_000 });
  const first = await readPage(directory, { limit: 20 });
  t.same(
    first.records.map(({ seq }) => seq),
    Array.from({ length: 20 }, (_, at) => 30 - at),
  );
  const rest = await readPage(directory, { limit: 20, before: first.next });
  t.same(
    rest.records.map(({ seq }) => seq),
    [10, 9, 8, 7, 6, 5, 4, 3, 2, 1],
  );
  t.equal(rest.next, null);
  t.equal((await readPage(directory, { limit: 5, actor: 'nobody' })).records.length, 0);
  t.equal((await readPage(directory, { limit: 50, act: 'upload', pipelines: ['maps'] })).records.length, 30);
  t.equal((await readPage(directory, { limit: 50, pipelines: ['docs'] })).records.length, 0);
  t.equal((await readPage(directory, { limit: 50, since: new Date(Date.now() + 60_000) })).records.length, 0);
});

t.test('a trail that cannot be opened leaves no socket behind', async (t) => {
  const directory = t.testdir({ 'audit-000000000001.jsonl': 'no record\n' });
  await t.rejects(write(directory, 1, 1), { code: 'audit_unavailable', message: 'is not an audit record' });
  t.same(
    readdirSync(directory).filter((name) => name.endsWith('.sock')),
    [],
  );
});

t.test('a page has the records before a time at which the clock was set back', async (t) => {
  const directory = t.testdir();
  const times = ['10:00', '12:00', '11:00'];
  const clock = { ...systemClock, now: () => new Date(`2026-11-20T${times.shift() ?? '11:00'}:00Z`) };
  await write(directory, 1, 3, { clock });
  const { records, next } = await readPage(directory, { limit: 5, since: new Date('2026-11-20T11:30Z') });
  t.same(
    records.map(({ seq }) => seq),
    [2],
  );
  t.equal(next, null);
});

t.test('a line that is too long for a record is not collected in memory', async (t) => {
  const directory = t.testdir();
  await write(directory, 1, 4);
  const overlong = 'x'.repeat(4_000_000);
  const copied = { bytes: 0 };
  const concat = Buffer.concat.bind(Buffer);
  Buffer.concat = (list, length) => {
    const joined = concat(list, length);
    copied.bytes += joined.length;
    return joined;
  };
  t.teardown(() => (Buffer.concat = concat));
  const recordsOf = async (): Promise<number[]> =>
    (await readPage(directory, { limit: 10 })).records.map(({ seq }) => seq);

  rewrite(directory, (all) => all.with(1, overlong));
  t.same(await faults(directory), ['edited 2', 'removed 3']);
  t.same(await recordsOf(), [4, 3, 1]);
  rewrite(directory, (all) => all.with(1, `${all[2] ?? ''}${' '.repeat(4_000_000)}`));
  t.same(await faults(directory), ['edited 2', 'removed 3'], 'a record with spaces after it');
  rewrite(directory, (all) => all.slice(0, 1));
  appendFileSync(path.join(directory, files(directory)[0] ?? ''), overlong);
  t.same(await faults(directory), ['cut']);
  t.same(await recordsOf(), [1]);
  t.ok(copied.bytes < 20 * overlong.length, `${copied.bytes} bytes were copied`);
});

t.test('checks that fail at the same time share one wait for the lock', async (t) => {
  const directory = t.testdir();
  // Only waiting moves this clock, so the speed of the machine has no effect.
  let simulatedMs = 0;
  const clock: Clock = {
    ...systemClock,
    monotonic: () => simulatedMs,
    sleep: async (ms) => {
      simulatedMs += ms;
      await new Promise(setImmediate);
    },
  };
  const settings = { directory, maxBytes: 1_000_000, maxAgeMs: 86_400_000, onFull: 'refuse' as const };
  const trail = await openTrail(settings, { clock, log: silentLog, host: 'h1' });
  const other = await openAppendLock(directory, clock);
  let release: () => void = () => undefined;
  const held = other.hold(() => new Promise<void>((resolve) => (release = resolve)));
  await trail.append(entry(1));
  const failedMs = simulatedMs;
  t.ok(failedMs >= 15_000, 'the record was not written, because another process has the lock');
  const checks = await Promise.allSettled([trail.check(), trail.check(), trail.check()]);
  t.same(
    checks.map(({ status }) => status),
    ['rejected', 'rejected', 'rejected'],
  );
  const waitedMs = simulatedMs - failedMs;
  t.ok(waitedMs < 30_000, `they waited for ${waitedMs} ms`);
  release();
  await held;
  await other.close();
  await trail.close();
  t.equal(lines(directory).length, 1);
});
