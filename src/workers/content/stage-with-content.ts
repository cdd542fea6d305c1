import { breathless, type Breathe } from '../../core/breath.ts';
import { stageUpload, type StagedBundle, type StageRequest } from '../../core/bundle/staging.ts';
import { hasCode } from '../../core/errors.ts';
import type { ContentStore } from './content-store.ts';

/**
 * `stageUpload` with what is kept of the pipeline, in pieces between which it asks `breathe`. With `keeps:
 * false` nothing of the upload is kept. Kept files are given up where the disk has no room for an upload.
 */
export function stageWithContent(
  content: ContentStore,
  breathe: Breathe = breathless,
): (request: Omit<StageRequest, 'content' | 'breathe'> & { keeps: boolean }) => Promise<StagedBundle> {
  return async ({ keeps, ...request }) => {
    try {
      return await stageUpload({ ...request, breathe, content: content.of(request.pipelineId, { keeps }) });
    } catch (error) {
      if (hasCode(error, 'insufficient_storage')) await content.clear();
      throw error;
    }
  };
}
