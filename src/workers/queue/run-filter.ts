import type { RunRecord, RunStatus } from './run-record.ts';

/** Selects runs. Properties that are null or missing do not filter anything out. */
export interface RunFilter {
  status?: RunStatus | null;
  /** Only match runs accepted at this time or later. */
  since?: Date | null;
  /** Only match runs accepted at this time or earlier. */
  notAfter?: Date | null;
  /**
   * Only match runs that contain every word of this text, ignoring case. Searches the id and status, all ids,
   * actions, paths, errors, and warnings in the record, and the fields about who published it and why (token,
   * publisher, message, commit, branch, author).
   */
  text?: string | null;
}

/** The maximum difference between the clocks of the hosts that accept runs. */
const maxSkewMs = 60_000;

/** Reports whether a run matches the filter. */
function isWanted(record: Readonly<RunRecord>, { status, since, notAfter, text }: RunFilter): boolean {
  if (status && record.status !== status) return false;
  if (since && Date.parse(record.accepted_at) < since.getTime()) return false;
  if (notAfter && Date.parse(record.accepted_at) > notAfter.getTime()) return false;
  return !text || hasWords(record, text);
}

/** Reports whether it is pointless to look at runs accepted before this one, since none of them can match. */
function isBefore(record: Readonly<RunRecord>, { since }: RunFilter): boolean {
  return Boolean(since) && Date.parse(record.accepted_at) < (since as Date).getTime() - maxSkewMs;
}

function hasWords(record: Readonly<RunRecord>, text: string): boolean {
  const searched = searchedText(record).toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => searched.includes(word));
}

function searchedText(record: Readonly<RunRecord>): string {
  const { run_id, status, error, destinations, warnings, triggered_by, revision, published_by } = record;
  const auditedFields = [
    triggered_by.token_id,
    published_by?.publisher_id,
    published_by?.subject,
    revision?.message,
    revision?.commit,
    revision?.branch,
    revision?.author,
  ];
  const errors = [error, ...destinations.map((destination) => destination.error)];
  return [
    run_id,
    status,
    ...auditedFields.map((text) => text ?? ''),
    ...destinations.flatMap(({ destination_id, action, destination_path }) => [
      destination_id,
      action,
      destination_path ?? '',
    ]),
    ...errors.flatMap((one) => (one === null ? [] : [one.code, one.message])),
    ...warnings.flatMap(({ code, message }) => [code, message]),
  ].join('\n');
}

export interface RunPage {
  runs: RunRecord[];
  /**
   * The run after which to start the next page, or null if this is the last one. If too many runs have to be
   * looked at, a page may have fewer runs than its limit, or even none.
   */
  next: string | null;
}

/** The maximum number of runs to look at per page. */
const maxExamined = 2_000;

/** Builds a page of runs, newest first. */
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

  /** Adds the run if it matches. Returns true if the page is complete. */
  add(record: RunRecord): boolean {
    if (isBefore(record, this.#filter)) return true;
    const wanted = isWanted(record, this.#filter);
    if ((wanted && this.#runs.length === this.#limit) || this.#examined === maxExamined) {
      this.#next = this.#last;
      return true;
    }
    this.#examined += 1;
    this.#last = record.run_id;
    if (wanted) this.#runs.push(record);
    return false;
  }

  result(): RunPage {
    return { runs: this.#runs, next: this.#next };
  }
}
