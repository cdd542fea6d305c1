import { parentPort } from 'node:worker_threads';
import { systemClock } from '../../core/lib/clock.ts';
import * as calls from '../../core/lib/disk-calls.ts';
import { type Answer, answerEveryMs, type DiskRequest, type Outcome } from './disk-messages.ts';

/*
 * The thread that makes disk calls. If the disk stops responding, only this thread blocks. It receives
 * several calls at a time and answers when all are complete, or earlier if they take long. Early answers
 * distinguish a slow disk from an unreachable one.
 */
parentPort?.on('message', (requests: readonly DiskRequest[]) => {
  let outcomes: Outcome[] = [];
  let answeredAt = systemClock.monotonic();
  const answer = (): void => {
    parentPort?.postMessage(outcomes satisfies Answer);
    outcomes = [];
    answeredAt = systemClock.monotonic();
  };
  const answerIfLate = (): void => {
    if (systemClock.monotonic() - answeredAt >= answerEveryMs) answer();
  };
  for (const [index, request] of requests.entries()) {
    outcomes.push(outcomeOf(request, answerIfLate));
    if (index < requests.length - 1) answerIfLate();
  }
  answer();
});

function outcomeOf({ name, args }: DiskRequest, onProgress: () => void): Outcome {
  try {
    const call = calls[name] as (...args: readonly unknown[]) => unknown;
    return { value: name === 'remove' ? call(...args, onProgress) : call(...args) };
  } catch (error) {
    return { error: error instanceof Error ? systemErrorOf(error) : { message: String(error) } };
  }
}

/** Errors lose all properties except the message when they are sent to another thread. */
function systemErrorOf(error: Error): NonNullable<Outcome['error']> {
  const { message, code, syscall, path } = error as NodeJS.ErrnoException;
  return { message, code, syscall, path };
}
