/**
 * A value that may be replaced while the program runs, such as what a reload reads again. Whoever depends on
 * it asks each time, and once for what belongs together: two answers may differ.
 */
export interface Current<T> {
  get(): T;
}

/** For the one who replaces it. */
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
