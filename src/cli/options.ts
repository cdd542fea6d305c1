/** What the commands take, as commander hands it over. */
export interface CommonOptions {
  format: 'text' | 'json';
  color: boolean;
  verbose: boolean;
}

export interface ConfiguredOptions extends CommonOptions {
  config: string;
}

export interface DestinationOptions extends ConfiguredOptions {
  pipeline: string;
  destination: string;
}
