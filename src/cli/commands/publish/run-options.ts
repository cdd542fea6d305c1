import type { ConfiguredOptions } from '../../setup/options.ts';

export interface RunOptions extends ConfiguredOptions {
  pipeline?: string[];
  destination?: string[];
  dryRun: boolean;
  force: boolean;
  allowRemovals?: boolean;
  /** The channel to publish to. */
  channel?: string;
  /** How long destinations that failed for a passing cause are tried again. */
  retryFor?: string;
  /** Where the plan of a dry run is written. */
  out?: string;
  /** The plan that is carried out. */
  plan?: string;
}
