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
  const [day] = auditDays([record], {
    pauses: new Map(),
    runs: new Map([['maps.1', { name: 'session-1', starter: 'ci' }]]),
  });
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
  const days = auditDays([record, record, login], { pauses: new Map(), runs: new Map() });
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
  const [day] = auditDays([refused], { pauses: new Map(), runs: new Map() });
  t.match(day?.records[0], { result: { label: 'refused' }, facts: 'insufficient scope', starter: null });
  const [started] = auditDays([{ ...refused, act: 'run.start' }], { pauses: new Map(), runs: new Map() });
  t.match(started?.records[0], { facts: 'needs the permission “Publish”' });
  t.end();
});

t.test('an upload names and links its run, and is above the token use that it began with', (t) => {
  const upload: AuditRecord = {
    ...record,
    ...{
      seq: 2,
      act: 'upload',
      result: 'done',
      code: null,
      detail: {},
      request_id: 'r',
      destination_id: null,
    },
  };
  const use: AuditRecord = { ...upload, seq: 3, act: 'token.use', run_id: null };
  const runs = new Map([['maps.1', { name: 'session-1', starter: 'ci' }]]);
  const [day] = auditDays([use, upload, record], { pauses: new Map(), runs });
  t.same(
    day?.records.map(({ name, run }) => [name, run]),
    [
      ['Upload', 'session-1'],
      ['Use token', null],
      ['Publish', null],
    ],
  );
  const later: AuditRecord = { ...use, time: '2026-11-20T01:02:04.000Z' };
  const [sorted] = auditDays([later, upload], { pauses: new Map(), runs });
  t.equal(sorted?.records[0]?.name, 'Use token', 'a later second stays above');
  t.end();
});
