import t from 'tap';
import { timeOf } from '../../../src/cli/setup/period.ts';

t.test('--since and --until', (t) => {
  const zone = process.env['TZ'];
  t.teardown(() => {
    if (zone === undefined) delete process.env['TZ'];
    else process.env['TZ'] = zone;
  });
  process.env['TZ'] = 'Europe/Berlin';
  const now = new Date('2026-03-29T12:00:00Z');
  const at = (option: 'since' | 'until', text: string): string | undefined =>
    timeOf(option, text, now)?.toISOString();
  t.equal(timeOf('since', undefined), null);
  t.equal(at('since', '24h'), '2026-03-28T12:00:00.000Z');
  t.equal(at('since', '7d'), '2026-03-22T12:00:00.000Z');
  t.equal(at('since', 'yesterday'), '2026-03-27T23:00:00.000Z');
  t.equal(at('until', 'yesterday'), '2026-03-28T22:59:59.999Z');
  t.equal(at('since', 'today'), '2026-03-28T23:00:00.000Z');
  t.equal(at('until', 'today'), '2026-03-29T21:59:59.999Z', 'a day of 23 hours');
  t.equal(at('until', '2026-11-20'), '2026-11-20T22:59:59.999Z');
  t.equal(at('since', '2026-11-20T08:00:00+02:00'), '2026-11-20T06:00:00.000Z');
  for (const text of ['', 'soon', '24', '2026-02-30', '2026-11-20T08:00:00'])
    t.throws(() => timeOf('since', text, now), {
      code: 'usage',
      message: `--since: "${text}" is not a time`,
    });
  t.end();
});
