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
  const group = new Command('releases').description(
    'list the releases of a destination, go back to one, and forward again',
  );
  releasesSubcommand(
    group,
    'list',
    'the releases of a bundle path, the newest first, and which of them readers have',
  ).action(async (options: ReleasesOptions) => exitWith((await import('./show.ts')).showReleases(options)));
  releasesSubcommand(group, 'show', 'what is in one release, and whether all of it is there')
    .argument('<release>', 'id of the release, or a channel')
    .action(async (id: string, options: ReleasesOptions) =>
      exitWith((await import('./show.ts')).showRelease(id, options)),
    );
  releasesSubcommand(group, 'diff', 'what changes for readers from one release to another')
    .argument('[from]', 'id of a release, a channel or current (default with --dir: current)')
    .argument('[to]', 'id of another; without it, the current one')
    .option('--dir <directory>', 'compare with what publishing this directory would make current')
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
  releasesSubcommand(
    group,
    'rollback',
    'give readers an earlier release, and keep the later ones from coming back',
  )
    .option('--to <release>', 'id of the release; without it, the last good one')
    .addOption(dryRunOption())
    .addHelpText(
      'after',
      `
No byte is moved. Runs report what was rolled back as skip_same (rolled_back)
until a bundle with other content is published, or until "releases resume" or
"releases promote".

Exit codes: 0 readers have that release, 1 refused (damaged, unfinished, being
removed, nothing to go back to), 2 usage, configuration or secrets.`,
    )
    .action(async (options: RollbackOptions) =>
      exitWith((await import('./switch.ts')).rollBackRelease(options)),
    );
  releasesSubcommand(group, 'promote', 'give readers any release, and let what was rolled back come back')
    .argument('<release>', 'id of the release, or a channel')
    .addOption(dryRunOption())
    .action(async (id: string, options: SwitchOptions) =>
      exitWith((await import('./switch.ts')).promoteRelease(id, options)),
    );
  releasesSubcommand(group, 'resume', 'let what was rolled back come back with the next run')
    .addOption(dryRunOption())
    .action(async (options: SwitchOptions) =>
      exitWith((await import('./switch.ts')).resumeReleases(options)),
    );
  releasesSubcommand(group, 'drop', 'remove a channel before its time is over')
    .argument('<channel>', 'name of the channel')
    .addOption(dryRunOption())
    .action(async (channel: string, options: SwitchOptions) =>
      exitWith((await import('./switch.ts')).dropChannel(channel, options)),
    );
  releasesSubcommand(
    group,
    'tidy',
    'remove channels whose time is over, and releases beyond those that are kept',
  )
    .addOption(dryRunOption())
    .addHelpText(
      'after',
      `
Every publication does that at its own bundle path, and "waybill serve" at those of all channels.`,
    )
    .action(async (options: SwitchOptions) => exitWith((await import('./switch.ts')).tidyReleases(options)));
  return group;
}

function releasesSubcommand(group: Command, name: string, description: string): Command {
  const command = verboseCommand(name, description)
    .addOption(configOption())
    .addOption(pipelineOption())
    .addOption(new Option('-d, --destination <id>', 'destination of the pipeline, if it has more than one'))
    .addOption(
      new Option('--path <path>', 'bundle path at the destination, if releases are kept of more than one'),
    )
    .addOption(formatOption());
  group.addCommand(command);
  return command;
}

const dryRunOption = (): Option => new Option('--dry-run', 'show what would change, change nothing');
