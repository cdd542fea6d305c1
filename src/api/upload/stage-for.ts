import { chooseOutputs, namesTaken } from '../../core/outputs/generator.ts';
import type { StagedUpload, StageUpload, UploadPipeline, UploadPorts } from './ports.ts';

type StageRequest = Parameters<StageUpload>[0];
type OfPipeline = 'limits' | 'pipelineId' | 'sceneMaps' | 'autoManifest';

/**
 * Stages an upload for the destinations that will get it. Throws what `stage` throws, and `invalid_bundle` if
 * the bundle has a file whose name a destination gives to a generated output.
 */
export async function stageFor(
  { stage }: Pick<UploadPorts, 'stage'>,
  { id, maxUploadSize, maxFiles, sceneMaps, autoManifest, destinations }: UploadPipeline,
  channel: string | null,
  request: Omit<StageRequest, OfPipeline>,
): Promise<StagedUpload> {
  const staged = await stage({
    ...request,
    ...{ limits: { maxUploadSize, maxFiles }, pipelineId: id, sceneMaps, autoManifest },
  });
  const bundle = { ...staged.manifest, path: staged.bundlePath };
  const taken = destinations
    .filter(({ releases }) => channel === null || releases?.channels.some(({ name }) => name === channel))
    .flatMap((destination) => chooseOutputs(bundle, destination).taken);
  if (taken.length > 0) throw namesTaken('the upload', taken);
  return staged;
}
