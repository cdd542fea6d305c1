import type { Clock } from '../../core/lib/clock.ts';
import { onAbort } from '../../core/lib/on-abort.ts';
import { formatDuration } from '../../core/lib/settings/sizes-and-durations.ts';
import { newRunId } from '../queue/start-run.ts';
import type { Triggers } from '../queue/trigger.ts';
import { type BackgroundTask, retryUntilDone, type ScheduleObserver } from './schedule-observer.ts';
import { WatchedTree, type WatchedTreeOptions } from './watched-tree.ts';

interface WatchedPipeline extends BackgroundTask, Pick<WatchedTreeOptions, 'watchDirectory'> {
  pipelineId: string;
  /** The absolute path of the source directory. */
  directory: string;
  settleMs: number;
  triggers: Triggers;
  observer: ScheduleObserver;
}

/**
 * The polling interval for a source that cannot be watched, in milliseconds. Polls are always at least
 * `settleMs` apart.
 */
const pollEveryMs = 5_000;
/** Even a source that is being watched is checked this often, in case a change is not reported. */
const checkEveryMs = 60_000;
/** After this many times `settleMs`, a source that keeps changing is logged. */
const unsettledAfter = 20;
/** If a source can't be watched, watching is retried at this interval. */
const retryEveryMs = 600_000;

/**
 * Starts a run whenever the source has changed and has then been left alone for `settleMs`. Resolves when
 * `signal` aborts. A change is detected by comparing the current state of the source with the last one. The
 * same state never starts two runs in a row, even if several hosts watch a shared directory, and, if the
 * queue is durable, even after a restart. If the source changed before watching began, a run is started right
 * away.
 */
export async function watchSource(pipeline: WatchedPipeline): Promise<void> {
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
 * Waits until the source has been left alone for `settleMs` and returns its state. Returns null if the source
 * doesn't exist. If this takes long, logs it once: a run would publish files that are still being written.
 */
async function settledState(
  found: string,
  { pipelineId, directory, clock, log, settleMs, signal }: WatchedPipeline,
  tree: WatchedTree,
  changes: ChangeSignal,
): Promise<string | null> {
  let state: string | null = found;
  for (let waits = 0; ; waits += 1) {
    const before = changes.count;
    if (waits === unsettledAfter)
      log.warn(
        { pipeline_id: pipelineId, directory, settle: formatDuration(settleMs) },
        'the source keeps changing: a run starts once it has been left alone for the time of settle',
      );
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
  if (outcome === 'coalesced') log.info(fields, 'the source has changed; the waiting run will read it');
  if (outcome === 'started' || outcome === 'coalesced')
    observer.decided({ pipelineId, kind: 'watch', outcome });
}

/**
 * Logs that the source cannot be watched, but only once, and again when it works. In between, retries
 * periodically.
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
        'the source cannot be watched; it is polled every few seconds instead',
      );
  };
}

/** Counts changes and wakes up the caller that is waiting for one. */
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
