import type { Clock } from '../../core/lib/clock.ts';
import type { Log } from '../../core/lib/log.ts';
import type { PublishJob } from '../queue/job.ts';
import type { KeepLimits } from '../queue/kept-bundles.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { noRetries, type RetriesOf } from '../queue/run-retry.ts';
import type { JobSeal } from './job-seal.ts';
import { type RunSlots, runSlots } from './membership.ts';

export interface BullmqQueueOptions {
  clock: Clock;
  log: Log;
  /** `among`: the names of all Redis, if the pipelines are divided among several. */
  redis: { url: string; urlEnv: string; prefix: string; among?: readonly string[] };
  pipelineIds: readonly string[];
  /** Limit of uploads that are being received or wait for their turn, on all hosts together. */
  queueSize: number;
  /** The same limit for one pipeline; null, as by default: `queueSize` alone. */
  maxWaitingOf?: (pipelineId: string) => number | null;
  /** Jobs at once on this host. */
  maxConcurrency: number;
  /** Those of this process, if it has other queues, too; else as many as `maxConcurrency` says. */
  slots?: RunSlots;
  /** Whether runs of the pipeline may begin here now, asked before each; by default they may. */
  mayBegin?: (pipelineId: string) => Promise<boolean>;
  /** How long a finished run is kept, in milliseconds. */
  retentionMs: number;
  /**
   * A process that was silent for this many milliseconds counts as dead: its runs are given to others, and
   * the uploads that it was receiving are forgotten.
   */
  workerTimeoutMs: number;
  shared: SharedBundles;
  /** Authenticates jobs; by default nothing does. */
  seal?: JobSeal;
  /**
   * Called when a finished run is forgotten, on whichever host comes first; a second time if that host died
   * before it was done.
   */
  onExpire: (job: PublishJob) => Promise<void>;
  /**
   * Called when the job needs what is staged no more, while its record stays; by default nothing is done. If
   * it fails, or this host ends before, any host removes it from shared staging.
   */
  discard?: (job: PublishJob) => Promise<void>;
  /** How long bundles of ended runs stay staged; by default as long as their records. */
  keep?: KeepLimits;
  /** How failed runs are tried again; by default not at all. */
  retries?: RetriesOf;
  /**
   * Called before the outcome of a try is recorded, and after the end of a run that waited for its next one:
   * `next` is its record from then on.
   */
  onOutcome?: (job: PublishJob, next: RunRecord) => void;
  /**
   * Resolves once the events of what was done until now are kept beyond this process, which the end of a run
   * waits for; by default they are not. Never rejects.
   */
  told?: () => Promise<void>;
}

/** Transports staged bundles from the host that received them to the ones that publish them. */
export interface SharedBundles {
  /** Stores the staged bundle as `name` where every host reaches it, and resolves with the job to queue. */
  share(job: PublishJob, name: string): Promise<PublishJob>;
  /** Removes what was shared under the name; succeeds if there is nothing. */
  remove(name: string): Promise<void>;
}

/** The options with every default filled in. */
export function filledIn(options: BullmqQueueOptions) {
  return {
    ...options,
    slots: options.slots ?? runSlots(options.maxConcurrency),
    mayBegin: options.mayBegin ?? (async () => true),
    discard: options.discard ?? (async () => undefined),
    keep: options.keep ?? { keepMs: options.retentionMs, maxBundles: 1e9, maxBytes: 1e15 },
    retries: options.retries ?? noRetries,
    onOutcome: options.onOutcome ?? (() => undefined),
    told: options.told ?? (async () => undefined),
  };
}

export type FilledIn = ReturnType<typeof filledIn>;
