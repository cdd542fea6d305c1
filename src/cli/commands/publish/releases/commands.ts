import { Command, Option } from 'commander';
import {
  configOption,
  type DiffOptions,
  exitWith,
  formatOption,
  pipelineOption,
  type ReleasesOptions,
  type RollbackOptions,
  type SwitchOptions,
  verboseCommand,
} from '../../../setup/command-options.ts';

export function releasesCommand(): Command {
  const group = new Command('releases').description('list releases, roll back, promote and compare them');
  releasesSubcommand(group, 'list', 'list the releases of a bundle path, newest first').action(
    async (options: ReleasesOptions) => exitWith((await import('./show.ts')).showReleases(options)),
  );
  releasesSubcommand(group, 'show', 'show the files of a release, and whether all of them exist')
    .argument('<release>', 'id of the release, or a channel')
    .action(async (id: string, options: ReleasesOptions) =>
      exitWith((await import('./show.ts')).showRelease(id, options)),
    );
  releasesSubcommand(group, 'diff', 'compare two releases, or a release with a directory')
    .argument('[from]', 'id of a release, a channel or current (default with --dir: current)')
    .argument('[to]', 'id of a release, or a channel (default: the current release)')
    .option('--dir <directory>', 'compare with the release that publishing this directory would create')
    .addHelpText(
      'after',
      `
Nothing is written. A directory without a manifest.json is one bundle.

Examples:
  waybill releases diff --dir ./site -c waybill.yml -p maps
  waybill releases diff preview current -c waybill.yml -p maps`,
    )
    .action(async (from: string | undefined, to: string | undefined, options: DiffOptions) =>
      exitWith((await import('./show.ts')).diffReleases(from, to, options)),
    );
  releasesSubcommand(group, 'rollback', 'make an earlier release current, and hold back later ones')
    .option('--to <release>', 'id of the release (default: the last good one)')
    .addOption(dryRunOption())
    .addHelpText(
      'after',
      `
Nothing is copied. Runs report a rolled-back release as skip_same
(rolled_back) until a bundle with different content is published, or until
"releases resume" or "releases promote".

Exit codes: 0 the release is current, 1 refused (damaged, incomplete, being
removed, no earlier release), 2 usage, configuration or secrets.`,
    )
    .action(async (options: RollbackOptions) =>
      exitWith((await import('./switch.ts')).rollBackRelease(options)),
    );
  releasesSubcommand(group, 'promote', 'make a release current, and end a rollback')
    .argument('<release>', 'id of the release, or a channel')
    .addOption(dryRunOption())
    .action(async (id: string, options: SwitchOptions) =>
      exitWith((await import('./switch.ts')).promoteRelease(id, options)),
    );
  releasesSubcommand(group, 'resume', 'end a rollback: the next run publishes the latest bundle again')
    .addOption(dryRunOption())
    .action(async (options: SwitchOptions) =>
      exitWith((await import('./switch.ts')).resumeReleases(options)),
    );
  releasesSubcommand(group, 'drop', 'remove a channel before it expires')
    .argument('<channel>', 'name of the channel')
    .addOption(dryRunOption())
    .action(async (channel: string, options: SwitchOptions) =>
      exitWith((await import('./switch.ts')).dropChannel(channel, options)),
    );
  releasesSubcommand(group, 'tidy', 'remove expired channels and releases beyond the retention limits')
    .addOption(dryRunOption())
    .addHelpText(
      'after',
      `
Every publication tidies its own bundle path. waybill serve tidies channels.`,
    )
    .action(async (options: SwitchOptions) => exitWith((await import('./switch.ts')).tidyReleases(options)));
  return group;
}

function releasesSubcommand(group: Command, name: string, description: string): Command {
  const command = verboseCommand(name, description)
    .addOption(configOption())
    .addOption(pipelineOption())
    .addOption(new Option('-d, --destination <id>', 'destination of the pipeline, if it has more than one'))
    .addOption(new Option('--path <path>', 'bundle path at the destination, if it has releases of several'))
    .addOption(formatOption());
  group.addCommand(command);
  return command;
}

const dryRunOption = (): Option => new Option('--dry-run', 'show the changes without making them');
