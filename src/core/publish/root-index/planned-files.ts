import { type OutputRecord, rootIndexGenerator } from '../../catalog/catalog.ts';
import type { DestinationConfig } from '../../config/config.ts';
import { digestOf } from '../../lib/digest.ts';
import { linkTo } from '../../outputs/root-index/links.ts';
import type { ListedBundle } from '../../outputs/root-index/listed-bundle.ts';
import type { Owner } from '../../storage/identity.ts';
import { bytesBody } from '../../storage/body.ts';
import { describeLocation } from '../../storage/backends.ts';
import type { PlannedOutput } from '../plan.ts';

/*
 * Plans the files of a root index.
 */

/** Identifies the root index of one destination. */
export interface RootIndex {
  owner: Owner;
  destination: Pick<
    DestinationConfig,
    'id' | 'location' | 'publicBaseUrl' | 'cacheControl' | 'releases' | 'fileConcurrency' | 'rootIndex'
  >;
}

/** The files of every root index, sorted. */
export const rootFileNames = ['feed.json', 'feed.xml', 'index.html'] as const;

/** The file that the next update reads. */
export const listingName = 'feed.json';

/** The files that list these bundles. Loads the template engine on the first call. */
export async function plannedFiles(
  { owner, destination }: RootIndex,
  bundles: readonly ListedBundle[],
): Promise<PlannedOutput[]> {
  const { rootIndexFiles, rootIndexVersion: version } =
    await import('../../outputs/root-index/root-index.ts');
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
      path,
      kind,
      owner,
      body,
      size: body.size,
      digest: digestOf(text),
      generated: { contentType, cacheControl, generator: { name: rootIndexGenerator, version, inputs } },
      url: publicBaseUrl === null ? null : linkTo(path, publicBaseUrl),
      source: sourceOf(destination),
    };
  });
}

/** The destination itself is the source, so that no run treats the index as an orphan of its source. */
function sourceOf({ location }: RootIndex['destination']): OutputRecord['source'] {
  return { backend: location.backend, id: describeLocation(location), path: '.' };
}
