import { described, flag, optional, type OptionsOf, required } from '../../../setup/command.ts';
import {
  config,
  destinationIfSeveral,
  format,
  optionalConfig,
  pipelineIfSeveral,
  remoteInputs,
  verbose,
} from '../../../setup/command-options.ts';

const place = {
  destination: destinationIfSeveral,
  path: optional('--path <path>', 'bundle path at the destination, if it has releases of several'),
  format,
};

const local = { verbose, config, pipeline: pipelineIfSeveral, ...place };

/** Of commands that read a configuration file, or ask a daemon. */
const either = {
  verbose,
  config: optionalConfig,
  to: optional('--to <url>', 'URL of a daemon, instead of --config (default: the variable WAYBILL_URL)'),
  tokenFile: remoteInputs.tokenFile,
  pipeline: pipelineIfSeveral,
  ...place,
};
export type EitherFlags = Omit<OptionsOf<typeof either>, 'color'>;

const dryRun = flag('--dry-run', 'show the changes without making them');

const changing = { ...local, dryRun };

export const listCommand = described({
  name: 'list',
  about: 'list the releases of a bundle path, newest first',
  inputs: either,
});

export const showCommand = described({
  name: 'show',
  about: 'show the files of a release, and whether all of them exist',
  inputs: { ...either, release: required('<release>', 'id of the release, or a channel') },
});

export const diffCommand = described({
  name: 'diff',
  about: 'compare two releases, or a release with a directory',
  inputs: {
    ...either,
    from: optional('[from]', 'id of a release, a channel or current (default with --dir: current)'),
    with: optional('[with]', 'id of a release, or a channel (default: the current release)'),
    dir: optional(
      '--dir <directory>',
      'compare with the release that publishing this directory would create',
    ),
  },
  help: `--dir needs --config; waybill push --dry-run compares with a daemon.

Example:
  waybill releases diff preview current -c waybill.yml -p maps`,
});

export const rollbackCommand = described({
  name: 'rollback',
  about: 'make an earlier release current, and hold back later ones',
  signals: 'abort',
  inputs: {
    ...either,
    release: optional('[release]', 'id of the release, or a channel (default: the last good one)'),
    dryRun,
  },
  help: `Runs report the bundle as skip_same (rolled_back) until it has different
content, or until "releases resume" or "releases promote".

Example:
  waybill releases rollback --to https://publish.example.org

Exit codes: 0 the release is current, 1 refused (damaged, incomplete, being
removed, no earlier release), 2 usage, configuration or secrets.`,
});

export const activateCommand = described({
  name: 'promote',
  about: 'make a release current, and end a rollback',
  signals: 'abort',
  inputs: { release: required('<release>', 'id of the release, or a channel'), ...either, dryRun },
});

export const resumeCommand = described({
  name: 'resume',
  about: 'end a rollback: the next run publishes the latest bundle again',
  signals: 'abort',
  inputs: changing,
});

export const dropCommand = described({
  name: 'drop',
  about: 'remove a channel before it expires',
  signals: 'abort',
  inputs: { channel: required('<channel>', 'name of the channel'), ...changing },
});

export const tidyCommand = described({
  name: 'tidy',
  about: 'remove expired channels and releases beyond the retention limits',
  signals: 'abort',
  inputs: changing,
  help: 'Every publication tidies its own bundle path. waybill serve tidies channels.',
});
