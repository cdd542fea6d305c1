import type { PublishJob } from '../queue/job.ts';
import { type QueueOptions, withDefaults } from '../queue/queue-options.ts';
import { type JobSeal, jobSeal } from './job-seal.ts';
import { RedisLink } from './link.ts';
import { Pipelines } from './pipelines.ts';
import type { RedisServer } from './redis-client.ts';
import { RunStore } from './run-store.ts';

export interface BullmqQueueOptions extends QueueOptions {
  redis: RedisServer;
  pipelineIds: readonly string[];
  /**
   * A process that does not report for this many milliseconds is considered dead. Other hosts then take over
   * its runs and drop its unfinished uploads.
   */
  workerTimeoutMs: number;
  shared: SharedBundles;
  /** Signs jobs and verifies their signatures. Default: jobs are not signed. */
  seal?: JobSeal;
  /**
   * Resolves once all events so far have been stored outside this process. The queue does not end a run until
   * then. Never rejects. Default: resolves immediately.
   */
  flushed?: () => Promise<void>;
}

/** Moves staged bundles from the host that received them to whichever host publishes them. */
interface SharedBundles {
  /**
   * Copies the staged bundle to a location that all hosts can reach, under the given name. Resolves with the
   * job to queue.
   */
  share(job: PublishJob, name: string): Promise<PublishJob>;
  /** Removes the archive with this name. It is not an error if it does not exist. */
  remove(name: string): Promise<void>;
}

/** The options with their defaults, and the parts of the queue that use Redis. */
export interface QueueContext extends Required<BullmqQueueOptions> {
  link: RedisLink;
  store: RunStore;
  pipelines: Pipelines;
}

/** Connects to Redis. Throws the same errors as `RedisLink.open` and `Pipelines.open`. */
export async function openContext(options: BullmqQueueOptions): Promise<QueueContext> {
  const { clock, log, workerTimeoutMs, discard, seal = jobSeal(), flushed = async () => undefined } = options;
  const link = await RedisLink.open({ ...options.redis, log, clock });
  try {
    const store = new RunStore(link, workerTimeoutMs, seal);
    const pipelines = await Pipelines.open({ ...options, link, store });
    const discardNow = async (job: PublishJob): Promise<void> => {
      try {
        await discard?.(job);
        if (job.staged !== null && job.archive !== undefined) await store.forgetStaged(job.archive.name);
      } catch (error) {
        log.warn({ run_id: job.runId, err: error }, 'the staged files of a run are removed later');
      }
    };
    return { ...withDefaults(options), seal, flushed, link, store, pipelines, discard: discardNow };
  } catch (error) {
    link.close();
    throw error;
  }
}
