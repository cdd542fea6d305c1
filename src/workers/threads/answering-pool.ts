import { WaybillError, type ErrorRecord } from '../../core/lib/errors.ts';
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

const threads = 3;
const maxRequests = 32;
/** Of one pipeline, so that one whose server is stalled does not fill the line. */
const maxRequestsOfPipeline = 24;

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
  const asked = new Map<string, number>();
  const askedOf = (pipelineId: string): number => asked.get(pipelineId) ?? 0;
  const count = (pipelineId: string, change: 1 | -1): void => {
    const next = askedOf(pipelineId) + change;
    if (next === 0) asked.delete(pipelineId);
    else asked.set(pipelineId, next);
  };
  return {
    async ask(request, signal) {
      const { pipelineId } = request;
      const all = [...asked.values()].reduce((sum, each) => sum + each, 0);
      if (all >= maxRequests || askedOf(pipelineId) >= maxRequestsOfPipeline)
        throw new WaybillError('server_busy', `too many requests about ${about} are being answered`, {
          hint: 'ask again later',
        });
      count(pipelineId, 1);
      try {
        const outcome = await pool.process(request, { signal, onProgress: () => undefined });
        if ('answer' in outcome) return outcome.answer;
        const { code, message, hint } = outcome.refused;
        throw new WaybillError(code, message, hint === null ? {} : { hint });
      } finally {
        count(pipelineId, -1);
      }
    },
    close: () => pool.close(),
  };
}
