import type { OutputRecord } from '../../catalog/catalog.ts';
import { rootIndexGenerator } from '../../catalog/root-index-records.ts';
import type { DestinationConfig } from '../../config/config.ts';
import { digestOf } from '../../digest.ts';
import { linkTo } from '../../generate/root-index/links.ts';
import type { ListedBundle } from '../../generate/root-index/listed-bundle.ts';
import type { Owner } from '../../identity.ts';
import { bytesBody } from '../../storage/body.ts';
import { describeLocation } from '../../storage/location.ts';
import type { PlannedOutput } from '../plan.ts';

/** The index of one destination's root. */
export interface RootIndex {
  owner: Owner;
  destination: Pick<
    DestinationConfig,
    'id' | 'location' | 'publicBaseUrl' | 'cacheControl' | 'releases' | 'fileConcurrency' | 'rootIndex'
  >;
}

/** The files that the index is made of, whatever it lists; sorted. */
export const rootFileNames = ['feed.json', 'feed.xml', 'index.html'] as const;

/** The one that the next update reads. */
export const listingName = 'feed.json';

/** The files that list these bundles. The template engine is loaded here, once there is something to list. */
export async function plannedFiles(
  { owner, destination }: RootIndex,
  bundles: readonly ListedBundle[],
): Promise<PlannedOutput[]> {
  const { rootIndexFiles, rootIndexVersion: version } =
    await import('../../generate/root-index/root-index.ts');
  const { publicBaseUrl, cacheControl } = destination;
  const files = await rootIndexFiles({
    title: owner.pipelineId,
    identity: [owner.pipelineId, owner.destinationId, ...(publicBaseUrl === null ? [] : [publicBaseUrl])],
    baseUrl: publicBaseUrl,
    bundles,
  });
  return files.map(({ path, kind, contentType, inputs, text }) => {
    const body = bytesBody(text);
    return {
      ...{ path, kind, owner, body, size: body.size, digest: digestOf(text) },
      generated: { contentType, cacheControl, generator: { name: rootIndexGenerator, version, inputs } },
      url: publicBaseUrl === null ? null : linkTo(path, publicBaseUrl),
      source: sourceOf(destination),
    };
  });
}

/** It comes from the destination itself, so that no source is ever asked whether it still holds it. */
function sourceOf({ location }: RootIndex['destination']): OutputRecord['source'] {
  return { backend: location.backend, id: describeLocation(location), path: '.' };
}
