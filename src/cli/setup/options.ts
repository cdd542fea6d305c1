/** Options of the commands, as commander parses them. */
export interface CommonOptions {
  format: 'text' | 'json';
  color: boolean;
  verbose: boolean;
}

export interface ConfiguredOptions extends CommonOptions {
  config: string;
}

/** Options of the long-running commands. */
export type DaemonOptions = Pick<ConfiguredOptions, 'config' | 'verbose' | 'color'>;

export interface DestinationOptions extends ConfiguredOptions {
  pipeline: string;
  destination: string;
}
