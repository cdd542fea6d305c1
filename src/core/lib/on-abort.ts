/*
 * Node.js warns of a leak when eleven listen to one signal, and eleven uploads that all end when the daemon
 * stops are none. However many wait for a signal here, one listener stands on it.
 */

const waiting = new WeakMap<AbortSignal, Waiting>();

interface Waiting {
  callbacks: Set<{ call: () => void }>;
  listener: () => void;
}

/**
 * Calls `callback` once, when `signal` aborts; at once if it has aborted. Callbacks are called in the order
 * in which they came, and must not throw.
 *
 * @returns Lets the signal go: the callback is not called any more. May be called twice.
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
    // A signal made of others lives as long as something listens to it.
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
    // What an earlier callback has let go is not called: the set is read while it changes.
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
