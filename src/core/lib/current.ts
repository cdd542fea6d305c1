/**
 * A value that may be replaced while the program runs, for example by a reload. Callers read it again for
 * each use, but only once for values that belong together, because two reads may differ.
 */
export interface Current<T> {
  get(): T;
}

/** A value with a setter, for its owner. */
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
