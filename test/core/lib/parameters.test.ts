import t from 'tap';
import { periodBound } from '../../../src/core/lib/parameters.ts';

const about = { description: 'a period' };

t.test('a date means the whole day in UTC', async (t) => {
  t.equal(periodBound('since', about).parse('2026-11-20')?.toISOString(), '2026-11-20T00:00:00.000Z');
  t.equal(periodBound('until', about).parse('2026-11-20')?.toISOString(), '2026-11-20T23:59:59.999Z');
});

t.test('a time is used unchanged', async (t) => {
  const moment = '2026-11-20T01:02:03+02:00';
  for (const bound of ['since', 'until'] as const)
    t.equal(periodBound(bound, about).parse(moment)?.toISOString(), '2026-11-19T23:02:03.000Z');
});

t.test('rejects days that do not exist and text that is neither', async (t) => {
  for (const text of ['2026-02-30', '2026-13-01', '2026-11', 'yesterday', '', '2026-11-20T01:02:03'])
    t.equal(periodBound('since', about).parse(text), undefined, text);
});
