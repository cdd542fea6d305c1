import { onAbort } from '../../core/lib/on-abort.ts';
import type { RunRecord } from './run-record.ts';

/**
 * Lets a reader follow the changes to all runs. The only state a reader has is a cursor. Every read returns
 * the changes after that cursor, along with the next one. A cursor can also be used by other readers and over
 * other connections, and, if the queue is shared, on other hosts.
 */
export interface RunWatch {
  /** Returns a cursor that points after the latest change. */
  cursor: () => Promise<string>;
  /**
   * Returns the changes after the cursor. Returns null if some of them may be missing, either because the
   * cursor belongs to a different queue or because a run that changed since then has been deleted. The reader
   * then has to start over with `cursor` and the current records.
   */
  after(cursor: string, query: ChangeQuery): Promise<ChangePage | null>;
  /** Stops calling `onChange`. */
  close(): void;
}

export interface RunChange {
  /** The cursor to continue after this change. */
  cursor: string;
  /** The current record. It is shared with other readers and must not be modified. */
  record: Readonly<RunRecord>;
}

export interface ChangePage {
  /** The oldest change comes first. Each run appears at most once, with its latest change. */
  changes: RunChange[];
  /**
   * The cursor to continue after this page. If later changes were filtered out, it points past those as well.
   */
  cursor: string;
  /** True if there is more to read already. */
  more: boolean;
}

export interface ChangeQuery {
  /** The maximum number of changes on the page. At least 1. */
  limit: number;
  wants: (record: Readonly<RunRecord>) => boolean;
}

/** A position in the sequence of changes. `epoch` identifies a generation of the queue's data. */
interface CursorPosition {
  epoch: string;
  revision: number;
}

/** The maximum number of changes to look at per page, including those that are filtered out. */
const maxExamined = 1_000;

const cursorForm = /^([\da-z]{8,32})-(0|[1-9]\d{0,14})$/;

export function formatCursor({ epoch, revision }: CursorPosition): string {
  return `${epoch}-${revision}`;
}

/** Parses a cursor. Returns null if the text is not one. */
export function parseCursor(cursor: string): CursorPosition | null {
  const [, epoch, revision] = cursorForm.exec(cursor) ?? [];
  return epoch === undefined ? null : { epoch, revision: Number(revision) };
}

/**
 * Keeps the latest change of each run, in the order of these changes. Every change gets the next revision
 * number. `horizon` is the highest revision of any run that was dropped. A reader that has not read past it
 * would miss a change.
 */
export class RunChanges {
  readonly epoch: string;
  readonly #ordered = new OrderedRuns<{ revision: number; record: Readonly<RunRecord> }>();
  /** The same changes, by run id. */
  readonly #latest = new Map<string, { revision: number; record: Readonly<RunRecord> }>();
  #revision: number;
  #horizon: number;

  /** Starts out empty, after `revision`. */
  constructor({ epoch, revision }: CursorPosition) {
    this.epoch = epoch;
    this.#revision = revision;
    this.#horizon = revision;
  }

  get revision(): number {
    return this.#revision;
  }

  get size(): number {
    return this.#latest.size;
  }

  /**
   * Adds a change, which by default gets the next revision. Returns false and does nothing if this is the
   * same change as the run's last one.
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

  /** Skips the revisions of runs that no longer exist. */
  skipTo(revision: number): void {
    this.#revision = Math.max(this.#revision, revision);
  }

  forget(runId: string): void {
    const change = this.#latest.get(runId);
    if (change === undefined) return;
    this.#latest.delete(runId);
    this.#ordered.remove(change.revision);
    this.#horizon = Math.max(this.#horizon, change.revision);
  }

  /** Drops the run whose last change is the oldest. */
  forgetOldest(): void {
    const [oldest] = this.#ordered.oldestFirst();
    if (oldest !== undefined) this.forget(oldest.record.run_id);
  }

  /**
   * Returns the changes after the revision, or null if some of them have been dropped. Looks at up to 1,000
   * changes.
   */
  after(revision: number, { limit, wants }: ChangeQuery): ChangePage | null {
    if (revision < this.#horizon || revision > this.#revision) return null;
    const { epoch } = this;
    const changes: RunChange[] = [];
    let seen = revision;
    let examined = 0;
    for (const change of this.#ordered.oldestFirst(revision)) {
      if (changes.length === limit || examined === maxExamined)
        return { changes, cursor: formatCursor({ epoch, revision: seen }), more: true };
      examined += 1;
      seen = change.revision;
      if (wants(change.record))
        changes.push({ cursor: formatCursor({ epoch, revision: seen }), record: change.record });
    }
    return { changes, cursor: formatCursor({ epoch, revision: this.#revision }), more: false };
  }
}

interface Entry<T> {
  /** Every item has a higher number than the one before. */
  sequence: number;
  /** undefined if the item has been removed. */
  item: T | undefined;
}

/**
 * A list of items, ordered by their sequence numbers. Iterating can start at either end or at any item, and
 * only costs as much as the number of steps. Adding and removing items takes constant time on average. Do not
 * remove items during an iteration.
 */
export class OrderedRuns<T> {
  #entries: Entry<T>[] = [];
  #nextSequence = 0;
  #removed = 0;

  get length(): number {
    return this.#entries.length - this.#removed;
  }

  /**
   * Adds an item and returns its sequence number, which identifies it in `remove` and when iterating. By
   * default, that is the next number. If `sequence` is given, it must be higher than all numbers so far.
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

  /** Iterates backward, starting with the newest item or the last one before `before`. */
  *newestFirst(before = Infinity): Generator<T> {
    for (let index = this.#indexOf(before) - 1; index >= 0; index--) {
      const item = this.#entries[index]?.item;
      if (item !== undefined) yield item;
    }
  }

  /** Iterates forward, starting with the oldest item or the first one after `after`. */
  *oldestFirst(after = -1): Generator<T> {
    for (let index = this.#indexOf(after + 1); index < this.#entries.length; index++) {
      const item = this.#entries[index]?.item;
      if (item !== undefined) yield item;
    }
  }

  /** Finds the first entry whose sequence number is not below the given one, and returns its index. */
  #indexOf(sequence: number): number {
    let low = 0;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#entries[middle] as Entry<T>).sequence < sequence) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/**
 * Iterates over several lists that share their sequence numbers, starting with the newest item or the last
 * one before `before`. Each step takes time proportional to the number of lists.
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

/** The callers that are waiting for a run to finish, by run. */
export class RunWaiters {
  readonly #ends = new Map<string, Set<() => void>>();

  /** The ids of the runs that have waiting callers. */
  get runIds(): string[] {
    return [...this.#ends.keys()];
  }

  /** Resolves when `finished` is called for this run, or when `signal` aborts. Never rejects. */
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
