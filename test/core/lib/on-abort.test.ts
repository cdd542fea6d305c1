import t from 'tap';
import { onAbort } from '../../../src/core/lib/on-abort.ts';

t.test('each callback is called once, in order, with one listener on the signal', async (t) => {
  const warnings: Error[] = [];
  const onWarning = (warning: Error): void => void warnings.push(warning);
  process.on('warning', onWarning);
  t.teardown(() => process.off('warning', onWarning));
  const { signal, abort } = controlled();
  const called: number[] = [];
  const count = 50;
  for (let index = 0; index < count; index += 1) onAbort(signal, () => called.push(index));
  t.same(called, []);
  abort();
  abort();
  t.same(
    called,
    Array.from({ length: count }, (_, index) => index),
  );
  // Node.js emits warnings in a later turn.
  await new Promise((resolve) => setImmediate(resolve));
  t.same(warnings, []);
});

t.test('does not call a released callback, whichever side releases it', async (t) => {
  const { signal, abort } = controlled();
  const called: string[] = [];
  const same = (): void => void called.push('same');
  const first = onAbort(signal, same);
  onAbort(signal, same);
  onAbort(signal, () => {
    called.push('second');
    last();
  });
  const last = onAbort(signal, () => called.push('last'));
  first();
  first();
  abort();
  t.same(called, ['same', 'second']);
  first();
  last();
});

t.test('listens to a signal again after all callbacks were released', async (t) => {
  const { signal, abort } = controlled();
  const called: string[] = [];
  onAbort(signal, () => called.push('gone'))();
  onAbort(signal, () => called.push('there'));
  abort();
  t.same(called, ['there']);
});

t.test('an aborted signal calls callbacks immediately, even during other callbacks', async (t) => {
  const { signal, abort } = controlled();
  const called: string[] = [];
  onAbort(signal, () => onAbort(signal, () => called.push('within')));
  abort();
  onAbort(signal, () => called.push('after'))();
  t.same(called, ['within', 'after']);
});

function controlled(): { signal: AbortSignal; abort: () => void } {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort() };
}
