import type { ChannelConfig, ReleasesConfig } from '../../config/config.ts';
import type { BundlePublication } from '../bundle-publication.ts';

/** One bundle, and the bundle path at which a pointer is to lead to a release of it. */
export interface ReleasePublication extends BundlePublication {
  rule: ReleasesConfig;
  /** The channel whose pointer that is; null for the current release. */
  channel: ChannelConfig | null;
}
