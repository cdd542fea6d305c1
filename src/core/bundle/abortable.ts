import { onAbort } from '../lib/on-abort.ts';
/**
 * Yields the chunks of `input` until the signal aborts. The iteration then throws the signal's reason
 * immediately, even if the input is stalled. Closes the input without waiting for it.
 */
export async function* abortable(
  input: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const iterator = input[Symbol.asyncIterator]();
  let stop: (reason: Error) => void = () => undefined;
  const release = onAbort(signal, () =>
    stop(signal.reason instanceof Error ? signal.reason : new Error(String(signal.reason))),
  );
  try {
    for (;;) {
      signal.throwIfAborted();
      // A promise for each step: one long-lived promise in a race would keep every chunk it ever raced
      // against.
      const step = await new Promise<IteratorResult<Uint8Array>>((resolve, reject) => {
        stop = reject;
        iterator.next().then(resolve, reject);
      });
      if (step.done === true) return;
      yield step.value;
    }
  } finally {
    release();
    // A generator that waits for its next chunk closes only after that: the caller must not wait with it.
    iterator.return?.().then(undefined, () => undefined);
  }
}
