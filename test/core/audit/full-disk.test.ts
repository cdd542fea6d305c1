import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { newReadiness } from '../../../src/api/daemon/readiness.ts';
import { readPage } from '../../../src/core/audit/read-trail.ts';
import type { ActEntry } from '../../../src/core/audit/record.ts';
import { openTrail, type Trail } from '../../../src/core/audit/trail.ts';
import type { TrailSettings } from '../../../src/core/audit/trail-writer.ts';
import { verifyTrail } from '../../../src/core/audit/verify-trail.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { hasCode } from '../../../src/core/lib/errors.ts';
import { type Log, silentLog } from '../../../src/core/lib/log.ts';
import { auditChecks } from '../../../src/workers/coordinator/health-checks.ts';
import { mountTmpfs } from '../../services/tmpfs.ts';

const entry = (n: number): ActEntry => ({
  act: 'run.cancel',
  result: 'done',
  actor: { type: 'token', id: 'ci' },
  requestId: String(n),
  detail: { filler: 'x'.repeat(500) },
});

interface Place {
  trail: Trail;
  directory: string;
  errors: string[];
  fill: () => void;
  clear: () => void;
}

async function onSmallDisk(t: Test, onFull: TrailSettings['onFull']): Promise<Place> {
  const root = mkdtempSync(path.join(tmpdir(), 'waybill-audit-'));
  t.teardown(() => rmSync(root, { recursive: true }));
  const disk = path.join(root, 'disk');
  mkdirSync(disk);
  await mountTmpfs(t, disk, '1m');
  const directory = path.join(disk, 'audit');
  mkdirSync(directory);
  const errors: string[] = [];
  const log: Log = { ...silentLog, error: (_fields, message) => void errors.push(message) };
  const settings = { directory, maxBytes: 10_000_000, maxAgeMs: 86_400_000, onFull };
  const trail = await openTrail(settings, { clock: systemClock, log });
  const ballast = path.join(disk, 'ballast');
  return {
    trail,
    directory,
    errors,
    fill: () => {
      const file = openSync(ballast, 'a');
      try {
        for (const block = Buffer.alloc(4096); ;) writeSync(file, block);
      } catch {
        // The disk is full.
      } finally {
        closeSync(file);
      }
    },
    clear: () => rmSync(ballast),
  };
}

async function recorded(directory: string): Promise<number[]> {
  const { records } = await readPage(directory, { limit: 500, act: 'run.cancel' });
  return records.map(({ request_id: id }) => Number(id)).reverse();
}

/** The state of the trail for readiness, and whether uploads are accepted. */
async function readiness(
  trail: Trail,
  onFull: TrailSettings['onFull'],
  admitsActs = true,
): Promise<string[]> {
  const checks = auditChecks({ onFull }, { trail, clock: systemClock, admitsActs });
  const options = { clock: systemClock, log: silentLog, isDraining: () => false, weatherHealth: null };
  const found = await newReadiness({ ...options, checks }).look();
  return [...found.checks.map(({ state }) => state), found.failure?.code ?? 'ready'];
}

const upTo = (n: number): number[] => Array.from({ length: n }, (_, index) => index + 1);

t.test('on_full: refuse: every admitted act has a record, and no other act is admitted', async (t) => {
  const { trail, directory, errors, fill, clear } = await onSmallDisk(t, 'refuse');
  let admitted = 0;
  const act = async (): Promise<boolean> => {
    try {
      await trail.requireWritable();
    } catch (error) {
      t.ok(hasCode(error, 'audit_unavailable'));
      return false;
    }
    admitted += 1;
    await trail.append(entry(admitted));
    return true;
  };
  do fill();
  while (await act());
  t.ok(admitted > 0, `${admitted} acts were admitted`);
  t.same(await recorded(directory), upTo(admitted));
  t.same(errors, ['the audit trail cannot be written']);
  t.notOk(await act(), 'still rejected');
  t.same(await readiness(trail, 'refuse'), ['failing', 'audit_unavailable']);
  t.same(await readiness(trail, 'refuse', false), ['degraded', 'ready'], 'a worker');
  clear();
  t.same(await readiness(trail, 'refuse'), ['ok', 'ready']);
  t.ok(await act(), 'admitted when there is space again');
  await trail.close();
  t.same(await recorded(directory), upTo(admitted));
  t.same((await verifyTrail(directory)).problems, []);
});

t.test('on_full: refuse: acts in progress when the disk becomes full keep their records', async (t) => {
  const { trail, directory, fill, clear } = await onSmallDisk(t, 'refuse');
  await Promise.all(upTo(40).map(() => trail.requireWritable()));
  fill();
  await Promise.all(upTo(40).map((n) => trail.append(entry(n))));
  t.same(await recorded(directory), upTo(40), 'they are on disk, in the space of the reserve');
  clear();
  await trail.close();
});

t.test('on_full: continue: acts go on, and their records are written later', async (t) => {
  const { trail, directory, errors, fill, clear } = await onSmallDisk(t, 'continue');
  fill();
  for (const n of upTo(30)) {
    await trail.requireWritable();
    await trail.append(entry(n));
  }
  t.ok((await recorded(directory)).length < 30);
  t.same(errors, ['the audit trail cannot be written']);
  t.same(await readiness(trail, 'continue'), ['degraded', 'ready']);
  clear();
  t.same(await readiness(trail, 'continue'), ['ok', 'ready']);
  await trail.close();
  t.same(await recorded(directory), upTo(30));
  t.same((await verifyTrail(directory)).problems, []);
});

t.test('records that can never be written are logged and counted', async (t) => {
  const { trail, directory, errors, fill, clear } = await onSmallDisk(t, 'continue');
  fill();
  const all = 10_050;
  const last = upTo(all).map((n) => trail.append(entry(n)));
  await Promise.all(last);
  const lost = errors.filter((message) => message === 'an audit record is lost').length;
  t.ok(lost >= 40, `${lost} records were dropped`);
  clear();
  await trail.close();
  const gaps = await readPage(directory, { limit: 5, act: 'audit.gap' });
  t.match(gaps.records, [{ detail: { lost } }]);
});
