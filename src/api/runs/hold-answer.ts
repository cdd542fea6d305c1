import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../../core/lib/clock.ts';
import { onAbort } from '../../core/lib/on-abort.ts';
import type { RunFollower } from '../../workers/queue/job-queue.ts';
import { requireAuthorized, watchAuthority } from '../http/request/authority.ts';

export interface HoldPorts {
  queue: Pick<RunFollower, 'untilFinished'>;
  clock: Clock;
  /** Aborts when the daemon begins to stop. */
  draining: AbortSignal;
}

/**
 * Waits until the run has finished, at most for `seconds`; not at all once the daemon stops, nor for a client
 * that has left. Throws the refusal if the request is no longer allowed.
 */
export async function holdUntilFinished(
  req: IncomingMessage,
  res: ServerResponse,
  { runId, seconds }: { runId: string; seconds: number },
  { queue, clock, draining }: HoldPorts,
): Promise<void> {
  if (seconds === 0 || draining.aborted) return;
  const enough = new AbortController();
  const end = (): void => enough.abort();
  const timer = clock.timeout(seconds * 1000, end);
  res.once('close', end);
  const release = onAbort(draining, end);
  const watch = watchAuthority(req, clock, end);
  try {
    await queue.untilFinished(runId, enough.signal);
  } finally {
    timer.cancel();
    watch.cancel();
    res.off('close', end);
    release();
  }
  requireAuthorized(req);
}
