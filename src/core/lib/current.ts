/**
 * A value that can change while the program is running, for example after a reload. Read it each time it is
 * needed, but only once for values that must be consistent, since the next read might return something else.
 */
export interface Current<T> {
  get(): T;
}

/** A current value that its owner can change. */
export interface Replaceable<T> extends Current<T> {
  replace(value: T): void;
}

export function replaceable<T>(first: T): Replaceable<T> {
  let value = first;
  return {
    get: () => value,
    replace: (next) => {
      value = next;
    },
  };
}
