import { Argument, Command, Option } from 'commander';
import {
  collect,
  configOption,
  exitWith,
  formatOption,
  linksOption,
  pipelineOption,
  type ReleasesOptions,
  type RollbackOptions,
  type RunOptions,
  type SwitchOptions,
  verboseCommand,
  withBundleOptions,
  withSigningOptions,
} from '../../setup/command-options.ts';
import type { InitOptions } from './init.ts';
import type { PackFlags } from './pack.ts';
import type { PublishOptions } from './publish.ts';
import { type SituationName, situations } from './situations.ts';
import type { UnpublishOptions } from './unpublish.ts';
import type { ValidateOptions } from './validate.ts';

export function publishCommand(): Command {
  return verboseCommand('publish', 'publish a directory to one or more destinations, without a configuration')
    .argument('<directory>', 'directory to publish')
    .argument('<destination...>', 'path, sftp://[user@]host[:port]/path or s3://bucket[/prefix]')
    .option(
      '-p, --pipeline <id>',
      'pipeline id that the catalog records (default: the name of the directory)',
    )
    .option('--dry-run', 'decide and print, write nothing at all')
    .option('--force', 'replace unmanaged content: deletes everything else at the destination')
    .option('--yes', 'do not ask before --force deletes anything')
    .option('--releases', 'publish into a release of its own, and switch to it in one step')
    .option(
      '--channel <name>',
      'publish to this channel and leave the current release as it is; needs --releases',
    )
    .addOption(
      new Option('--index <when>', 'generate index.html, a list of the files')
        .choices(['auto', 'always', 'never'])
        .default('auto', 'auto: if the directory has none'),
    )
    .option('--include <pattern>', 'only these files, as in .gitignore (may be given again)', collect)
    .option('--exclude <pattern>', 'not these, as in .gitignore (may be given again)', collect)
    .addOption(linksOption())
    .option('--url <url>', 'address at which readers reach the destination, printed in the end')
    .option('--channel-url <url>', 'the same for the readers of --channel')
    .option('--ssh-key <file>', 'private key for SFTP (default: the SSH agent, or a key in ~/.ssh)')
    .option('--save <file>', 'also write the configuration that does the same')
    .addOption(formatOption())
    .addHelpText(
      'after',
      `
Examples:
  waybill publish ./site /srv/www
  waybill publish ./site sftp://deploy@web1/srv/www --dry-run
  waybill publish ./site 's3://bucket/site?endpoint=https://s3.example.org'

S3 takes ?endpoint=URL, region=NAME and path_style=true. Its credentials come
from the environment (AWS_ACCESS_KEY_ID, …) or the role of the machine; those
of SFTP from the SSH agent or a key. No password belongs in a URL.

Exit codes: 0 published or nothing to do, 1 a destination failed, 2 usage,
3 readers still have another release, because this one was rolled back.`,
    )
    .action(async (directory: string, destinations: string[], options: PublishOptions) =>
      exitWith((await import('./publish.ts')).publish(directory, destinations, options)),
    );
}

const width = Math.max(...situations.map(({ name }) => name.length));
const list = situations.map(({ name, about }) => `  ${name.padEnd(width)}  ${about}`).join('\n');

export function initCommand(): Command {
  return new Command('init')
    .description('write a configuration with comments, to begin with')
    .addArgument(
      new Argument('<situation>', 'the kind of source').choices(situations.map(({ name }) => name)),
    )
    .option('-o, --out <file>', 'where it is written', 'waybill.yml')
    .option('--systemd <file>', 'also write a systemd unit that runs it, e.g. waybill.service')
    .addOption(formatOption())
    .addHelpText(
      'after',
      `
Situations:
${list}

Nothing is overwritten. Paths are next to the file. With --systemd they are
below /var/lib/waybill, which the unit makes, and secrets are files in
/etc/waybill/secrets, which it passes on as credentials. docs/operations.md

Example:
  waybill init uploads --out waybill.yml`,
    )
    .action(async (situation: SituationName, options: InitOptions) =>
      exitWith((await import('./init.ts')).init(situation, options)),
    );
}

export function runCommand(): Command {
  return verboseCommand('run', 'publish what the sources hold to all destinations')
    .addOption(configOption())
    .option('-p, --pipeline <id>', 'only this pipeline (may be given again)', collect)
    .option('-d, --destination <id>', 'only destinations of this name (may be given again)', collect)
    .option('--dry-run', 'decide and print, write nothing at all')
    .option(
      '--force',
      'replace unmanaged content and unusable states: deletes everything below the destination bundle path',
    )
    .option('--allow-removals', 'remove more published outputs than limits.max_removed allows')
    .option(
      '--channel <name>',
      'publish to this channel of the destinations that have it; others, and what is current, stay as they are',
    )
    .option(
      '--retry-for <duration>',
      'try destinations again that failed for a passing cause, like 30m (default: one try)',
    )
    .option('-o, --out <file>', 'with --dry-run: write the plan to this file')
    .option('--plan <file>', 'carry out this plan, exactly; refused if anything changed since (plan_stale)')
    .addOption(formatOption())
    .addHelpText(
      'after',
      `
Examples:
  waybill run --config waybill.yml --dry-run
  waybill run --config waybill.yml --pipeline site

Exit codes: 0 published or nothing to do, 1 something failed, 2 usage,
configuration, secrets or a stale plan, 3 readers still have another release,
because the one that the source holds was rolled back.`,
    )
    .action(async (options: RunOptions) => exitWith((await import('./run.ts')).run(options)));
}

export function unpublishCommand(): Command {
  return verboseCommand('unpublish', 'remove all that a pipeline has published at one bundle path')
    .argument('<path>', 'bundle path at the destination; . for the root')
    .addOption(configOption())
    .addOption(pipelineOption())
    .addOption(new Option('-d, --destination <id>', 'destination of the pipeline, if it has more than one'))
    .addOption(
      new Option(
        '--layout <layout>',
        'what goes where a change of layout has left both, or refuse if that is not there',
      ).choices(['in_place', 'releases']),
    )
    .option('--dry-run', 'show what would go, remove nothing')
    .option('--allow-removals', 'remove more than limits.max_removed allows')
    .addOption(formatOption())
    .action(async (path: string, options: UnpublishOptions) =>
      exitWith((await import('./unpublish.ts')).unpublishBundlePath(path, options)),
    );
}

export function packCommand(): Command {
  const command = new Command('pack')
    .description('make a bundle of a directory: its manifest, and an archive to upload')
    .argument('<directory>', 'the files of the bundle')
    .option('-o, --output <file>', 'the archive; - for standard output (default: DIRECTORY.tar.gz)')
    .option('--manifest-only', 'write manifest.json into the directory, or check it, and no archive');
  return withSigningOptions(withBundleOptions(command))
    .addOption(formatOption())
    .addHelpText(
      'after',
      `
An existing manifest.json is checked against every byte and used as it is.
Without one, it is made in the archive. The same files make the same bytes, on
every machine. docs/producers.md

Examples:
  waybill pack ./site
  waybill pack ./site --manifest-only`,
    )
    .action(async (directory: string, options: PackFlags) =>
      exitWith((await import('./pack.ts')).pack(directory, options)),
    );
}

export function validateCommand(): Command {
  return verboseCommand('validate', 'check a bundle, or every bundle of a configured source')
    .argument('[bundle_path]', 'directory of a bundle')
    .option('-c, --config <file>', 'configuration file (YAML)')
    .option('-p, --pipeline <id>', 'pipeline whose source is checked')
    .option(
      '--listing-only',
      'a quick look at a source on SFTP or S3: its manifests, scene maps and listing, not the bytes of its files',
    )
    .addOption(formatOption())
    .action(async (bundlePath: string | undefined, options: ValidateOptions) =>
      exitWith((await import('./validate.ts')).validate(bundlePath, options)),
    );
}

export function releasesCommand(): Command {
  const group = new Command('releases').description(
    'list the releases of a destination, go back to one, and forward again',
  );
  releasesSubcommand(
    group,
    'list',
    'the releases of a bundle path, the newest first, and which of them readers have',
  ).action(async (options: ReleasesOptions) =>
    exitWith((await import('./releases-show.ts')).showReleases(options)),
  );
  releasesSubcommand(group, 'show', 'what is in one release, and whether all of it is there')
    .argument('<release>', 'id of the release, or a channel')
    .action(async (id: string, options: ReleasesOptions) =>
      exitWith((await import('./releases-show.ts')).showRelease(id, options)),
    );
  releasesSubcommand(group, 'diff', 'what changes for readers from one release to another')
    .argument('<from>', 'id of a release, or a channel')
    .argument('[to]', 'id of another; without it, the current one')
    .action(async (from: string, to: string | undefined, options: ReleasesOptions) =>
      exitWith((await import('./releases-show.ts')).diffReleases(from, to, options)),
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
      exitWith((await import('./releases-switch.ts')).rollBackRelease(options)),
    );
  releasesSubcommand(group, 'promote', 'give readers any release, and let what was rolled back come back')
    .argument('<release>', 'id of the release, or a channel')
    .addOption(dryRunOption())
    .action(async (id: string, options: SwitchOptions) =>
      exitWith((await import('./releases-switch.ts')).promoteRelease(id, options)),
    );
  releasesSubcommand(group, 'resume', 'let what was rolled back come back with the next run')
    .addOption(dryRunOption())
    .action(async (options: SwitchOptions) =>
      exitWith((await import('./releases-switch.ts')).resumeReleases(options)),
    );
  releasesSubcommand(group, 'drop', 'remove a channel before its time is over')
    .argument('<channel>', 'name of the channel')
    .addOption(dryRunOption())
    .action(async (channel: string, options: SwitchOptions) =>
      exitWith((await import('./releases-switch.ts')).dropChannel(channel, options)),
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
    .action(async (options: SwitchOptions) =>
      exitWith((await import('./releases-switch.ts')).tidyReleases(options)),
    );
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
