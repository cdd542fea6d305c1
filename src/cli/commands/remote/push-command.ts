import { Command, Option } from 'commander';
import { withBundleOptions } from '../../setup/bundle-options.ts';
import { exitWith, formatOption, pipelineOption } from '../../setup/command-options.ts';
import { withRemoteOptions } from '../../setup/remote-options.ts';
import type { PushFlags } from './push.ts';

export function pushCommand(): Command {
  const command = new Command('push')
    .description('publish a directory or an archive through a daemon, and wait for what comes of it')
    .argument('<bundle>', 'a directory, packed as by waybill pack, or a tar or tar.gz')
    .addOption(pipelineOption());
  return withBundleOptions(
    withRemoteOptions(command)
      .option('--no-wait', 'end once the daemon has taken the bundle')
      .option('--timeout <duration>', 'how long to wait for the run, like 10m (default: until it ends)')
      .option(
        '--channel <name>',
        'publish to this channel of the destinations that have it, for those who follow it',
      )
      .option('--message <text>', 'one line about this version, kept in the record of the run')
      .option('--no-git', 'do not send commit, branch and author of git or CI')
      .option('--again', 'publish once more what the daemon remembers to have published')
      .addOption(
        new Option('--resumable <when>', 'send the archive in several requests, and go on after a cut')
          .choices(['auto', 'always', 'never'])
          .default('auto', 'auto: over 16 MiB, where the daemon can'),
      )
      .option('--chunk-size <size>', 'what one of these requests may have (default: 8MiB)')
      .option('--whole', 'send every file, also those that the daemon has')
      .option('--dry-run', 'show what publishing it would do, publish nothing'),
  )
    .addOption(formatOption())
    .addHelpText(
      'after',
      `
The token comes from WAYBILL_TOKEN or --token-file. What may pass is tried
again; any number of tries publish once. docs/producers.md

Examples:
  waybill push ./site --to https://publish.example.org --pipeline handbook
  waybill push ./site --to https://publish.example.org --dry-run

Exit codes: 0 the run succeeded, 1 it failed, 2 wrong token, pipeline, URL or
certificate.`,
    )
    .action(async (bundle: string, options: PushFlags) =>
      exitWith((await import('./push.ts')).push(bundle, options)),
    );
}
