import { onAbort } from '../../core/lib/on-abort.ts';
import { newRunId } from '../queue/start-run.ts';
import type { Triggers } from '../queue/trigger.ts';
import { type Enduring, persist, type ScheduleObserver } from './schedule-observer.ts';
import { type WatchedTree, watchedTree, type WatchedTreeOptions } from './watched-tree.ts';

export interface WatchedPipeline extends Enduring {
  pipelineId: string;
  /** Directory of the source, absolute. */
  directory: string;
  settleMs: number;
  triggers: Triggers;
  observer: ScheduleObserver;
  /** Replaced only by tests of rare file system behavior. */
  open?: (directory: string, options: WatchedTreeOptions) => WatchedTree;
}

/** How often an unwatchable source is polled; at most every `settleMs`. */
const pollEveryMs = 5_000;
/** How often a watched source is checked for unreported changes. */
const checkEveryMs = 60_000;
/** How often watching an unwatchable source is retried. */
const retryEveryMs = 600_000;

/**
 * Starts a run whenever the source has changed and then stayed unchanged for `settleMs`. Resolves when
 * `signal` aborts. Changes are detected by comparing states of the source. The same state never starts two
 * runs in a row. This holds on several hosts with a shared directory, and after restarts with a durable
 * queue. A change that happened before the watch starts a run at the beginning.
 */
export async function keepWatch(pipeline: WatchedPipeline): Promise<void> {
  const { pipelineId, directory, clock, signal, triggers, open = watchedTree } = pipeline;
  const bell = newBell(signal);
  const tree = open(directory, { onChange: bell.ring });
  const noteTrouble = troubleOf(pipeline);
  const fields = { pipeline_id: pipelineId };
  try {
    let handled = (await persist(pipeline, fields, () => triggers.last(pipelineId, 'watch')))?.state ?? null;
    while (!signal.aborted) {
      const before = bell.rung;
      const found = await tree.look();
      noteTrouble(tree);
      if (found !== null && found !== handled) {
        const settled = await quiet(found, pipeline, tree, bell);
        if (settled !== null && settled !== handled) {
          await persist(pipeline, fields, () => start(pipeline, settled));
          handled = settled;
        }
      }
      const pauseMs = tree.trouble === null ? checkEveryMs : Math.max(pollEveryMs, pipeline.settleMs);
      if (bell.rung === before) await bell.next(clock.timeout.bind(clock), pauseMs);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    tree.close();
  }
}

/** The state of the source after it stayed unchanged for `settleMs`; null if the source is missing. */
async function quiet(
  found: string,
  { clock, settleMs, signal }: WatchedPipeline,
  tree: WatchedTree,
  bell: Bell,
): Promise<string | null> {
  for (let state: string | null = found; ;) {
    const before = bell.rung;
    await clock.sleep(settleMs, signal);
    const again = await tree.look();
    if (again === null || (again === state && bell.rung === before)) return again;
    state = again;
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
 * Logs once when the source cannot be watched, retries periodically, and logs once when watching works again.
 */
function troubleOf({
  pipelineId,
  clock,
  log,
  directory,
  observer,
}: WatchedPipeline): (tree: WatchedTree) => void {
  const fields = { pipeline_id: pipelineId, directory };
  let isTroubled = false;
  let triedAt = clock.monotonic();
  observer.begun({ pipelineId, kind: 'watch' });
  observer.polled(pipelineId, false);
  return (tree) => {
    const { trouble } = tree;
    if (trouble !== null && clock.monotonic() - triedAt >= retryEveryMs) {
      triedAt = clock.monotonic();
      tree.retry();
    }
    if ((trouble !== null) === isTroubled) return;
    isTroubled = trouble !== null;
    triedAt = clock.monotonic();
    observer.polled(pipelineId, isTroubled);
    if (trouble === null) log.info(fields, 'the source is watched again');
    else
      log.warn(
        { ...fields, reason: trouble },
        'the source cannot be watched; it is looked at every few seconds instead',
      );
  };
}

interface Bell {
  ring: () => void;
  /** Number of rings so far. */
  readonly rung: number;
  /** Resolves when it rings, `ms` milliseconds have passed, or the signal aborts. */
  next: (timeout: (ms: number, callback: () => void) => { cancel(): void }, ms: number) => Promise<void>;
}

function newBell(signal: AbortSignal): Bell {
  let rung = 0;
  let wake: () => void = () => undefined;
  onAbort(signal, () => wake());
  return {
    ring: () => {
      rung += 1;
      wake();
    },
    get rung() {
      return rung;
    },
    next: async (timeout, ms) => {
      if (signal.aborted) return;
      await new Promise<void>((resolve) => {
        const timer = timeout(ms, resolve);
        wake = () => {
          timer.cancel();
          resolve();
        };
      });
    },
  };
}
