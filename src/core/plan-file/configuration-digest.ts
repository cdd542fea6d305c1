import { canonicalJson } from '../bundle/manifest.ts';
import type { DestinationConfig, PipelineConfig } from '../config/config.ts';
import { digestOf, type Digest } from '../digest.ts';
import { describeLocation } from '../storage/location.ts';

/**
 * The digest of every setting that a publication to these destinations depends on. Of the source it is the
 * place and the identity, since how it is reached decides nothing; names of secrets count, their values do
 * not. Pure.
 */
export function configurationDigest(
  targets: readonly { pipeline: PipelineConfig; destinations: readonly DestinationConfig[] }[],
): Digest {
  const settings = targets.map(
    ({ pipeline: { id, source, sourceId, autoManifest, sceneMaps }, destinations }) => ({
      id,
      source:
        source.backend === 'http_upload'
          ? source
          : { backend: source.backend, place: describeLocation(source), id: sourceId },
      autoManifest,
      sceneMaps,
      destinations,
    }),
  );
  return digestOf(canonicalJson(settings));
}
