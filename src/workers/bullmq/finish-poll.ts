import type { Clock } from '../../core/lib/clock.ts';
import { RunWaiters } from '../queue/run-changes.ts';

/** Waits for runs that any host may finish. */
export interface FinishPoll {
  /** As `JobQueue.untilFinished`. */
  wait(runId: string, signal: AbortSignal): Promise<void>;
  /** Ends every wait; resolves when nothing is being asked. */
  close(): Promise<void>;
}

const pollMs = 200;

/**
 * Asks Redis five times a second while somebody waits, in one call for all runs that are waited for: messages
 * of finished runs could be lost, and a subscription would not show it. While Redis is away the waits go on.
 *
 * @param finishedOf Those of the runs that are finished or unknown.
 */
export function finishPoll(
  clock: Clock,
  finishedOf: (runIds: readonly string[]) => Promise<string[]>,
): FinishPoll {
  const waiters = new RunWaiters();
  const closing = new AbortController();
  let polling: Promise<void> | undefined;

  async function poll(): Promise<void> {
    for (let runIds = waiters.runIds; runIds.length > 0; runIds = waiters.runIds) {
      const ended = isClosing() ? runIds : await finishedOf(runIds).catch(() => []);
      for (const runId of ended) waiters.finished(runId);
      if (waiters.runIds.length > 0) await clock.sleep(pollMs, closing.signal).catch(() => undefined);
    }
  }

  function begin(): void {
    polling ??= poll().finally(() => {
      polling = undefined;
      // Somebody may have come after the poll looked for the last time.
      if (waiters.runIds.length > 0) begin();
    });
  }

  const isClosing = (): boolean => closing.signal.aborted;
  return {
    wait: (runId, signal) => {
      const waited = waiters.wait(runId, signal);
      begin();
      return waited;
    },
    close: async () => {
      closing.abort();
      await polling;
    },
  };
}
