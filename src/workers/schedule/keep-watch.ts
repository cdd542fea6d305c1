import type { Clock } from '../../core/lib/clock.ts';
import { onAbort } from '../../core/lib/on-abort.ts';
import { newRunId } from '../queue/start-run.ts';
import type { Triggers } from '../queue/trigger.ts';
import { type BackgroundTask, retryUntilDone, type ScheduleObserver } from './schedule-observer.ts';
import { WatchedTree, type WatchedTreeOptions } from './watched-tree.ts';

export interface WatchedPipeline extends BackgroundTask, Pick<WatchedTreeOptions, 'watchDirectory'> {
  pipelineId: string;
  /** Absolute path of the source's directory. */
  directory: string;
  settleMs: number;
  triggers: Triggers;
  observer: ScheduleObserver;
}

/**
 * How often an unwatchable source is polled, in milliseconds. Polls are never more frequent than every
 * `settleMs`.
 */
const pollEveryMs = 5_000;
/** How often a watched source is checked for unreported changes. */
const checkEveryMs = 60_000;
/** How often watching is retried for an unwatchable source. */
const retryEveryMs = 600_000;

/**
 * Starts a run whenever the source has changed and then stayed unchanged for `settleMs`. Resolves when
 * `signal` aborts. Changes are detected by comparing states of the source. The same state never starts two
 * runs in a row. This also holds for several hosts with a shared directory, and across restarts with a
 * durable queue. A change that happened before the watch began starts a run at startup.
 */
export async function keepWatch(pipeline: WatchedPipeline): Promise<void> {
  const { pipelineId, directory, clock, signal, triggers, watchDirectory } = pipeline;
  const changes = new ChangeSignal(signal);
  const tree = new WatchedTree(directory, { onChange: () => changes.notify(), watchDirectory });
  const reportFailure = failureReporter(pipeline);
  const fields = { pipeline_id: pipelineId };
  try {
    let handled =
      (await retryUntilDone(pipeline, fields, () => triggers.last(pipelineId, 'watch')))?.state ?? null;
    while (!signal.aborted) {
      const before = changes.count;
      const found = await tree.read();
      reportFailure(tree);
      if (found !== null && found !== handled) {
        const settled = await settledState(found, pipeline, tree, changes);
        if (settled !== null && settled !== handled) {
          await retryUntilDone(pipeline, fields, () => start(pipeline, settled));
          handled = settled;
        }
      }
      const pauseMs = tree.failure === null ? checkEveryMs : Math.max(pollEveryMs, pipeline.settleMs);
      if (changes.count === before) await changes.wait(clock, pauseMs);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    tree.close();
  }
}

/**
 * Returns the state of the source after it stayed unchanged for `settleMs`, or null if the source is missing.
 */
async function settledState(
  found: string,
  { clock, settleMs, signal }: WatchedPipeline,
  tree: WatchedTree,
  changes: ChangeSignal,
): Promise<string | null> {
  for (let state: string | null = found; ;) {
    const before = changes.count;
    await clock.sleep(settleMs, signal);
    const now = await tree.read();
    if (now === null || (now === state && changes.count === before)) return now;
    state = now;
  }
}

async function start(
  { pipelineId, clock, log, triggers, observer }: WatchedPipeline,
  state: string,
): Promise<void> {
  const runId = newRunId(pipelineId, clock.now());
  const trigger = { kind: 'watch' as const, state };
  const { outcome } = await triggers.decide({ runId, pipelineId, staged: null, trigger });
  const fields = { pipeline_id: pipelineId };
  if (outcome === 'started') log.info({ ...fields, run_id: runId }, 'run started by a change of its source');
  if (outcome === 'coalesced') log.info(fields, 'the source has changed; a run that waits will see it');
  if (outcome === 'started' || outcome === 'coalesced')
    observer.decided({ pipelineId, kind: 'watch', outcome });
}

/**
 * Logs once when the source cannot be watched, retries periodically, and logs once more when watching works
 * again.
 */
function failureReporter({
  pipelineId,
  clock,
  log,
  directory,
  observer,
}: WatchedPipeline): (tree: WatchedTree) => void {
  const fields = { pipeline_id: pipelineId, directory };
  let isPolled = false;
  let triedAt = clock.monotonic();
  observer.begun({ pipelineId, kind: 'watch' });
  observer.polled(pipelineId, false);
  return (tree) => {
    const { failure } = tree;
    if (failure !== null && clock.monotonic() - triedAt >= retryEveryMs) {
      triedAt = clock.monotonic();
      tree.retry();
    }
    if ((failure !== null) === isPolled) return;
    isPolled = failure !== null;
    triedAt = clock.monotonic();
    observer.polled(pipelineId, isPolled);
    if (failure === null) log.info(fields, 'the source is watched again');
    else
      log.warn(
        { ...fields, reason: failure },
        'the source cannot be watched; it is looked at every few seconds instead',
      );
  };
}

/** Counts changes, and wakes a waiting caller. */
class ChangeSignal {
  readonly #signal: AbortSignal;
  #wake: () => void = () => undefined;
  count = 0;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
    onAbort(signal, () => this.#wake());
  }

  notify(): void {
    this.count += 1;
    this.#wake();
  }

  /** Resolves at the next change, after `ms` milliseconds, or when the signal aborts. */
  async wait(clock: Pick<Clock, 'timeout'>, ms: number): Promise<void> {
    if (this.#signal.aborted) return;
    await new Promise<void>((resolve) => {
      const timer = clock.timeout(ms, resolve);
      this.#wake = () => {
        timer.cancel();
        resolve();
      };
    });
  }
}
