import { Command, Option } from 'commander';

/** Options that several commands share. Commands load this file to print their help: commander only. */

export const configOption = (): Option =>
  new Option('-c, --config <file>', 'configuration file (YAML)').makeOptionMandatory();

export const formatOption = (): Option =>
  new Option('--format <format>', 'how results are printed').choices(['text', 'json']).default('text');

export const linksOption = (): Option =>
  new Option('--links <policy>', 'symbolic links are an error, or left out (default: refuse)').choices([
    'refuse',
    'skip',
  ]);

export const pipelineOption = (): Option =>
  new Option('-p, --pipeline <id>', 'pipeline').makeOptionMandatory();

export const destinationOption = (): Option =>
  new Option('-d, --destination <id>', 'destination of the pipeline').makeOptionMandatory();

export const passphraseFileOption = (): Option =>
  new Option('--passphrase-file <file>', 'file that holds the passphrase of the key');

/** The options of commands that can sign the bundle which they make. */
export function withSigningOptions(command: Command): Command {
  return command
    .option('--sign <key>', 'sign the bundle with this secret key; docs/signatures.md')
    .addOption(passphraseFileOption());
}

/** Collects the values of a repeatable option. */
export const collect = (value: string, before: string[] | undefined): string[] => [...(before ?? []), value];

/** A command with `--verbose`, which most have. */
export function verboseCommand(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .option('--verbose', 'log every storage call to stderr, cut no list short');
}

/** Makes the result of a command the exit code of the process. */
export async function exitWith(code: Promise<number>): Promise<void> {
  process.exitCode = await code;
}

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
export type ProgramFlags = Pick<ConfiguredOptions, 'config' | 'verbose' | 'color'>;

export interface DestinationOptions extends ConfiguredOptions {
  pipeline: string;
  destination: string;
}

/** The metadata of a new manifest, as commander parses it. */
export interface BundleFlags {
  name?: string;
  created?: string;
  metadata?: string[];
  include?: string[];
  exclude?: string[];
  links?: 'refuse' | 'skip';
  sceneMap?: string[];
  renew: boolean;
}

/** The options of commands that make a bundle of a directory. */
export function withBundleOptions(command: Command): Command {
  return command
    .option(
      '--name <path>',
      "the bundle's relative path, below which it is published (default: the name of the directory)",
    )
    .option('--created <time>', 'when it was made: RFC 3339, or now (default: the newest file)')
    .addOption(
      new Option('--include <pattern>', 'only these files, as .gitignore names them (again)').argParser(
        collect,
      ),
    )
    .addOption(
      new Option('--exclude <pattern>', 'not these files, as .gitignore names them (again)').argParser(
        collect,
      ),
    )
    .addOption(linksOption())
    .addOption(
      new Option('--scene-map <pattern>', 'these files are session scene maps (again)').argParser(collect),
    )
    .addOption(
      new Option('--metadata <key=value>', 'into the metadata of the manifest (again)').argParser(collect),
    )
    .option('--renew', 'make the manifest anew where there is one');
}

/** The daemon's URL and the caller's token, as commander parses them. */
export interface RemoteFlags {
  to: string;
  tokenFile?: string;
}

/** The options of commands that call a daemon. */
export function withRemoteOptions(command: Command): Command {
  return command
    .addOption(new Option('--to <url>', 'the daemon, with its base path').makeOptionMandatory())
    .option('--token-file <file>', 'file that holds the token (default: the variable WAYBILL_TOKEN)');
}

/**
 * Accepts `-config file` and `-config=file` as `--config`. Commander reads a single dash as a group of
 * one-letter options.
 */
export function singleDashConfig(args: readonly string[]): string[] {
  const end = args.indexOf('--');
  return args.map((arg, index) =>
    /^-config(=|$)/.test(arg) && (end === -1 || index < end) ? `-${arg}` : arg,
  );
}

export type ReleasesOptions = ConfiguredOptions & {
  pipeline: string;
  destination?: string;
  /** Bundle path at the destination. */
  path?: string;
};

export type SwitchOptions = ReleasesOptions & { dryRun: boolean };
export type RollbackOptions = SwitchOptions & { to?: string };

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
  /** The file for the plan of a dry run. */
  out?: string;
  /** The plan that is carried out. */
  plan?: string;
}
