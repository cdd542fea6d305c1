interface Place<T> {
  /** Ordinal number of the arrival; grows along the line. */
  arrival: number;
  /** Undefined once the item is gone. */
  item: T | undefined;
}

/**
 * Items in the order of their arrival. Walking from any of them, or from either end, costs as much as the
 * steps that are taken, however many there are; adding and removing cost the same always, on the average. A
 * walk must be over before an item is removed.
 */
export class RunLine<T> {
  #places: Place<T>[] = [];
  #arrivals = 0;
  #gone = 0;

  get length(): number {
    return this.#places.length - this.#gone;
  }

  /**
   * Returns the item's place, for `remove` and the walks: by default the next one. Whoever numbers the places
   * gives each a greater number than the one before.
   */
  push(item: T, arrival = this.#arrivals): number {
    this.#arrivals = arrival + 1;
    this.#places.push({ arrival, item });
    return arrival;
  }

  remove(arrival: number): void {
    const place = this.#places[this.#indexOf(arrival)];
    if (place?.arrival !== arrival || place.item === undefined) return;
    place.item = undefined;
    this.#gone += 1;
    if (this.#gone * 2 <= this.#places.length) return;
    this.#places = this.#places.filter(({ item }) => item !== undefined);
    this.#gone = 0;
  }

  /** From the newest back, or from the one that arrived before `before`. */
  *newestFirst(before = Infinity): Generator<T> {
    for (let index = this.#indexOf(before) - 1; index >= 0; index--) {
      const item = this.#places[index]?.item;
      if (item !== undefined) yield item;
    }
  }

  /** From the oldest on, or from the first one that arrived later than `after`. */
  *oldestFirst(after = -1): Generator<T> {
    for (let index = this.#indexOf(after + 1); index < this.#places.length; index++) {
      const item = this.#places[index]?.item;
      if (item !== undefined) yield item;
    }
  }

  /** Where the first place is that did not arrive before this. */
  #indexOf(arrival: number): number {
    let [low, high] = [0, this.#places.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#places[middle] as Place<T>).arrival < arrival) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/**
 * The items of several lines that share one numbering, from the newest back, or from the one that arrived
 * before `before`. Each step costs as much as there are lines.
 */
export function* newestOfAll<T>(
  lines: readonly RunLine<T>[],
  arrivalOf: (item: T) => number,
  before = Infinity,
): Generator<T> {
  const heads = lines.flatMap((line) => {
    const walk = line.newestFirst(before);
    const first = walk.next();
    return first.done === true ? [] : [{ walk, item: first.value }];
  });
  while (heads.length > 0) {
    const newest = heads.reduce((a, b) => (arrivalOf(a.item) > arrivalOf(b.item) ? a : b));
    yield newest.item;
    const next = newest.walk.next();
    if (next.done === true) heads.splice(heads.indexOf(newest), 1);
    else newest.item = next.value;
  }
}
