import { onAbort } from '../../core/lib/on-abort.ts';
import type { RunRecord } from './run-record.ts';

/**
 * One reader's view of the changes to all runs. A reader's only state is a cursor. Each read returns the
 * changes after it and the next cursor. Cursors are also valid for other readers and connections and, if the
 * queue is shared, on other hosts.
 */
export interface RunWatch {
  /** Returns the cursor after the newest change. */
  cursor: () => Promise<string>;
  /**
   * Returns the changes after the cursor. Returns null if some may be missing, because the cursor is not from
   * this queue or a run that changed later was forgotten. The reader then starts over with `cursor` and the
   * current records.
   */
  after(cursor: string, query: ChangeQuery): Promise<ChangePage | null>;
  /** Stops calling `onChange`. */
  close(): void;
}

/** The newest change to one run. */
export interface RunChange {
  /** The cursor after this change. */
  cursor: string;
  /** The current record. Shared with other readers and never modified. */
  record: Readonly<RunRecord>;
}

export interface ChangePage {
  /** Oldest first. Each run appears at most once, with its newest change. */
  changes: RunChange[];
  /**
   * The cursor after this page. It may be later than the last change on the page if filtered changes follow.
   */
  cursor: string;
  /** True if there is already another page. */
  more: boolean;
}

export interface ChangeQuery {
  /** Maximum number of changes on the page, at least 1. */
  limit: number;
  wants: (record: Readonly<RunRecord>) => boolean;
}

/** A position among the changes. `epoch` identifies one generation of the queue's data. */
interface ChangePlace {
  epoch: string;
  revision: number;
}

/** Maximum number of changes examined per page, including filtered ones. */
const maxExamined = 1_000;

const cursorForm = /^([\da-z]{8,32})-(0|[1-9]\d{0,14})$/;

export function cursorOf({ epoch, revision }: ChangePlace): string {
  return `${epoch}-${revision}`;
}

/** Returns null if the text is not a cursor. */
export function placeOf(cursor: string): ChangePlace | null {
  const [, epoch, revision] = cursorForm.exec(cursor) ?? [];
  return epoch === undefined ? null : { epoch, revision: Number(revision) };
}

/**
 * Runs in the order of their last changes. Each change increments the revision. Only the last change of each
 * run is kept. `horizon` is the newest revision of any dropped run. A reader before it would miss a change.
 */
export class RunChanges {
  readonly epoch: string;
  readonly #ordered = new OrderedRuns<{ revision: number; record: Readonly<RunRecord> }>();
  /** Keyed by run id. */
  readonly #latest = new Map<string, { revision: number; record: Readonly<RunRecord> }>();
  #revision: number;
  #horizon: number;

  /** Starts after `revision`. Earlier changes are not available. */
  constructor({ epoch, revision }: ChangePlace) {
    this.epoch = epoch;
    this.#revision = revision;
    this.#horizon = revision;
  }

  get revision(): number {
    return this.#revision;
  }

  /** Number of runs. */
  get size(): number {
    return this.#latest.size;
  }

  /**
   * Adds the newest change. The default revision is the next one. Returns false and adds nothing if this is
   * the same change as the run's last one.
   */
  add(record: Readonly<RunRecord>, revision = this.#revision + 1): boolean {
    const { run_id: runId } = record;
    const before = this.#latest.get(runId);
    if (before?.record === record) return false;
    if (before !== undefined) this.#ordered.remove(before.revision);
    const change = { revision, record };
    this.#ordered.push(change, revision);
    this.#latest.set(runId, change);
    this.#revision = revision;
    return true;
  }

  /** Skips revisions of runs that no longer exist. */
  skipTo(revision: number): void {
    this.#revision = Math.max(this.#revision, revision);
  }

  /** Drops a run. */
  forget(runId: string): void {
    const change = this.#latest.get(runId);
    if (change === undefined) return;
    this.#latest.delete(runId);
    this.#ordered.remove(change.revision);
    this.#horizon = Math.max(this.#horizon, change.revision);
  }

  /** Drops the run with the oldest change. */
  forgetOldest(): void {
    const [oldest] = this.#ordered.oldestFirst();
    if (oldest !== undefined) this.forget(oldest.record.run_id);
  }

  /**
   * Returns the changes after the revision, or null if some of them were dropped. Examines at most 1,000
   * changes.
   */
  after(revision: number, { limit, wants }: ChangeQuery): ChangePage | null {
    if (revision < this.#horizon || revision > this.#revision) return null;
    const { epoch } = this;
    const changes: RunChange[] = [];
    let [seen, examined] = [revision, 0];
    for (const change of this.#ordered.oldestFirst(revision)) {
      if (changes.length === limit || examined === maxExamined)
        return { changes, cursor: cursorOf({ epoch, revision: seen }), more: true };
      examined += 1;
      seen = change.revision;
      if (wants(change.record))
        changes.push({ cursor: cursorOf({ epoch, revision: seen }), record: change.record });
    }
    return { changes, cursor: cursorOf({ epoch, revision: this.#revision }), more: false };
  }
}

interface Entry<T> {
  /** Increases with each item. */
  sequence: number;
  /** undefined once the item has been removed. */
  item: T | undefined;
}

/**
 * Items in order of their sequence numbers. Iterating from an item or from either end costs only the steps
 * taken. Adding and removing take amortized constant time. Items must not be removed during an iteration.
 */
export class OrderedRuns<T> {
  #entries: Entry<T>[] = [];
  #nextSequence = 0;
  #removed = 0;

  get length(): number {
    return this.#entries.length - this.#removed;
  }

  /**
   * Adds an item. Returns its sequence number for `remove` and iterations. The default is the next number. An
   * explicit number must be greater than all earlier ones.
   */
  push(item: T, sequence = this.#nextSequence): number {
    this.#nextSequence = sequence + 1;
    this.#entries.push({ sequence, item });
    return sequence;
  }

  remove(sequence: number): void {
    const entry = this.#entries[this.#indexOf(sequence)];
    if (entry?.sequence !== sequence || entry.item === undefined) return;
    entry.item = undefined;
    this.#removed += 1;
    if (this.#removed * 2 <= this.#entries.length) return;
    this.#entries = this.#entries.filter(({ item }) => item !== undefined);
    this.#removed = 0;
  }

  /** Iterates from the newest item, or from the last one before `before`, to the oldest. */
  *newestFirst(before = Infinity): Generator<T> {
    for (let index = this.#indexOf(before) - 1; index >= 0; index--) {
      const item = this.#entries[index]?.item;
      if (item !== undefined) yield item;
    }
  }

  /** Iterates from the oldest item, or from the first one after `after`, to the newest. */
  *oldestFirst(after = -1): Generator<T> {
    for (let index = this.#indexOf(after + 1); index < this.#entries.length; index++) {
      const item = this.#entries[index]?.item;
      if (item !== undefined) yield item;
    }
  }

  /** Returns the index of the first entry whose sequence number is not lower than the given one. */
  #indexOf(sequence: number): number {
    let [low, high] = [0, this.#entries.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#entries[middle] as Entry<T>).sequence < sequence) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/**
 * Iterates over several lists with common numbering, starting from the newest item or from the last one
 * before `before`. The cost of each step is proportional to the number of lists.
 */
export function* newestOfAll<T>(
  lines: readonly OrderedRuns<T>[],
  sequenceOf: (item: T) => number,
  before = Infinity,
): Generator<T> {
  const heads = lines.flatMap((line) => {
    const walk = line.newestFirst(before);
    const first = walk.next();
    return first.done === true ? [] : [{ walk, item: first.value }];
  });
  while (heads.length > 0) {
    const newest = heads.reduce((a, b) => (sequenceOf(a.item) > sequenceOf(b.item) ? a : b));
    yield newest.item;
    const next = newest.walk.next();
    if (next.done === true) heads.splice(heads.indexOf(newest), 1);
    else newest.item = next.value;
  }
}

/** Callers waiting for runs to finish, grouped by run. */
export class RunWaiters {
  readonly #ends = new Map<string, Set<() => void>>();

  /** The awaited runs. */
  get runIds(): string[] {
    return [...this.#ends.keys()];
  }

  /** Resolves when `finished` is called for the run or when `signal` aborts. Never rejects. */
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
