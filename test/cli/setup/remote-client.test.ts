import t from 'tap';
import { retryNotes } from '../../../src/cli/setup/remote-client.ts';

t.test('notes each new failure, and the same one again after a minute', async (t) => {
  const notes: string[] = [];
  let now = 5_000;
  const onRetry = retryNotes((text) => notes.push(text), { monotonic: () => now });
  const fail = (message: string, afterMs: number): void => {
    now += afterMs;
    onRetry(new Error(message), 2_000);
  };
  fail('answers 502', 0);
  fail('answers 502', 30_000);
  fail('answers 503', 1_000);
  fail('answers 503', 59_999);
  fail('answers 503', 1);
  t.same(
    notes,
    ['502', '503', '503'].map((status) => `answers ${status}; trying again in 2s`),
  );
});
