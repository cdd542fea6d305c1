import { Argument, Command, Option } from 'commander';
import {
  collect,
  configOption,
  exitWith,
  formatOption,
  linksOption,
  maxRateOption,
  pipelineOption,
  type RunOptions,
  verboseCommand,
  withBundleOptions,
  withSigningOptions,
} from '../../setup/command-options.ts';
import type { InitOptions } from './init.ts';
import type { PackFlags } from './pack.ts';
import type { PromoteOptions } from './promote.ts';
import type { PublishOptions } from './publish.ts';
import { type SituationName, situations } from './situations.ts';
import type { UnpublishOptions } from './unpublish.ts';
import type { ValidateOptions } from './validate.ts';

export function publishCommand(): Command {
  return verboseCommand('publish', 'publish a directory to one or more destinations, without a configuration')
    .argument('<directory>', 'directory to publish')
    .argument('<destination...>', 'path, sftp://[user@]host[:port]/path or s3://bucket[/prefix]')
    .option('-p, --pipeline <id>', 'pipeline id in the catalog (default: the name of the directory)')
    .option('--dry-run', 'print the plan without writing anything')
    .option('--force', 'replace unmanaged content: deletes everything else at the destination')
    .option('--yes', 'do not ask for confirmation before --force deletes anything')
    .option('--releases', 'publish as a new release, and make it current in one step')
    .option(
      '--channel <name>',
      'publish to this channel without changing the current release; needs --releases',
    )
    .addOption(
      new Option('--index <when>', 'generate index.html, which lists the files')
        .choices(['auto', 'always', 'never'])
        .default('auto', 'auto: if the directory has no index.html'),
    )
    .option('--include <pattern>', 'only files that match this .gitignore pattern (repeatable)', collect)
    .option('--exclude <pattern>', 'skip files that match this .gitignore pattern (repeatable)', collect)
    .addOption(linksOption())
    .addOption(maxRateOption())
    .option('--url <url>', 'public URL of the destination, printed after publishing')
    .option('--channel-url <url>', 'public URL of the channel')
    .option('--ssh-key <file>', 'private key for SFTP (default: the SSH agent, or a key in ~/.ssh)')
    .option('--open', 'open the published URL in the browser; needs --url')
    .option('--save <file>', 'also write the equivalent configuration to this file')
    .addOption(formatOption())
    .addHelpText(
      'after',
      `
Examples:
  waybill publish ./site /srv/www
  waybill publish ./site sftp://deploy@web1/srv/www --dry-run
  waybill publish ./site 's3://bucket/site?endpoint=https://s3.example.org'

S3 URLs accept ?endpoint=URL, region=NAME and path_style=true. S3 credentials
come from the environment (AWS_ACCESS_KEY_ID, …) or the role of the machine,
SFTP credentials from the SSH agent or a key. URLs must not contain passwords.

Exit codes: 0 published or nothing to do, 1 a destination failed, 2 usage,
3 another release stays current, because this rolled back.`,
    )
    .action(async (directory: string, destinations: string[], options: PublishOptions) =>
      exitWith((await import('./publish.ts')).publish(directory, destinations, options)),
    );
}

const width = Math.max(...situations.map(({ name }) => name.length));
const list = situations.map(({ name, about }) => `  ${name.padEnd(width)}  ${about}`).join('\n');

export function initCommand(): Command {
  return new Command('init')
    .description('write a commented configuration to start with')
    .addArgument(new Argument('<situation>', 'kind of source').choices(situations.map(({ name }) => name)))
    .option('-o, --out <file>', 'file to write', 'waybill.yml')
    .option('--systemd <file>', 'also write a systemd unit, such as waybill.service')
    .addOption(formatOption())
    .addHelpText(
      'after',
      `
Situations:
${list}

Existing files are not overwritten. Paths are relative to the file. With
--systemd, they are in /var/lib/waybill, which the unit creates, and secrets
are files in /etc/waybill/secrets, passed as credentials. See
docs/operations.md.

Example:
  waybill init uploads --out waybill.yml`,
    )
    .action(async (situation: SituationName, options: InitOptions) =>
      exitWith((await import('./init.ts')).init(situation, options)),
    );
}

export function runCommand(): Command {
  return verboseCommand('run', 'publish the sources of all pipelines to their destinations')
    .addOption(configOption())
    .option('-p, --pipeline <id>', 'only this pipeline (repeatable)', collect)
    .option('-d, --destination <id>', 'only destinations with this id (repeatable)', collect)
    .option('--dry-run', 'print the plan without writing anything')
    .option(
      '--force',
      'replace unmanaged content and unusable catalogs: deletes everything else below the bundle path',
    )
    .option('--allow-removals', 'allow more removals than limits.max_removed')
    .option(
      '--channel <name>',
      'publish to this channel at the destinations that define it, without changing the current release',
    )
    .option(
      '--retry-for <duration>',
      'retry destinations that failed for a temporary cause for this long, such as 30m (default: no retry)',
    )
    .option('--max-rate <rate>', 'maximum rate per destination, such as 2MiB/s (default: its max_rate)')
    .option('-o, --out <file>', 'with --dry-run: write the plan to this file')
    .option('--plan <file>', 'carry out this plan exactly; fails with plan_stale if anything has changed')
    .addOption(formatOption())
    .addHelpText(
      'after',
      `
Examples:
  waybill run --config waybill.yml --dry-run
  waybill run --config waybill.yml --pipeline site

Exit codes: 0 published or nothing to do, 1 something failed, 2 usage,
configuration, secrets or a stale plan, 3 another release stays current,
because the release of the source was rolled back.`,
    )
    .action(async (options: RunOptions) => exitWith((await import('./run.ts')).run(options)));
}

export function promoteCommand(): Command {
  return verboseCommand('promote', 'publish what one destination has to another, without the source')
    .argument('<from>', 'destination to read: its id with --config, else its path or URL')
    .argument('<to>', 'destination to publish to')
    .option('-c, --config <file>', 'configuration file (YAML) that has both destinations')
    .option('-p, --pipeline <id>', 'pipeline that published there, if there are several')
    .option('--path <path>', 'only this bundle path of <from>')
    .option('--release <release>', 'id of a release of <from>, or a channel (default: the current one)')
    .option('--dry-run', 'print the plan without writing anything')
    .option('--force', 'replace unmanaged content: deletes everything else at the bundle path')
    .option('--yes', 'do not ask for confirmation before --force deletes anything')
    .option('--allow-removals', 'allow more removals than limits.max_removed')
    .option('--releases', 'without --config: publish as a new release')
    .addOption(
      new Option('--index <when>', 'without --config: generate index.html (default: auto)').choices([
        'auto',
        'always',
        'never',
      ]),
    )
    .option('--url <url>', 'without --config: public URL of <to>')
    .option('--ssh-key <file>', 'without --config: private key for SFTP')
    .addOption(formatOption())
    .addHelpText(
      'after',
      `
Every file is verified against the catalog of <from> while it is copied. If one
differs, nothing of its bundle is published. Generated files, such as an index,
are regenerated for <to>. See docs/promote.md.

Examples:
  waybill promote staging production --config waybill.yml --dry-run
  waybill promote /srv/staging sftp://deploy@web1/srv/www

Exit codes: 0 published or nothing to do, 1 a destination failed, 2 usage,
configuration or secrets, 3 another release stays current, because this one was
rolled back.`,
    )
    .action(async (from: string, to: string, options: PromoteOptions) =>
      exitWith((await import('./promote.ts')).promoteContent(from, to, options)),
    );
}

export function unpublishCommand(): Command {
  return verboseCommand('unpublish', 'remove everything that a pipeline published at a bundle path')
    .argument('<path>', 'bundle path at the destination; . is the root')
    .addOption(configOption())
    .addOption(pipelineOption())
    .addOption(new Option('-d, --destination <id>', 'destination of the pipeline, if it has more than one'))
    .addOption(
      new Option(
        '--layout <layout>',
        'layout to remove if the destination has both; fails if it is not there',
      ).choices(['in_place', 'releases']),
    )
    .option('--dry-run', 'list the removals without making them')
    .option('--allow-removals', 'allow more removals than limits.max_removed')
    .addOption(formatOption())
    .action(async (path: string, options: UnpublishOptions) =>
      exitWith((await import('./unpublish.ts')).unpublishBundlePath(path, options)),
    );
}

export function packCommand(): Command {
  const command = new Command('pack')
    .description('pack a directory as a bundle: a manifest and an archive to upload')
    .argument('<directory>', 'directory to pack')
    .option('-o, --output <file>', 'archive to write; - is standard output (default: DIRECTORY.tar.gz)')
    .option('--manifest-only', 'write or check manifest.json in the directory, without an archive');
  return withSigningOptions(withBundleOptions(command))
    .addOption(formatOption())
    .addHelpText(
      'after',
      `
An existing manifest.json is verified against every file and used unchanged.
Otherwise it is created in the archive. The same files give the same archive
on every machine. See docs/producers.md.

Examples:
  waybill pack ./site
  waybill pack ./site --manifest-only`,
    )
    .action(async (directory: string, options: PackFlags) =>
      exitWith((await import('./pack.ts')).pack(directory, options)),
    );
}

export function validateCommand(): Command {
  return verboseCommand('validate', 'check a bundle, or all bundles of a configured source')
    .argument('[bundle_path]', 'directory of a bundle')
    .option('-c, --config <file>', 'configuration file (YAML)')
    .option('-p, --pipeline <id>', 'pipeline whose source to check')
    .option(
      '--listing-only',
      'for SFTP and S3: check only manifests, scene maps and the listing, without reading the files',
    )
    .addOption(formatOption())
    .action(async (bundlePath: string | undefined, options: ValidateOptions) =>
      exitWith((await import('./validate.ts')).validate(bundlePath, options)),
    );
}
