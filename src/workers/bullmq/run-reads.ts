import { randomBytes } from 'node:crypto';
import type { LastSuccess, PipelineOverview, RunQuery } from '../queue/job-queue.ts';
import { pageGone } from '../queue/refusals.ts';
import { PageOfRuns, type RunPage } from '../queue/run-filter.ts';
import { type EarlierRecord, type RunRecord, withAddedFields } from '../queue/run-record.ts';
import { unreadable } from './job-seal.ts';
import { jsonOf } from './job-shape.ts';
import { isObject, isRecord } from './record-shape.ts';
import type { RunScript } from './scripts.ts';

/** Reads run records, which all hosts share. Throws `queue_unavailable` while Redis is unreachable. */
export interface RunReads {
  find(runId: string): Promise<RunRecord | undefined>;
  /** Returns which of the given runs are finished or unknown. */
  finishedOf(runIds: readonly string[]): Promise<string[]>;
  /** See `JobQueue.list`. */
  list(pipelineIds: readonly string[], query: RunQuery): Promise<RunPage>;
  /** See `JobQueue.overview`. */
  overview(pipelineIds: readonly string[]): Promise<PipelineOverview[]>;
  /** See `JobQueue.waitingSince`. */
  waitingSince(pipelineIds: readonly string[]): Promise<(string | null)[]>;
  /**
   * Returns up to `limit` runs that changed after the given revision, starting with the oldest change. If the
   * revision is null, no runs are returned.
   */
  changes(after: number | null, limit: number): Promise<ChangesFound>;
}

export interface ChangesFound {
  /** Identifies this generation of the data, and changes if Redis loses it. */
  epoch: string;
  /** The revision of the latest change. */
  revision: number;
  /** The highest revision among the runs that have been deleted. */
  horizon: number;
  /** A change's `record` is null if the run has expired. */
  changes: { revision: number; record: RunRecord | null }[];
}

/** The maximum number of records to read in one call. */
const maxRead = 100;

export function runReads(run: RunScript): RunReads {
  const placeOf = async (runId: string, pipelineIds: readonly string[]): Promise<string> => {
    const [pipelineId = '', seq = ''] = (await run('place', { runId })) as string[];
    if (!pipelineIds.includes(pipelineId)) throw pageGone();
    return seq;
  };
  return {
    find: async (runId) => {
      const [record = ''] = (await run('find', {}, [runId])) as string[];
      return optionalRecord(record) ?? undefined;
    },
    finishedOf: async (runIds) => (await run('finished', {}, runIds)) as string[],
    list: async (pipelineIds, { limit, before = null, ...filter }) => {
      const page = new PageOfRuns(limit, filter);
      let from = before === null ? '' : await placeOf(before, pipelineIds);
      const isFiltered = Object.values(filter).some(Boolean);
      const pageLimit = isFiltered ? maxRead : Math.min(limit + 1, maxRead);
      for (;;) {
        const found = pairsOf(
          (await run('list', { before: from, limit: pageLimit }, pipelineIds)) as (string | number)[],
        );
        for (const { record } of found) if (record !== null && page.isFull(record)) return page.page();
        if (found.length < pageLimit) return page.page();
        from = String(found.at(-1)?.number);
      }
    },
    overview: async (pipelineIds) => {
      const answer = (await run('overview', {}, pipelineIds)) as (string | number)[];
      return pipelineIds.map((_id, index) => {
        const [waiting, running, newest, success, retrying] = answer.slice(5 * index).map(String);
        return {
          waiting: Number(waiting),
          retrying: Number(retrying),
          running: running === '' ? null : (running ?? null),
          lastRun: optionalRecord(newest ?? ''),
          lastSuccess: successOf(success ?? ''),
        };
      });
    },
    waitingSince: async (pipelineIds) =>
      ((await run('waitingSince', {}, pipelineIds)) as string[]).map((text) => {
        const record = optionalRecord(text);
        return record === null ? null : (record.queued_at ?? record.accepted_at);
      }),
    changes: async (after, limit) => {
      // Use a new name each time. Reusing one after a data loss would make the revisions ambiguous.
      const epoch = randomBytes(6).toString('hex');
      const answer = (await run('changes', { after: after ?? '', limit, epoch })) as (string | number)[];
      const [known, revision, horizon] = answer;
      const changes = pairsOf(answer.slice(3)).map((pair) => ({
        revision: pair.number,
        record: pair.record,
      }));
      return { epoch: String(known), revision: Number(revision), horizon: Number(horizon), changes };
    },
  };
}

/** Splits a reply with alternating numbers and records into pairs. */
function pairsOf(answer: readonly (string | number)[]): { number: number; record: RunRecord | null }[] {
  return answer.flatMap((number, index) =>
    index % 2 === 0 ? [{ number: Number(number), record: optionalRecord(String(answer[index + 1])) }] : [],
  );
}

/** Parses a record. Returns null if the run has expired, or if another program has overwritten the record. */
export function optionalRecord(text: string): RunRecord | null {
  const value = jsonOf(text);
  return isRecord(value) ? withAddedFields(value as EarlierRecord) : null;
}

/** Parses a record. Throws a `job_rejected` error if another program has overwritten it. */
export function requiredRecord(text: string): RunRecord {
  const record = optionalRecord(text);
  if (record === null) throw unreadable('record');
  return record;
}

/**
 * Parses the last successful run. Returns null if there isn't one, or if another program has overwritten it.
 */
function successOf(text: string): LastSuccess | null {
  const value = jsonOf(text);
  return isObject(value) && typeof value['run_id'] === 'string' && typeof value['finished_at'] === 'string'
    ? { run_id: value['run_id'], finished_at: value['finished_at'] }
    : null;
}
