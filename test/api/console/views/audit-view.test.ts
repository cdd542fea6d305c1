import t from 'tap';
import { auditDays } from '../../../../src/api/console/views/audit-view.ts';
import type { AuditRecord } from '../../../../src/core/audit/record.ts';

const record: AuditRecord = {
  ...{ seq: 1, time: '2026-11-20T01:02:03.000Z', host: 'one' },
  act: 'publish',
  result: 'failed',
  ...{ code: 'unmanaged_content', actor: { type: 'daemon', id: null }, address: null },
  ...{ pipeline_id: 'maps', destination_id: 'web', run_id: 'maps.1', request_id: null, prev: null },
  detail: { action: 'publish_new', path: 'session-1', outputs_written: 2, release: 'r-1' },
};

t.test('a record is one line, with its exact values apart', (t) => {
  const [day] = auditDays([record], { pauses: new Map(), starters: new Map([['maps.1', 'ci']]) });
  t.match(day, {
    date: { iso: '2026-11-20', text: '20 Nov 2026' },
    count: '1 record',
    records: [
      {
        ...{ name: 'Publish', place: 'maps → web', actor: 'daemon', isByUser: false, address: null },
        starter: 'ci',
        ...{ result: { label: 'failed' }, facts: 'at session-1, 2 files written' },
      },
    ],
  });
  t.same(
    day?.records[0]?.details.map(({ name, value }) => [name, value]),
    [
      ['Time', '20 Nov 2026, 01:02:03 UTC'],
      ['By', 'daemon'],
      ['Run', 'maps.1'],
      ['Release', 'r-1'],
      ['Error code', 'unmanaged_content'],
      ['Action code', 'publish'],
    ],
  );
  t.end();
});

t.test('groups records by day, and names the client', (t) => {
  const login: AuditRecord = {
    ...record,
    act: 'login',
    result: 'done',
    ...{ time: '2026-11-19T23:59:59.000Z', code: null, detail: {} },
    ...{ actor: { type: 'token', id: 'operator' }, address: '192.0.2.7' },
    ...{ pipeline_id: null, destination_id: null, run_id: null },
  };
  const days = auditDays([record, record, login], { pauses: new Map(), starters: new Map() });
  t.same(
    days.map(({ date, count }) => [date.text, count]),
    [
      ['20 Nov 2026', '2 records'],
      ['19 Nov 2026', '1 record'],
    ],
  );
  t.match(days[1]?.records[0], {
    ...{ isByUser: true, actor: 'operator', address: '192.0.2.7', place: '', result: null, facts: '' },
    details: [{ name: 'Time' }, { name: 'By', value: 'token operator, from 192.0.2.7' }],
  });
  t.end();
});

t.test('a refusal without facts shows its code in words', (t) => {
  const refused: AuditRecord = { ...record, result: 'refused', code: 'insufficient_scope', detail: {} };
  const [day] = auditDays([refused], { pauses: new Map(), starters: new Map() });
  t.match(day?.records[0], { result: { label: 'refused' }, facts: 'insufficient scope', starter: null });
  t.end();
});
