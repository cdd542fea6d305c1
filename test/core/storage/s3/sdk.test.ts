import t from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { S3Requests } from '../../../../src/core/storage/s3/sdk.ts';

t.test('many concurrent calls with one aborted signal print no warning', async (t) => {
  const warnings: Error[] = [];
  const collect = (warning: Error): void => void warnings.push(warning);
  process.on('warning', collect);
  t.teardown(() => process.off('warning', collect));
  const requests = new S3Requests({ label: 's3://maps/', bucket: 'maps' }, systemClock);
  const stop = new AbortController();
  const calls = Array.from({ length: 64 }, async () =>
    requests.run(
      'a',
      async (ended) =>
        new Promise((_, reject) => {
          ended.addEventListener('abort', () => reject(ended.reason as Error), { once: true });
        }),
      { signal: stop.signal },
    ),
  );
  const reason = new Error('stopped');
  stop.abort(reason);
  for (const outcome of await Promise.allSettled(calls)) t.match(outcome, { status: 'rejected', reason });
  await new Promise((resolve) => setImmediate(resolve));
  t.same(warnings, []);
});
