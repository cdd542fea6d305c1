import { Command, Option } from 'commander';

/** Options that several commands share. Commands load this file to print their help: commander only. */

export const configOption = (): Option =>
  new Option('-c, --config <file>', 'configuration file (YAML)').makeOptionMandatory();

export const formatOption = (): Option =>
  new Option('--format <format>', 'output format').choices(['text', 'json']).default('text');

export const linksOption = (): Option =>
  new Option(
    '--links <policy>',
    'what to do with symbolic links: fail, publish their targets, or omit them (default: refuse)',
  ).choices(['refuse', 'follow', 'skip']);

export const maxRateOption = (): Option =>
  new Option('--max-rate <rate>', 'maximum transfer rate, such as 2MiB/s (default: no limit)');

export const pipelineOption = (): Option =>
  new Option('-p, --pipeline <id>', 'pipeline').makeOptionMandatory();

export const destinationOption = (): Option =>
  new Option('-d, --destination <id>', 'destination of the pipeline').makeOptionMandatory();

export const passphraseFileOption = (): Option =>
  new Option('--passphrase-file <file>', 'file with the passphrase of the key');

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
    .option('--verbose', 'log every storage call to stderr, and print complete lists');
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
  links?: 'refuse' | 'follow' | 'skip';
  sceneMap?: string[];
  renew: boolean;
}

/** The options of commands that make a bundle of a directory. */
export function withBundleOptions(command: Command): Command {
  return command
    .option('--name <path>', 'bundle path at the destination (default: the name of the directory)')
    .option('--created <time>', 'creation time: RFC 3339, or now (default: time of the newest file)')
    .addOption(
      new Option(
        '--include <pattern>',
        'only files that match this .gitignore pattern (repeatable)',
      ).argParser(collect),
    )
    .addOption(
      new Option(
        '--exclude <pattern>',
        'skip files that match this .gitignore pattern (repeatable)',
      ).argParser(collect),
    )
    .addOption(linksOption())
    .addOption(
      new Option(
        '--scene-map <pattern>',
        'treat matching files as session scene maps (repeatable)',
      ).argParser(collect),
    )
    .addOption(
      new Option('--metadata <key=value>', 'add to the metadata of the manifest (repeatable)').argParser(
        collect,
      ),
    )
    .option('--renew', 'replace an existing manifest');
}

/** The daemon's URL and the caller's token, as commander parses them. */
export interface RemoteFlags {
  to: string;
  tokenFile?: string;
}

/** The options of commands that call a daemon. */
export function withRemoteOptions(command: Command): Command {
  return command
    .addOption(new Option('--to <url>', 'URL of the daemon, including its base path').makeOptionMandatory())
    .option('--token-file <file>', 'file with the token (default: the variable WAYBILL_TOKEN)');
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

export type DiffOptions = ReleasesOptions & { dir?: string };
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
  /** Replaces the limit of each destination. */
  maxRate?: string;
  /** The file for the plan of a dry run. */
  out?: string;
  /** The plan that is carried out. */
  plan?: string;
}
