import t from 'tap';
import type { ActionResult } from '../../../src/core/publish/results/result.ts';
import { type LegacyRunRecord, upgradeRecord } from '../../../src/workers/queue/run-record.ts';
import { destinationOfAction, maxChanges } from '../../../src/workers/queue/run-transitions.ts';

const result: ActionResult = {
  bundle: 'session-1',
  destinationPath: 'session-1',
  action: 'fail_unmanaged',
  reason: { code: 'path_unrecorded', message: 'there is a file at "/srv/www/a.txt" that is not recorded' },
  changes: [
    { path: 'a.txt', fate: 'add', why: 'not_recorded' },
    { path: 'b.txt', fate: 'keep', why: 'same' },
    { path: 'c.txt', fate: 'remove', why: 'omitted' },
  ],
  unkept: [],
  outputs: [],
  release: null,
  channel: null,
  url: null,
  ...{ outputsWritten: 0, outputsLinked: 0, outputsKept: 0, outputsRemoved: 0 },
  ...{ bytesWritten: 0, bytesLinked: 0, bytesKept: 0 },
  error: null,
};

t.test('a record has the reason, without paths of the host, and the changes', (t) => {
  const { reason, changes, changes_omitted: omitted } = destinationOfAction('web', result);
  t.same(reason, { code: 'path_unrecorded', message: 'there is a file at "<path>" that is not recorded' });
  t.same(
    changes.map(({ path }) => path),
    ['a.txt', 'c.txt'],
    'kept files are not changes',
  );
  t.equal(omitted, 0);
  t.end();
});

t.test('a record has the first of a hundred thousand changes, and counts the others', (t) => {
  const many = Array.from({ length: 100_000 }, (_, index) => ({
    ...{ path: `${index}`, fate: 'add' as const, why: 'not_recorded' as const },
  }));
  const { changes, changes_omitted: omitted } = destinationOfAction('web', { ...result, changes: many });
  t.equal(changes.length, maxChanges);
  t.equal(omitted, 100_000 - maxChanges);
  t.end();
});

t.test('reads a record of an earlier version without the newer fields', (t) => {
  const later = new Set(['reason', 'changes', 'changes_omitted']);
  const all = Object.entries(destinationOfAction('web', result));
  const row = Object.fromEntries(all.filter(([name]) => !later.has(name)));
  const [read] = upgradeRecord({ run_id: 'maps.1', destinations: [row] } as LegacyRunRecord).destinations;
  t.match(read, { destination_id: 'web', reason: null, changes: { length: 0 }, changes_omitted: 0 });
  t.end();
});
