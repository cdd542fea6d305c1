import { stageUpload, type StagedBundle, type StageRequest } from '../../core/bundle/staging.ts';
import { hasCode } from '../../core/errors.ts';
import type { ContentStore } from './content-store.ts';

/**
 * `stageUpload` with what is kept of the pipeline. With `keeps: false` nothing of the upload is kept. Kept
 * files are given up where the disk has no room for an upload.
 */
export function stageWithContent(
  content: ContentStore,
): (request: Omit<StageRequest, 'content'> & { keeps: boolean }) => Promise<StagedBundle> {
  return async ({ keeps, ...request }) => {
    try {
      return await stageUpload({ ...request, content: content.of(request.pipelineId, { keeps }) });
    } catch (error) {
      if (hasCode(error, 'insufficient_storage')) content.clear();
      throw error;
    }
  };
}
