import { breathless, type Breathe } from '../../core/breath.ts';
import { waitingDisk, type Disk } from '../../core/disk/disk.ts';
import { stageUpload, type StagedBundle, type StageRequest } from '../../core/bundle/staging.ts';
import { hasCode } from '../../core/errors.ts';
import type { ContentStore } from './content-store.ts';

/**
 * `stageUpload` with what is kept of the pipeline, in pieces between which it asks `breathe`. With `keeps:
 * false` nothing of the upload is kept. Kept files are given up where the disk has no room for an upload.
 */
export function stageWithContent(
  content: ContentStore,
  { breathe = breathless, disk = waitingDisk }: { breathe?: Breathe; disk?: Disk } = {},
): (
  request: Omit<StageRequest, 'content' | 'breathe' | 'disk'> & { keeps: boolean },
) => Promise<StagedBundle> {
  return async ({ keeps, ...request }) => {
    try {
      const kept = content.of(request.pipelineId, { keeps });
      return await stageUpload({ ...request, breathe, disk, content: kept });
    } catch (error) {
      if (hasCode(error, 'insufficient_storage')) await content.clear();
      throw error;
    }
  };
}
