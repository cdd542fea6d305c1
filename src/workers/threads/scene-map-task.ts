import { systemClock } from '../../core/lib/clock.ts';
import { errorRecord, WaybillError } from '../../core/lib/errors.ts';
import { checkSceneMap } from '../../core/scene-map/read-scene-map.ts';
import { sceneMapReport } from '../../core/scene-map/report.ts';
import { readTranscript } from '../../core/scene-map/transcript.ts';
import type { AnswerOutcome } from './publishing-pool.ts';
import { answerTask, type ThreadJob, type ThreadOutcome, type ThreadTask } from './thread-channel.ts';

export interface SceneMapRequest extends ThreadJob {
  file: NamedBytes;
  /** The transcript. If it is null, segments are not checked. */
  transcript: NamedBytes | null;
  /** True to skip the rules about content. */
  schemaOnly: boolean;
  /** The maximum number of findings to report. If there are more, one additional finding says so. */
  maxReported: number;
}

interface NamedBytes {
  name: string;
  bytes: Uint8Array;
}

/**
 * Checks a scene map on a thread. Returns the report as JSON text, so that the main thread does not have to
 * serialize a long report. If the transcript cannot be read, rejects with `invalid_request`.
 */
export async function sceneMapTask(
  task: ThreadTask<SceneMapRequest>,
): Promise<ThreadOutcome<AnswerOutcome<string>>> {
  return answerTask(task, { clock: systemClock }, async ({ file, transcript, ...options }) => {
    try {
      const findings = checkSceneMap(file.bytes, file.name, {
        ...options,
        transcript: transcript === null ? undefined : readTranscript(transcript.bytes, transcript.name),
      });
      return { answer: JSON.stringify(sceneMapReport([{ file: file.name, findings }])) };
    } catch (error) {
      if (!(error instanceof WaybillError)) throw error;
      return { refused: { ...errorRecord(error), code: 'invalid_request' } };
    }
  });
}
