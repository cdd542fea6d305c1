import { systemClock } from '../../core/lib/clock.ts';
import { errorRecord, WaybillError } from '../../core/lib/errors.ts';
import { answerReleases, type ReleasesAnswer, type ReleasesRequest } from './releases-request.ts';
import type { AnswerOutcome } from './answering-pool.ts';
import { threadContext, type ThreadData } from './publish-task.ts';
import { answerTask, type ThreadOutcome, type ThreadTask } from './thread-channel.ts';

type ReleasesOutcome = AnswerOutcome<ReleasesAnswer>;

/** The body of a thread that looks at releases and changes which of them is current. */
export function releasesTask({
  env,
}: ThreadData): (task: ThreadTask<ReleasesRequest>) => Promise<ThreadOutcome<ReleasesOutcome>> {
  return (task) =>
    answerTask(task, { clock: systemClock }, async (request, work): Promise<ReleasesOutcome> => {
      try {
        const context = await threadContext(env, task, work);
        return { answer: await answerReleases(context, task.config, request) };
      } catch (error) {
        if (!(error instanceof WaybillError)) throw error;
        if (error.code === 'destination_unavailable')
          work.log.warn({ err: error.cause }, 'the destination is not available');
        return { refused: errorRecord(error) };
      }
    });
}
