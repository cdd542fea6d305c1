import { parentPort } from 'node:worker_threads';
import { type Clock, systemClock } from '../../core/lib/clock.ts';
import * as calls from '../../core/lib/disk-calls.ts';
import { answerIntervalMs, type CallResult, type DiskRequest, type DiskResponse } from './disk-messages.ts';

/*
 * The thread that makes disk calls, so that nothing else blocks if the disk stops responding.
 */
parentPort?.on('message', (requests: readonly DiskRequest[]) => {
  runCalls(requests, (answer) => parentPort?.postMessage(answer), systemClock);
});

/**
 * Makes a batch of calls and answers once they are all done. If they take a while, it answers earlier for the
 * ones that are done, which shows that the disk is slow but still there.
 */
export function runCalls(
  requests: readonly DiskRequest[],
  send: (answer: DiskResponse) => void,
  { monotonic }: Pick<Clock, 'monotonic'>,
): void {
  let outcomes: CallResult[] = [];
  let answeredAt = monotonic();
  const answer = (): void => {
    send(outcomes);
    outcomes = [];
    answeredAt = monotonic();
  };
  const answerIfLate = (): void => {
    if (monotonic() - answeredAt >= answerIntervalMs) answer();
  };
  for (const [index, request] of requests.entries()) {
    // Replaces `outcomes` if it answers.
    const outcome = outcomeOf(request, answerIfLate);
    outcomes.push(outcome);
    if (index < requests.length - 1) answerIfLate();
  }
  answer();
}

function outcomeOf({ name, args }: DiskRequest, onProgress: () => void): CallResult {
  try {
    const call = calls[name] as (...args: readonly unknown[]) => unknown;
    return { value: name === 'remove' ? call(...args, onProgress) : call(...args) };
  } catch (error) {
    return { error: error instanceof Error ? systemErrorOf(error) : { message: String(error) } };
  }
}

/** Converts an error to plain data. Otherwise only its message would survive being sent to another thread. */
function systemErrorOf(error: Error): NonNullable<CallResult['error']> {
  const { message, code, syscall, path } = error as NodeJS.ErrnoException;
  return { message, code, syscall, path };
}
