/**
 * A value that may be replaced while the program runs, for example by a reload. Callers read it again for
 * each use, and once for values that belong together, since two reads may differ.
 */
export interface Current<T> {
  get(): T;
}

/** A value with a setter, for the owner. */
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
