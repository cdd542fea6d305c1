import { RunLine } from './run-line.ts';
import type { RunRecord } from './run-record.ts';

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
export interface ChangePlace {
  epoch: string;
  revision: number;
}

/** Changes that one page looks at, wanted or not. */
const mostExamined = 1_000;

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
      if (changes.length === most || examined === mostExamined)
        return { changes, cursor: cursorOf({ epoch, revision: seen }), more: true };
      examined += 1;
      seen = change.revision;
      if (wants(change.record))
        changes.push({ cursor: cursorOf({ epoch, revision: seen }), record: change.record });
    }
    return { changes, cursor: cursorOf({ epoch, revision: this.#revision }), more: false };
  }
}
