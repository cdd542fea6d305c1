import { canonicalJson } from '../../bundle/manifest.ts';
import type { DestinationConfig, PipelineConfig } from '../../config/config.ts';
import { digestOf, type Digest } from '../../lib/digest.ts';
import { describeLocation } from '../../storage/backends.ts';

/**
 * The digest of every setting that affects a publication to these destinations. A source contributes its
 * location and identity, but not its connection settings. Names of secrets count, their values do not. Pure.
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
