import { systemClock } from '../../core/lib/clock.ts';
import { errorRecord, WaybillError } from '../../core/lib/errors.ts';
import { answerLook, type LookAnswer, type LookRequest } from './look-request.ts';
import type { AnswerOutcome } from './answering-pool.ts';
import { threadContext, type ThreadData } from './publish-task.ts';
import { answerTask, type ThreadOutcome, type ThreadTask } from './thread-channel.ts';

/** The body of a thread that reads catalogs of destinations. What it refuses is an answer, too. */
export function lookTask({
  env,
}: ThreadData): (task: ThreadTask<LookRequest>) => Promise<ThreadOutcome<AnswerOutcome<LookAnswer>>> {
  return (task) =>
    answerTask(task, { clock: systemClock }, async (request, work) => {
      try {
        const context = await threadContext(env, task, work);
        return { answer: await answerLook(context, task.config, request) };
      } catch (error) {
        if (!(error instanceof WaybillError)) throw error;
        return { refused: errorRecord(error) };
      }
    });
}
