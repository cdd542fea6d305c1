import { workerData } from 'node:worker_threads';
import { systemClock } from '../../core/lib/clock.ts';
import { errorRecord, WaybillError } from '../../core/lib/errors.ts';
import { answerInspection, type InspectionAnswer, type InspectionRequest } from './inspection-request.ts';
import { publishTask, threadContext, type ThreadData } from './publish-task.ts';
import type { AnswerOutcome } from './publishing-pool.ts';
import { answerReleases, type ReleasesAnswer, type ReleasesRequest } from './releases-request.ts';
import { sceneMapTask } from './scene-map-task.ts';
import { answerTask, type ThreadOutcome, type ThreadTask } from './thread-channel.ts';

/** Handles requests to read what is published at a destination. Errors are returned as answers, too. */
function inspectionTask({
  env,
}: ThreadData): (
  task: ThreadTask<InspectionRequest>,
) => Promise<ThreadOutcome<AnswerOutcome<InspectionAnswer>>> {
  return (task) =>
    answerTask(task, { clock: systemClock }, async (request, work) => {
      try {
        const context = await threadContext(env, task, work);
        return { answer: await answerInspection(context, task.config, request) };
      } catch (error) {
        if (!(error instanceof WaybillError)) throw error;
        return { refused: errorRecord(error) };
      }
    });
}

type ReleasesOutcome = AnswerOutcome<ReleasesAnswer>;

/** Handles requests to list and switch releases. */
function releasesTask({
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

const data = workerData as ThreadData;
export const publish = publishTask(data);
export const releases = releasesTask(data);
export const inspections = inspectionTask(data);
export const sceneMaps = sceneMapTask;
