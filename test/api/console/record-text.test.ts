import t from 'tap';
import { ageText } from '../../../src/api/console/record-text.ts';

t.test('ages are rounded down, and times ahead to the nearest unit', (t) => {
  const now = new Date('2026-11-29T00:13:25Z');
  const times = [
    ['2026-11-29T12:12:56Z', 'in 12 h'],
    ['2026-11-29T01:13:20Z', 'in 1 h'],
    ['2026-11-29T00:14:50Z', 'in 1 min'],
    ['2026-11-29T00:13:40Z', 'in a moment'],
    ['2026-11-29T00:13:00Z', 'just now'],
    ['2026-11-29T00:11:26Z', '1 min ago'],
    ['2026-11-28T00:13:26Z', '23 h ago'],
    ['2026-11-28T00:13:25Z', '1 d ago'],
  ] as const;
  for (const [time, text] of times) t.equal(ageText(time, now), text, time);
  t.end();
});
