import { onAbort } from '../../core/lib/on-abort.ts';
import type { RunRecord } from './run-record.ts';

/**
 * One reader's view of the changes of all runs. A reader keeps a cursor and nothing else: it asks for what
 * changed after it, and goes on from the cursor of the answer. Cursors hold across readers, connections and,
 * where the queue is shared, hosts.
 */
export interface RunWatch {
  /** Where a reader stands who has seen everything until now. */
  cursor: () => Promise<string>;
  /**
   * What changed after the cursor. Null if that cannot be told without a gap: the cursor is no cursor of this
   * queue, or a run whose change it does not cover has been forgotten. Whoever gets null begins anew, with
   * `cursor` and then the records as they are.
   */
  after(cursor: string, query: ChangeQuery): Promise<ChangePage | null>;
  /** `onChange` is not called again. */
  close(): void;
}

/** The newest change of one run. */
export interface RunChange {
  /** Of a reader who has seen this change and all before it. */
  cursor: string;
  /** The record as it is now; shared with other readers, and never changed. */
  record: Readonly<RunRecord>;
}

export interface ChangePage {
  /** Oldest first; each run at most once, since only its newest change counts. */
  changes: RunChange[];
  /** Of a reader who has seen this page; later than the last change where changes of other runs follow it. */
  cursor: string;
  /** Whether there is another page now. */
  more: boolean;
}

export interface ChangeQuery {
  /** Changes on the page, at least 1. */
  most: number;
  wants: (record: Readonly<RunRecord>) => boolean;
}

/** A place among the changes of one life of a queue, which `epoch` names. */
interface ChangePlace {
  epoch: string;
  revision: number;
}

/** Changes that one page looks at, wanted or not. */
const maxExamined = 1_000;

const cursorForm = /^([\da-z]{8,32})-(0|[1-9]\d{0,14})$/;

export function cursorOf({ epoch, revision }: ChangePlace): string {
  return `${epoch}-${revision}`;
}

/** Null for a text that is no cursor. */
export function placeOf(cursor: string): ChangePlace | null {
  const [, epoch, revision] = cursorForm.exec(cursor) ?? [];
  return epoch === undefined ? null : { epoch, revision: Number(revision) };
}

/**
 * Runs in the order of their last changes. Each change has a revision, one more than the change before it;
 * of each run only the last one is kept, so there are never more than there are runs. `horizon` is the newest
 * revision of those that are gone: who has not seen it cannot go on without a gap.
 */
export class RunChanges {
  readonly epoch: string;
  readonly #line = new RunLine<{ revision: number; record: Readonly<RunRecord> }>();
  /** By run id. */
  readonly #latest = new Map<string, { revision: number; record: Readonly<RunRecord> }>();
  #revision: number;
  #horizon: number;

  /** Begins after `revision`: what changed before is gone. */
  constructor({ epoch, revision }: ChangePlace) {
    this.epoch = epoch;
    this.#revision = revision;
    this.#horizon = revision;
  }

  get revision(): number {
    return this.#revision;
  }

  /** How many runs there are. */
  get size(): number {
    return this.#latest.size;
  }

  /**
   * Adds a change, later than all others; by default with the next revision. Returns false, and adds nothing,
   * if it is the change that was added last of this run.
   */
  add(record: Readonly<RunRecord>, revision = this.#revision + 1): boolean {
    const { run_id: runId } = record;
    const before = this.#latest.get(runId);
    if (before?.record === record) return false;
    if (before !== undefined) this.#line.remove(before.revision);
    const change = { revision, record };
    this.#line.push(change, revision);
    this.#latest.set(runId, change);
    this.#revision = revision;
    return true;
  }

  /** Notes revisions of runs that are gone already. */
  skipTo(revision: number): void {
    this.#revision = Math.max(this.#revision, revision);
  }

  /** Drops a run. */
  forget(runId: string): void {
    const change = this.#latest.get(runId);
    if (change === undefined) return;
    this.#latest.delete(runId);
    this.#line.remove(change.revision);
    this.#horizon = Math.max(this.#horizon, change.revision);
  }

  /** Drops the run that did not change for the longest time. */
  forgetOldest(): void {
    const [oldest] = this.#line.oldestFirst();
    if (oldest !== undefined) this.forget(oldest.record.run_id);
  }

  /**
   * What changed after the revision; null if not all of that is here. Costs as much as the changes it looks
   * at, a thousand at most.
   */
  after(revision: number, { most, wants }: ChangeQuery): ChangePage | null {
    if (revision < this.#horizon || revision > this.#revision) return null;
    const { epoch } = this;
    const changes: RunChange[] = [];
    let [seen, examined] = [revision, 0];
    for (const change of this.#line.oldestFirst(revision)) {
      if (changes.length === most || examined === maxExamined)
        return { changes, cursor: cursorOf({ epoch, revision: seen }), more: true };
      examined += 1;
      seen = change.revision;
      if (wants(change.record))
        changes.push({ cursor: cursorOf({ epoch, revision: seen }), record: change.record });
    }
    return { changes, cursor: cursorOf({ epoch, revision: this.#revision }), more: false };
  }
}

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

/** Those who wait for runs to finish, by run. */
export class RunWaiters {
  readonly #ends = new Map<string, Set<() => void>>();

  /** The runs that somebody waits for. */
  get runIds(): string[] {
    return [...this.#ends.keys()];
  }

  /** Resolves when `finished` is called for the run, or when `signal` aborts. Never rejects. */
  wait(runId: string, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    const ends = this.#ends.get(runId) ?? new Set();
    this.#ends.set(runId, ends);
    return new Promise((resolve) => {
      const end = (): void => {
        release();
        ends.delete(end);
        if (ends.size === 0) this.#ends.delete(runId);
        resolve();
      };
      ends.add(end);
      const release = onAbort(signal, end);
    });
  }

  finished(runId: string): void {
    for (const end of [...(this.#ends.get(runId) ?? [])]) end();
  }
}
