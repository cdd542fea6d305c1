import { parentPort } from 'node:worker_threads';
import { systemClock } from '../../core/lib/clock.ts';
import * as calls from '../../core/lib/disk-calls.ts';
import { type Answer, answerEveryMs, type DiskRequest, type Outcome } from './disk-messages.ts';

/*
 * The thread that makes calls on a disk: the only one of the process that waits if the disk does not answer.
 * It gets some calls at a time and answers when all are made, or when answering has taken long: whoever asked
 * sees that the disk is slow, and not away.
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

/** Errors lose what they are beside their message on the way to another thread. */
function systemErrorOf(error: Error): NonNullable<Outcome['error']> {
  const { message, code, syscall, path } = error as NodeJS.ErrnoException;
  return { message, code, syscall, path };
}
