import { Command, Option } from 'commander';
import { collect, exitWith, formatOption, linksOption, verboseCommand } from '../../setup/command-options.ts';
import type { PublishOptions } from './publish.ts';

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
