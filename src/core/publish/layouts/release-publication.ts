import type { ChannelConfig, ReleasesConfig } from '../../config/config.ts';
import type { BundlePublication } from '../publish-request.ts';

/** A bundle to publish as a release. */
export interface ReleasePublication extends BundlePublication {
  rule: ReleasesConfig;
  /** The channel to point at the release; null to make it current. */
  channel: ChannelConfig | null;
}
