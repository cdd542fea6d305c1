import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { openAppendLock } from '../../../src/core/audit/append-lock.ts';
import { type ActEntry, parseLine } from '../../../src/core/audit/record.ts';
import { openTrail, type Trail } from '../../../src/core/audit/trail.ts';
import { verifyTrail } from '../../../src/core/audit/verify-trail.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { silentLog } from '../../../src/core/lib/log.ts';

/** The directory of a trail is moved, emptied or replaced while a process writes to it. */

const upload = (requestId: string): ActEntry => ({
  act: 'upload',
  result: 'done',
  actor: { type: 'token', id: 'ci' },
  requestId,
});

async function openedTrail(t: Test): Promise<{ directory: string; trail: Trail }> {
  const directory = path.join(t.testdir(), 'audit');
  const settings = { directory, maxBytes: 1_000_000, maxAgeMs: 86_400_000, onFull: 'refuse' as const };
  const trail = await openTrail(settings, { clock: systemClock, log: silentLog, host: 'h1' });
  t.teardown(() => trail.close());
  await trail.append(upload('r1'));
  await trail.append(upload('r2'));
  return { directory, trail };
}

function filesOf(directory: string): string[] {
  return readdirSync(directory)
    .filter((name) => name.endsWith('.jsonl'))
    .sort();
}

/** The acts in a directory with their `seq` and request. */
function actsIn(directory: string): string[] {
  return filesOf(directory)
    .flatMap((name) => readFileSync(path.join(directory, name), 'utf8').trimEnd().split('\n'))
    .map((line) => parseLine(line))
    .map((record) => `${record?.seq} ${record?.act} ${record?.request_id ?? ''}`.trimEnd());
}

async function faultsOf(directory: string): Promise<string[]> {
  return (await verifyTrail(directory)).problems.map(({ fault }) => fault);
}

t.test('records go to a new directory of the same name, and the chain continues', async (t) => {
  const { directory, trail } = await openedTrail(t);
  renameSync(directory, `${directory}.moved`);
  mkdirSync(directory, { mode: 0o700 });
  await trail.append(upload('r3'));
  t.same(actsIn(`${directory}.moved`), ['1 upload r1', '2 upload r2']);
  t.same(actsIn(directory), ['3 audit.recover', '4 upload r3']);
  t.not((await faultsOf(directory)).length, 0, 'the missing records are noticed');
});

t.test('an emptied directory gets the next records, which show that others are missing', async (t) => {
  const { directory, trail } = await openedTrail(t);
  for (const name of readdirSync(directory)) rmSync(path.join(directory, name));
  await trail.append(upload('r3'));
  await trail.append(upload('r4'));
  t.same(actsIn(directory), ['3 audit.recover', '4 upload r3', '5 upload r4']);
  t.not((await faultsOf(directory)).length, 0);
  const other = await openAppendLock(directory, systemClock);
  t.teardown(() => other.close());
  t.equal(
    readdirSync(directory).filter((name) => name.endsWith('.sock')).length,
    2,
    'both can be seen alive',
  );
});

t.test('if the newest file was archived, the next records begin a new one', async (t) => {
  const { directory, trail } = await openedTrail(t);
  const [name = ''] = filesOf(directory);
  renameSync(path.join(directory, name), path.join(directory, '..', name));
  await trail.append(upload('r3'));
  t.same(filesOf(directory), ['audit-000000000003.jsonl']);
  t.same(actsIn(directory), ['3 upload r3']);
});

t.test('a removed head is reported by the process that is writing', async (t) => {
  const { directory, trail } = await openedTrail(t);
  rmSync(path.join(directory, 'head'));
  await trail.append(upload('r3'));
  t.same(actsIn(directory).slice(2), ['3 audit.recover', '4 upload r3']);
});

t.test('a lock that could not be removed is taken again', async (t) => {
  const directory = path.join(t.testdir(), 'audit');
  mkdirSync(directory);
  const lock = await openAppendLock(directory, systemClock);
  t.teardown(() => lock.close());
  await lock.hold(async () => renameSync(directory, `${directory}.away`));
  renameSync(`${directory}.away`, directory);
  t.ok(readdirSync(directory).includes('lock'), 'it was left behind');
  t.equal(await lock.hold(async () => 'held'), 'held');
  t.notOk(readdirSync(directory).includes('lock'));
});
