/*
 * Uses a single listener for each signal. Node.js warns about a leak if a signal has more than ten listeners,
 * but with eleven uploads, that would be perfectly normal.
 */

const waiting = new WeakMap<AbortSignal, AbortCallbacks>();

interface AbortCallbacks {
  callbacks: Set<{ call: () => void }>;
  listener: () => void;
}

/**
 * Calls `callback` once when `signal` aborts, or right away if it already has. Callbacks are called in the
 * order they were added, and must not throw.
 *
 * @returns A function that removes the callback. You can call it twice.
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
    // A signal that was made from other signals stays in memory as long as it has a listener.
    if (!callbacks.delete(entry) || callbacks.size > 0) return;
    signal.removeEventListener('abort', listener);
    waiting.delete(signal);
  };
}

function waitingFor(signal: AbortSignal): AbortCallbacks {
  const there = waiting.get(signal);
  if (there !== undefined) return there;
  const callbacks: AbortCallbacks['callbacks'] = new Set();
  const listener = (): void => {
    waiting.delete(signal);
    // Iterate over the set itself, so that one callback can still remove another.
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
 * Yields the chunks of `input`. As soon as the signal aborts, throws the signal's reason, even if the input
 * is stalled. The input is closed, but this does not wait for it.
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
      // Every step needs its own promise. A promise that lives as long as the loop would keep every chunk it
      // was raced against in memory.
      const step = await new Promise<IteratorResult<Uint8Array>>((resolve, reject) => {
        stop = reject;
        iterator.next().then(resolve, reject);
      });
      if (step.done === true) return;
      yield step.value;
    }
  } finally {
    release();
    // If a generator is waiting for its next chunk, it cannot close until it has one, so do not wait here.
    iterator.return?.().then(undefined, () => undefined);
  }
}
