import { setImmediate as settled } from 'node:timers/promises';
import t from 'tap';
import { createSemaphore } from '../../../src/core/lib/parallel.ts';

t.test('grants the available permits in the order of requests', async (t) => {
  const semaphore = createSemaphore(3);
  const granted: string[] = [];
  const releases = new Map<string, () => void>();
  const ask = (name: string, permits: number): void => {
    void semaphore.acquire(permits).then((release) => {
      granted.push(name);
      releases.set(name, release);
    });
  };
  const release = async (name: string): Promise<void> => {
    releases.get(name)?.();
    granted.splice(granted.indexOf(name), 1);
    await settled();
  };
  ask('a', 1);
  ask('b', 1);
  ask('whole', 3);
  ask('c', 1);
  await settled();
  t.same(granted, ['a', 'b'], 'a small request does not overtake a large one that waits');
  t.equal(semaphore.tryAcquire(1), null, 'nor does a request that does not wait');
  await release('a');
  t.same(granted, ['b']);
  await release('b');
  t.same(granted, ['whole']);
  await release('whole');
  t.same(granted, ['c']);
});

t.test('grants several requests together if they fit', async (t) => {
  const semaphore = createSemaphore(4);
  const release = await semaphore.acquire(4);
  let granted = 0;
  for (const permits of [1, 2, 1, 1]) void semaphore.acquire(permits).then(() => (granted += permits));
  release();
  await settled();
  t.equal(granted, 4);
});

t.test('a request for more than the capacity counts as all of it', async (t) => {
  const semaphore = createSemaphore(5);
  const release = await semaphore.acquire(50);
  t.equal(semaphore.tryAcquire(1), null);
  release();
  const all = semaphore.tryAcquire(50);
  t.type(all, 'function');
  all?.();
  t.type(semaphore.tryAcquire(5), 'function', 'and returns only its own permits');
});

t.test('permits are returned once, even if release is called again', async (t) => {
  const semaphore = createSemaphore(2);
  const release = await semaphore.acquire(1);
  await semaphore.acquire(1);
  release();
  release();
  t.type(semaphore.tryAcquire(1), 'function');
  t.equal(semaphore.tryAcquire(1), null);
});

t.test('a cancelled request leaves the queue, and later requests proceed', async (t) => {
  const semaphore = createSemaphore(2);
  const release = await semaphore.acquire(1);
  const cancelled = new AbortController();
  const whole = semaphore.acquire(2, cancelled.signal);
  const small = semaphore.acquire(1);
  cancelled.abort(new Error('enough'));
  await t.rejects(whole, { message: 'enough' });
  const releaseSmall = await small;
  t.equal(semaphore.tryAcquire(1), null);
  release();
  releaseSmall();
  t.type(semaphore.tryAcquire(2), 'function', 'the cancelled request holds nothing');
});

t.test('a signal that aborted before, or aborts after the grant, takes no permits', async (t) => {
  const semaphore = createSemaphore(1);
  await t.rejects(semaphore.acquire(1, AbortSignal.abort(new Error('before'))), { message: 'before' });
  const late = new AbortController();
  const release = await semaphore.acquire(1);
  const waited = semaphore.acquire(1, late.signal);
  release();
  const releaseWaited = await waited;
  late.abort();
  t.equal(semaphore.tryAcquire(1), null, 'an abort after the grant changes nothing');
  releaseWaited();
  t.type(semaphore.tryAcquire(1), 'function');
});
