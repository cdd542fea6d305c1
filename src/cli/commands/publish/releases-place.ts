import type { DestinationConfig } from '../../../core/config/config.ts';
import { requireReleasesLayout } from '../../../core/releases/place.ts';
import { givenBundlePath } from '../../setup/bundle-path.ts';
import { onlyDestination, pipelineOf, type SetUp } from '../../setup/set-up.ts';
import type { ReleasesOptions } from './releases-options.ts';

/** The destination that the options name. Throws `usage`, and `no_releases` if it is published in place. */
export function releasesDestination(
  { config }: Pick<SetUp, 'config'>,
  { pipeline, destination }: ReleasesOptions,
): DestinationConfig {
  const named = onlyDestination(pipelineOf(config, pipeline), destination);
  requireReleasesLayout(named);
  return named;
}

/** The bundle path that the options name, if they do. Throws `usage` if it is none. */
export function pathOf({ path }: ReleasesOptions): string | undefined {
  return path === undefined ? undefined : givenBundlePath(path);
}
