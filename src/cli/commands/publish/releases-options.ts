import type { ConfiguredOptions } from '../../setup/options.ts';

export type ReleasesOptions = ConfiguredOptions & {
  pipeline: string;
  destination?: string;
  /** Bundle path at the destination. */
  path?: string;
};

export type SwitchOptions = ReleasesOptions & { dryRun: boolean };
export type RollbackOptions = SwitchOptions & { to?: string };
