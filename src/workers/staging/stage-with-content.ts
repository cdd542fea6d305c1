import { uploadedManifest } from '../../core/bundle/pack/make-manifest.ts';
import type { Patterns } from '../../core/bundle/pack/select-files.ts';
import { type StagedBundle, type StageRequest, stageUpload } from '../../core/bundle/stage-upload.ts';
import { systemClock } from '../../core/lib/clock.ts';
import { blockingDisk, type Disk } from '../../core/lib/disk.ts';
import { hasCode } from '../../core/lib/errors.ts';
import { neverYield, type YieldToEventLoop } from '../../core/lib/event-loop.ts';
import type { ContentStore } from './content-store.ts';

/**
 * Like `stageUpload`, but reuses the files that were kept for this pipeline. Calls `yieldToEventLoop` in
 * between. With `keeps: false`, no files of this upload are kept. With `autoManifest`, an archive does not
 * need a manifest. If there is not enough disk space for the upload, kept files are deleted.
 */
export function stageWithContent(
  content: ContentStore,
  {
    yieldToEventLoop = neverYield,
    disk = blockingDisk,
  }: { yieldToEventLoop?: YieldToEventLoop; disk?: Disk } = {},
): (
  request: Omit<StageRequest, 'content' | 'yieldToEventLoop' | 'disk' | 'makeManifest'> & {
    pipelineId: string;
    keeps: boolean;
    autoManifest?: Patterns | undefined;
  },
) => Promise<StagedBundle> {
  return async ({ pipelineId, keeps, autoManifest, ...request }) => {
    try {
      const store = content.forPipeline(pipelineId, { keeps });
      const makeManifest: StageRequest['makeManifest'] =
        autoManifest === undefined
          ? undefined
          : (extraction, directory) => uploadedManifest(extraction, directory, autoManifest, systemClock);
      return await stageUpload({ ...request, makeManifest, yieldToEventLoop, disk, content: store });
    } catch (error) {
      if (hasCode(error, 'insufficient_storage')) await content.clear();
      throw error;
    }
  };
}
