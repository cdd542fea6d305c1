import { type Digest, digestOf } from '../../core/lib/digest.ts';
import type { Rerun } from '../queue/bundle-retention.ts';
import type { PublishJob } from '../queue/job.ts';
import type { AcceptedRun, Admission, AdmissionRequest } from '../queue/job-queue.ts';
import {
  admissionEnded,
  bundleGone,
  keyConflict,
  keyInProgress,
  runNotFinished,
  runUnknown,
  shuttingDown,
} from '../queue/refusals.ts';
import type { RunRecord } from '../queue/run-record.ts';
import type { RunRegistry } from './run-registry.ts';
import type { RunScheduler } from './run-scheduler.ts';
import type { Run } from './run-table.ts';
import { type Keys, scopeOf, type Slots, type UsedKey } from './slots.ts';

interface AdmissionsOptions {
  runs: RunRegistry;
  scheduler: RunScheduler;
  slots: Slots;
  keys: Keys;
  /** Called when an upload has ended, since it may have been the last one in progress. */
  onIdle: () => void;
}

// The digest only matters for runs that have a key.
const noContent = digestOf('');

interface Acceptance {
  scope: string | null;
  rerunFailed: boolean;
  contentDigest: Digest;
  hasNoSlot: boolean;
}

/**
 * Keeps track of uploads until they become runs.
 *
 * From `reserve` until `accept` or `release`, an upload occupies a slot. Once accepted, it becomes a run,
 * which has a record until its retention period ends. The run still occupies the slot until the journal has
 * written it to disk, and repeated requests have to wait for that, too.
 *
 * A key is checked twice. `reserve` only rejects a key that another upload is using at the same time, because
 * there is no content to compare yet. `accept` compares the contents. A request whose key was already used
 * will not queue anything, so it does not need a slot. That changes if the first run expires in the meantime,
 * or if it failed and the request asks to rerun it.
 *
 * In the phase `open`, everything is allowed. In `draining`, no new slots are given out, but uploads that
 * have one may continue. In `closed`, nothing can be started anymore.
 */
export class Admissions {
  readonly #runs: RunRegistry;
  readonly #scheduler: RunScheduler;
  readonly #slots: Slots;
  readonly #keys: Keys;
  readonly #onIdle: () => void;
  #phase: 'open' | 'draining' | 'closed' = 'open';

  constructor({ runs, scheduler, slots, keys, onIdle }: AdmissionsOptions) {
    this.#runs = runs;
    this.#scheduler = scheduler;
    this.#slots = slots;
    this.#keys = keys;
    this.#onIdle = onIdle;
  }

  /** The number of slots in use. */
  get reserved(): number {
    return this.#slots.length;
  }

  get isIdle(): boolean {
    return this.#slots.isIdle;
  }

  drain(): void {
    if (this.#phase === 'open') this.#phase = 'draining';
  }

  close(): void {
    this.#phase = 'closed';
  }

  /** See `JobQueue.reserve`. */
  async reserve(request: AdmissionRequest): Promise<Admission> {
    if (this.#phase !== 'open') throw shuttingDown();
    this.#runs.expire();
    const scope = scopeOf(request);
    const rerunFailed = request.idempotency?.rerunFailed ?? false;
    const known = this.#keys.get(scope);
    const isReplay = known?.state === 'used' && !(rerunFailed && this.#hasFailed(known));
    if (!isReplay) this.#slots.refuseIfFull(request.pipelineId);
    if (known?.state === 'staging') throw keyInProgress();
    const ownsKey = scope !== null && known === undefined;
    if (ownsKey) this.#keys.take(scope);
    const endSlot = this.#slots.take(request.pipelineId, { isReplay });
    const end = (): boolean => {
      const isFirst = endSlot();
      if (isFirst && ownsKey) this.#keys.release(scope);
      return isFirst;
    };
    return {
      accept: async (job, contentDigest) => {
        if (!end()) throw admissionEnded();
        try {
          return await this.#enqueue(job, { scope, rerunFailed, contentDigest, hasNoSlot: isReplay });
        } finally {
          this.#onIdle();
        }
      },
      release: async () => {
        if (end()) this.#onIdle();
      },
    };
  }

  /** See `JobQueue.rerun`. */
  async rerun(runId: string, next: Rerun): Promise<AcceptedRun> {
    if (this.#phase !== 'open') throw shuttingDown();
    this.#runs.expire();
    const old = this.#runs.get(runId);
    if (old === undefined) throw runUnknown();
    if (old.record.finished_at === null) throw runNotFinished(old.record.status);
    const known = old.rerunAs === null ? undefined : this.#runs.get(old.rerunAs);
    if (known !== undefined) return this.#replayed(known);
    if (old.bundle === 'gone') throw bundleGone();
    const { pipelineId } = old.job;
    this.#slots.refuseIfFull(pipelineId);
    const position = this.#scheduler.waitingOf(pipelineId) + 1;
    const { run, accepted } = this.#runs.rerun(old, next, position);
    return this.#queued(run, accepted);
  }

  /** Accepts a run that was started by a trigger. It does not need a slot. Throws `shutting_down`. */
  async startTriggered(job: PublishJob): Promise<RunRecord> {
    if (this.#phase !== 'open') throw shuttingDown();
    const withoutKey = { scope: null, rerunFailed: false, contentDigest: noContent, hasNoSlot: false };
    return (await this.#enqueue(job, withoutKey)).record;
  }

  async #enqueue(
    job: PublishJob,
    { scope, rerunFailed, contentDigest, hasNoSlot }: Acceptance,
  ): Promise<AcceptedRun> {
    if (this.#phase === 'closed') throw shuttingDown();
    this.#runs.expire();
    const known = this.#keys.get(scope);
    if (known?.state === 'staging') throw keyInProgress();
    if (known?.state === 'used') {
      if (known.contentDigest !== contentDigest) throw keyConflict();
      const first = this.#runs.get(known.runId) as Run;
      if (!(rerunFailed && this.#hasFailed(known))) return this.#replayed(first);
    }
    if (hasNoSlot) this.#slots.refuseIfFull(job.pipelineId);
    const position = this.#scheduler.waitingOf(job.pipelineId) + 1;
    const key = scope === null ? null : { scope, contentDigest };
    const { run, accepted } = this.#runs.accept(job, { key, position });
    if (scope !== null) this.#keys.use(scope, job.runId, contentDigest);
    return this.#queued(run, accepted, known);
  }

  async #replayed(first: Run): Promise<AcceptedRun> {
    if (first.kept !== null) await first.kept;
    return { record: structuredClone(first.record), replayed: true, position: first.position };
  }

  /** Waits until the run is on disk and then queues it. Throws the same errors as `#untilKept`. */
  async #queued(run: Run, accepted: RunRecord, before?: UsedKey): Promise<AcceptedRun> {
    try {
      if (run.kept !== null) await this.#untilKept(run, before);
      this.#scheduler.add(run);
      return { record: accepted, replayed: false, position: run.position };
    } finally {
      this.#onIdle();
    }
  }

  /**
   * Waits until the run is on disk. If it cannot be written, restores the previous state of its key and
   * throws.
   */
  async #untilKept(run: Run, before: UsedKey | undefined): Promise<void> {
    const endSlot = this.#slots.take(run.job.pipelineId, { isReplay: false });
    try {
      await run.kept;
      run.kept = null;
    } catch (error) {
      this.#runs.withdraw(run);
      if (run.key !== null) {
        const { scope } = run.key;
        this.#keys.forget(scope, run.job.runId);
        const isKnown = before !== undefined && this.#runs.get(before.runId) !== undefined;
        if (isKnown) this.#keys.use(scope, before.runId, before.contentDigest);
      }
      throw error;
    } finally {
      endSlot();
    }
  }

  #hasFailed({ runId }: UsedKey): boolean {
    return this.#runs.get(runId)?.record.status === 'failed';
  }
}
