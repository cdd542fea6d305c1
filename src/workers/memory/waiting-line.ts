interface Place<T> {
  /** Ordinal number of the arrival, over all pipelines. */
  arrival: number;
  item: T;
}

/**
 * Waiting items, one queue for each pipeline. `take` looks only at the heads of the queues, so that it costs
 * the same however many items wait.
 */
export class WaitingLine<T> {
  readonly #lines = new Map<string, Place<T>[]>();
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** How many wait of one pipeline. */
  lengthOf(pipelineId: string): number {
    return this.#lines.get(pipelineId)?.length ?? 0;
  }

  /** The one of the pipeline that waits longest. */
  firstOf(pipelineId: string): T | undefined {
    return this.#lines.get(pipelineId)?.[0]?.item;
  }

  /** @param arrival Its place among all items; one that arrived earlier stands before later ones. */
  push(pipelineId: string, item: T, arrival: number): void {
    const line = this.#lines.get(pipelineId) ?? [];
    this.#lines.set(pipelineId, line);
    const index = line.findLastIndex((place) => place.arrival < arrival) + 1;
    line.splice(index, 0, { arrival, item });
    this.#length += 1;
  }

  /** Takes the item that arrived first among those whose pipeline is free; undefined if there is none. */
  take(isFree: (pipelineId: string) => boolean): T | undefined {
    let first: { pipelineId: string; line: Place<T>[]; place: Place<T> } | undefined;
    for (const [pipelineId, line] of this.#lines) {
      const place = line[0] as Place<T>;
      if (place.arrival < (first?.place.arrival ?? Infinity) && isFree(pipelineId))
        first = { pipelineId, line, place };
    }
    if (first === undefined) return undefined;
    first.line.shift();
    if (first.line.length === 0) this.#lines.delete(first.pipelineId);
    this.#length -= 1;
    return first.place.item;
  }

  /** Takes one item out of its place; false if it does not wait. */
  remove(pipelineId: string, item: T): boolean {
    const line = this.#lines.get(pipelineId);
    const index = line?.findIndex((place) => place.item === item) ?? -1;
    if (line === undefined || index === -1) return false;
    line.splice(index, 1);
    if (line.length === 0) this.#lines.delete(pipelineId);
    this.#length -= 1;
    return true;
  }

  /** Whether `take` would find one. */
  has(isFree: (pipelineId: string) => boolean): boolean {
    return [...this.#lines.keys()].some(isFree);
  }

  /** Takes all items, in the order of arrival. */
  takeAll(): T[] {
    const places = [...this.#lines.values()].flat().sort((a, b) => a.arrival - b.arrival);
    this.#lines.clear();
    this.#length = 0;
    return places.map(({ item }) => item);
  }
}
