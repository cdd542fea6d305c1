import fc from 'fast-check';
import t from 'tap';
import { formatCursor, parseCursor, RunChanges } from '../../../src/workers/queue/run-changes.ts';
import { acceptedRun } from '../../../src/workers/queue/run-transitions.ts';
import { howMany } from '../../support/sampling.ts';

const recordOf = (run: number) =>
  acceptedRun({ runId: `maps.${run}`, pipelineId: 'maps', staged: null }, new Date(0));

t.test('a polling reader sees the newest change of every run (property)', async (t) => {
  const step = fc.oneof(
    { weight: 6, arbitrary: fc.record({ kind: fc.constant('change' as const), run: fc.nat(8) }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('read' as const), run: fc.nat(3) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('forget' as const), run: fc.nat(8) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('oldest' as const), run: fc.constant(0) }) },
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const changes = new RunChanges({ epoch: 'abcdefgh', revision: 7 });
      const newest = new Map<string, object>();
      const seen = new Map<string, object>();
      let [revision, missed] = [7, false];
      let order: string[] = [];
      const forget = (runId: string | undefined): void => {
        if (runId === undefined) return;
        // Its newest change is no longer visible.
        if (newest.has(runId) && seen.get(runId) !== newest.get(runId)) missed = true;
        newest.delete(runId);
        seen.delete(runId);
        order = order.filter((id) => id !== runId);
      };
      const read = (most: number): boolean => {
        const page = changes.after(revision, { limit: most, wants: () => true });
        if (page === null) return missed;
        if (missed) return false;
        for (const { record } of page.changes) seen.set(record.run_id, record);
        revision = parseCursor(page.cursor)?.revision ?? NaN;
        return page.changes.length <= most && (page.more || same(seen, newest));
      };
      for (const { kind, run } of steps) {
        const runId = `maps.${run}`;
        if (kind === 'change') {
          const record = recordOf(run);
          changes.add(record);
          if (changes.add(record)) return false;
          newest.set(runId, record);
          order = [...order.filter((id) => id !== runId), runId];
        } else if (kind === 'forget') {
          changes.forget(runId);
          forget(runId);
        } else if (kind === 'oldest') {
          changes.forgetOldest();
          forget(order[0]);
        } else if (!read(run + 1)) return false;
        if (changes.size !== newest.size) return false;
      }
      return read(100);
    }),
    { numRuns: howMany(2000, 300) },
  );
  t.pass('no counterexample');
});

t.test('one page examines at most a thousand changes, and the next continues there', async (t) => {
  const changes = new RunChanges({ epoch: 'abcdefgh', revision: 0 });
  for (let run = 1; run <= 2_500; run++) changes.add(recordOf(run));
  let [revision, looks, pages] = [0, 0, 0];
  for (let more = true; more; pages += 1) {
    looks = 0;
    const wants = ({ run_id }: { run_id: string }): boolean => {
      looks += 1;
      return run_id === 'maps.2500';
    };
    const page = changes.after(revision, { limit: 10, wants });
    t.ok(looks <= 1_000);
    revision = parseCursor(page?.cursor ?? '')?.revision ?? NaN;
    more = page?.more ?? false;
    t.equal(page?.changes.length, more ? 0 : 1);
  }
  t.equal(pages, 3);
});

t.test('accepts existing revisions, with gaps for removed runs', async (t) => {
  const changes = new RunChanges({ epoch: 'abcdefgh', revision: 40 });
  const all = { limit: 10, wants: () => true };
  t.equal(changes.after(39, all), null, 'before its time');
  changes.add(recordOf(1), 42);
  changes.skipTo(50);
  t.same(
    changes.after(41, all)?.changes.map(({ cursor }) => cursor),
    ['abcdefgh-42'],
  );
  t.same(changes.after(42, all), { changes: [], cursor: 'abcdefgh-50', more: false });
  t.equal(changes.after(51, all), null, 'after its time');
  t.same(parseCursor(formatCursor({ epoch: 'abcdefgh', revision: 42 })), { epoch: 'abcdefgh', revision: 42 });
  for (const text of ['', '-1', 'abcdefgh-', 'abcdefgh-1x', 'ABCDEFGH-1', 'abc-1', 'abcdefgh--1'])
    t.equal(parseCursor(text), null, text);
});

function same(a: ReadonlyMap<string, object>, b: ReadonlyMap<string, object>): boolean {
  return a.size === b.size && [...a].every(([key, value]) => b.get(key) === value);
}
