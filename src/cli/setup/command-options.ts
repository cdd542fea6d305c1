import { InvalidArgumentError } from 'commander';
import {
  choice,
  choiceWithDefault,
  flag,
  type Input,
  optional,
  type OptionsOf,
  repeatable,
  required,
} from './command.ts';

/**
 * Options that several commands have in common. This file is loaded in order to print help, so it may only
 * import commander.
 */

export const verbose = flag('--verbose', 'log every storage call to stderr, and print complete lists');

export const format = choiceWithDefault('--format <format>', 'output format', ['text', 'json'], 'text');

export const config = required('-c, --config <file>', 'configuration file (YAML)');

export const optionalConfig = optional('-c, --config <file>', 'configuration file (YAML)');

export const pipelineIfSeveral = optional(
  '-p, --pipeline <id>',
  'id of the pipeline, if the configuration has more than one',
);

export const pipelineOfToken = optional(
  '-p, --pipeline <id>',
  'id of the pipeline (default: the only one of the token)',
);

export const onlyPipelines = repeatable('-p, --pipeline <id>', 'only this pipeline (repeatable)');

export const onlyDestinations = repeatable(
  '-d, --destination <id>',
  'only destinations with this id (repeatable)',
);

export const destinationIfSeveral = optional(
  '-d, --destination <id>',
  'destination of the pipeline, if it has more than one',
);

export const allowRemovals = flag('--allow-removals', 'allow more removals than limits.max_removed');

export const planOnly = flag('--dry-run', 'print the plan without writing anything');

export const forceConfirmed = flag('--yes', 'do not ask for confirmation before --force deletes anything');

export const include = repeatable(
  '--include <pattern>',
  'only files that match this .gitignore pattern (repeatable)',
);

export const exclude = repeatable(
  '--exclude <pattern>',
  'skip files that match this .gitignore pattern (repeatable)',
);

export const links = choice(
  '--links <policy>',
  'symbolic links: refuse them, follow them (publish their targets) or skip them; default: refuse',
  ['refuse', 'follow', 'skip'],
);

export const maxRate = optional('--max-rate <rate>', 'maximum transfer rate, such as 2MiB/s');

export const passphraseFile = optional('--passphrase-file <file>', 'file with the passphrase of the key');

export const limit = (about: string, fallback: number): Input<number> => ({
  flags: '--limit <number>',
  about,
  fallback,
  parse(text) {
    if (!/^[1-9]\d{0,5}$/.test(text)) throw new InvalidArgumentError('Enter a number from 1 to 999999.');
    return Number(text);
  },
});

/** The options of all commands that create a bundle from a directory. */
export const bundleInputs = {
  name: optional('--name <path>', 'bundle path at the destination (default: the name of the directory)'),
  created: optional('--created <time>', 'creation time: RFC 3339, or now (default: time of the newest file)'),
  include,
  exclude,
  links,
  sceneMap: repeatable('--scene-map <pattern>', 'treat matching files as session scene maps (repeatable)'),
  metadata: repeatable('--metadata <key=value>', 'add to the metadata of the manifest (repeatable)'),
  renew: flag('--renew', 'replace an existing manifest'),
  sign: optional('--sign <key>', 'sign the bundle with this secret key; docs/signatures.md'),
  passphraseFile,
};
export type BundleFlags = Omit<OptionsOf<typeof bundleInputs>, 'color'>;

export const urlVariable = 'WAYBILL_URL';

/** The options of all commands that connect to a daemon. */
export const remoteInputs = {
  to: { ...required('--to <url>', 'URL of the daemon, including its base path'), env: urlVariable },
  tokenFile: optional('--token-file <file>', 'file with the token (default: the variable WAYBILL_TOKEN)'),
};
export type RemoteFlags = Omit<OptionsOf<typeof remoteInputs>, 'color'>;

export const timeout = optional('--timeout <duration>', 'maximum time to wait for the run, such as 10m');

/** The option of all commands that administrators use for their own daemon. */
export const operatorUrl = optional('--url <url>', 'URL of the daemon (default: from server.http)');

/** The times that `--since` and `--until` accept. */
export const periodForm = '24h, 7d, yesterday, a date or RFC 3339';

export const notifiers = repeatable('-n, --notifier <id>', 'only this notifier (repeatable)');

/**
 * Allows `-config file` and `-config=file` instead of `--config`. To commander, a single dash would mean a
 * group of one-letter options.
 */
export function singleDashConfig(args: readonly string[]): string[] {
  const end = args.indexOf('--');
  return args.map((arg, index) =>
    /^-config(=|$)/.test(arg) && (end === -1 || index < end) ? `-${arg}` : arg,
  );
}
