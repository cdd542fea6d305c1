import { isBefore, isWanted, type RunFilter } from './run-filter.ts';
import type { RunRecord } from './run-record.ts';

export interface RunPage {
  runs: RunRecord[];
  /**
   * The run that the next page begins after; null if this is the last one. A page for which too many runs had
   * to be looked at is shorter than its limit, even empty, and has a next one.
   */
  next: string | null;
}

/** Runs that are looked at for one page at most. */
const mostExamined = 2_000;

/** Fills a page with runs that come newest first. */
export class PageOfRuns {
  readonly #limit: number;
  readonly #filter: RunFilter;
  readonly #runs: RunRecord[] = [];
  #examined = 0;
  #last: string | null = null;
  #next: string | null = null;

  constructor(limit: number, filter: RunFilter) {
    this.#limit = limit;
    this.#filter = filter;
  }

  /** Adds a run that is wanted. Returns whether no further run needs to be looked at. */
  isFull(record: RunRecord): boolean {
    if (isBefore(record, this.#filter)) return true;
    const wanted = isWanted(record, this.#filter);
    if ((wanted && this.#runs.length === this.#limit) || this.#examined === mostExamined) {
      this.#next = this.#last;
      return true;
    }
    this.#examined += 1;
    this.#last = record.run_id;
    if (wanted) this.#runs.push(record);
    return false;
  }

  page(): RunPage {
    return { runs: this.#runs, next: this.#next };
  }
}
