import t from 'tap';
import { newRunId } from '../../../src/workers/queue/start-run.ts';

t.test('puts pipeline and time into a run ID, with a random suffix', async (t) => {
  const at = new Date('2026-11-20T02:04:34.567Z');
  t.match(newRunId('maps', at), /^maps\.20261120T020434Z\.[0-9a-z]{10}$/);
  const ids = new Set(Array.from({ length: 1000 }, () => newRunId('maps', at)));
  t.equal(ids.size, 1000);
});
