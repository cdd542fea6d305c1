import { WaybillError, type ErrorRecord } from '../../core/errors.ts';
import { threadPool, type WorkerPoolOptions } from './pool.ts';
import type { ThreadJob } from './thread-channel.ts';

/** What was refused is an answer too: whoever asked is told, and the log need not say that a task failed. */
export type AnswerOutcome<Answer> = { answer: Answer } | { refused: ErrorRecord };

export interface AnsweringPool<Request, Answer> {
  /**
   * Answers on a thread. Throws `server_busy` if too many wait for one, what the task refuses with, and as
   * `ThreadPool.process`.
   */
  ask(request: Request, signal: AbortSignal): Promise<Answer>;
  close(): Promise<void>;
}

const threads = 2;
const mostRequests = 32;

/**
 * Threads that answer requests about destinations, apart from those that publish.
 *
 * @param task the export of the thread's module
 * @param about what the requests are about, for a refusal
 */
export function answeringPool<Request extends ThreadJob, Answer>(
  options: WorkerPoolOptions,
  task: string,
  about: string,
): AnsweringPool<Request, Answer> {
  const pool = threadPool<Request, AnswerOutcome<Answer>>({ ...options, threads }, task);
  let asked = 0;
  return {
    async ask(request, signal) {
      if (asked >= mostRequests)
        throw new WaybillError('server_busy', `too many requests about ${about} are being answered`, {
          hint: 'ask again later',
        });
      asked += 1;
      try {
        const outcome = await pool.process(request, { signal, onProgress: () => undefined });
        if ('answer' in outcome) return outcome.answer;
        const { code, message, hint } = outcome.refused;
        throw new WaybillError(code, message, hint === null ? {} : { hint });
      } finally {
        asked -= 1;
      }
    },
    close: () => pool.close(),
  };
}
