interface Place<T> {
  /** Ordinal number of the arrival; grows along the line. */
  arrival: number;
  /** Undefined once the item is gone. */
  item: T | undefined;
}

/**
 * Items in the order of their arrival. Walking back from the newest, or from any item, costs as much as the
 * steps that are taken, however many there are; adding and removing cost the same always, on the average.
 */
export class RunLine<T> {
  #places: Place<T>[] = [];
  #arrivals = 0;
  #gone = 0;

  get length(): number {
    return this.#places.length - this.#gone;
  }

  /** Returns the item's place, for `remove` and `newestFirst`. */
  push(item: T): number {
    const arrival = this.#arrivals++;
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
