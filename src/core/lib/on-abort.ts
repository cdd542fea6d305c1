/*
 * Shares one listener per signal. Node.js warns of a leak if eleven listeners wait for one signal, which is
 * normal with eleven uploads.
 */

const waiting = new WeakMap<AbortSignal, Waiting>();

interface Waiting {
  callbacks: Set<{ call: () => void }>;
  listener: () => void;
}

/**
 * Calls `callback` once when `signal` aborts, or immediately if it has already aborted. Callbacks run in
 * registration order and must not throw.
 *
 * @returns A function that unregisters the callback. It may be called twice.
 */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  if (signal.aborted) {
    callback();
    return () => undefined;
  }
  const { callbacks, listener } = waitingFor(signal);
  const entry = { call: callback };
  callbacks.add(entry);
  return () => {
    // A signal composed of other signals stays in memory as long as it has a listener.
    if (!callbacks.delete(entry) || callbacks.size > 0) return;
    signal.removeEventListener('abort', listener);
    waiting.delete(signal);
  };
}

function waitingFor(signal: AbortSignal): Waiting {
  const there = waiting.get(signal);
  if (there !== undefined) return there;
  const callbacks: Waiting['callbacks'] = new Set();
  const listener = (): void => {
    waiting.delete(signal);
    // Iterate over the live set, so that an earlier callback can unregister a later one.
    for (const entry of callbacks) {
      callbacks.delete(entry);
      entry.call();
    }
  };
  const made = { callbacks, listener };
  waiting.set(signal, made);
  signal.addEventListener('abort', listener, { once: true });
  return made;
}

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
      // Create a promise for each step, because one long-lived promise in a race would retain every chunk it
      // ever raced against.
      const step = await new Promise<IteratorResult<Uint8Array>>((resolve, reject) => {
        stop = reject;
        iterator.next().then(resolve, reject);
      });
      if (step.done === true) return;
      yield step.value;
    }
  } finally {
    release();
    // A generator that waits for its next chunk closes only after that, so the caller must not wait for it.
    iterator.return?.().then(undefined, () => undefined);
  }
}
