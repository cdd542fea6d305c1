import { randomBytes } from 'node:crypto';
import { isRecord } from '../../core/lib/json-document.ts';
import type { BundleUsage, LastSuccess, PipelineOverview, QueueDepth, RunQuery } from '../queue/job-queue.ts';
import { pageGone, type QueueLoad } from '../queue/refusals.ts';
import { PageOfRuns, type RunPage } from '../queue/run-filter.ts';
import { type LegacyRunRecord, type RunRecord, upgradeRecord } from '../queue/run-record.ts';
import { unreadableError } from './job-seal.ts';
import type { RedisLink } from './link.ts';
import { pairsOf } from './scripts.ts';
import { isRunRecord, jsonOf } from './shapes.ts';

interface ChangeSet {
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

/**
 * Reads the records of runs and their numbers, which all hosts share. Every method throws
 * `queue_unavailable` while Redis is unreachable.
 */
export class RunReads {
  readonly #link: RedisLink;

  constructor(link: RedisLink) {
    this.#link = link;
  }

  async find(runId: string): Promise<RunRecord | undefined> {
    const [record = ''] = await this.#link.list('runs/find', {}, [runId]);
    return optionalRecord(record) ?? undefined;
  }

  /** Returns which of the given runs are finished or unknown. */
  findFinished(runIds: readonly string[]): Promise<string[]> {
    return this.#link.list('runs/finished', {}, runIds);
  }

  /** See `JobQueue.list`. */
  async list(pipelineIds: readonly string[], { limit, before, ...filter }: RunQuery): Promise<RunPage> {
    const page = new PageOfRuns(limit, filter);
    let from = before == null ? '' : await this.#placeOf(before, pipelineIds);
    const isFiltered = Object.values(filter).some(Boolean);
    const readLimit = isFiltered ? maxRead : Math.min(limit + 1, maxRead);
    for (;;) {
      const answer = await this.#link.list('runs/list', { before: from, limit: readLimit }, pipelineIds);
      const found = pairsOf(answer);
      for (const [, text] of found) {
        const record = optionalRecord(text);
        if (record !== null && page.add(record)) return page.result();
      }
      if (found.length < readLimit) return page.result();
      from = found.at(-1)?.[0] ?? '';
    }
  }

  /** See `JobQueue.overview`. */
  async overview(pipelineIds: readonly string[]): Promise<PipelineOverview[]> {
    const answer = await this.#link.list('runs/overview', {}, pipelineIds);
    return pipelineIds.map((_id, index) => {
      const [waiting, running = '', newest = '', success = '', retrying] = answer.slice(5 * index);
      return {
        waiting: Number(waiting),
        retrying: Number(retrying),
        running: running === '' ? null : running,
        lastRun: optionalRecord(newest),
        lastSuccess: successOf(success),
      };
    });
  }

  /** See `JobQueue.waitingSince`. */
  async waitingSince(pipelineIds: readonly string[]): Promise<(string | null)[]> {
    const found = await this.#link.list('runs/waiting-since', {}, pipelineIds);
    return found.map((text) => {
      const record = optionalRecord(text);
      return record?.queued_at ?? record?.accepted_at ?? null;
    });
  }

  async depth(): Promise<QueueDepth> {
    const [reserved, queued, running] = await this.#link.list('runs/depth', {});
    return { reserved: Number(reserved), queued: Number(queued), running: Number(running) };
  }

  /** See `JobQueue.bundleUsage`. */
  async bundleUsage(): Promise<BundleUsage> {
    const { redis } = this.#link;
    const [bundles, bytes] = await Promise.all([
      this.#link.ask(() => redis.zcard(this.#link.key('kept'))),
      this.#link.ask(() => redis.get(this.#link.key('kept-bytes'))),
    ]);
    return { bundles, bytes: Number(bytes ?? 0) };
  }

  /** Returns how fast a pipeline works through its runs. If the id is null, covers all pipelines. */
  async pace(pipelineId: string | null): Promise<QueueLoad> {
    const answer = await this.#link.list('runs/pace', { pipeline: pipelineId ?? '' });
    const [now = 0, waiting = 0, isPaused = 0, ...ends] = answer.map(Number);
    return { now, waiting, isPaused: isPaused === 1, endedAt: ends.reverse().filter(Number.isFinite) };
  }

  /**
   * Returns up to `limit` runs that changed after the given revision, starting with the oldest change. If the
   * revision is null, no runs are returned.
   */
  async changes(after: number | null, limit: number): Promise<ChangeSet> {
    // Use a new name each time. Reusing one after a data loss would make the revisions ambiguous.
    const epoch = randomBytes(6).toString('hex');
    const answer = await this.#link.list('runs/changes', { after: after ?? '', limit, epoch });
    const [known = '', revision, horizon, ...found] = answer;
    const changes = pairsOf(found).map(([number, text]) => ({
      revision: Number(number),
      record: optionalRecord(text),
    }));
    return { epoch: known, revision: Number(revision), horizon: Number(horizon), changes };
  }

  async #placeOf(runId: string, pipelineIds: readonly string[]): Promise<string> {
    const [pipelineId = '', seq = ''] = await this.#link.list('runs/place', { runId });
    if (!pipelineIds.includes(pipelineId)) throw pageGone();
    return seq;
  }
}

/** Parses a record. Returns null if the run has expired, or if another program has overwritten the record. */
export function optionalRecord(text: string): RunRecord | null {
  const value = jsonOf(text);
  return isRunRecord(value) ? upgradeRecord(value as LegacyRunRecord) : null;
}

/** Parses a record. Throws a `job_rejected` error if another program has overwritten it. */
export function requiredRecord(text: string): RunRecord {
  const record = optionalRecord(text);
  if (record === null) throw unreadableError('record');
  return record;
}

/**
 * Parses the last successful run. Returns null if there is not one, or if another program has overwritten it.
 */
function successOf(text: string): LastSuccess | null {
  const value = jsonOf(text);
  return isRecord(value) && typeof value['run_id'] === 'string' && typeof value['finished_at'] === 'string'
    ? { run_id: value['run_id'], finished_at: value['finished_at'] }
    : null;
}
