import { Command, InvalidArgumentError, Option } from 'commander';
import {
  collect,
  exitWith,
  formatOption,
  pipelineOption,
  withBundleOptions,
  withRemoteOptions,
  withSigningOptions,
} from '../../setup/command-options.ts';
import type { PushFlags } from './push.ts';
import type { FollowFlags, ListFlags, PipelinesFlags, RerunFlags, RunFlags } from './runs.ts';

export function pushCommand(): Command {
  const command = new Command('push')
    .description('publish a directory or an archive through a daemon, and wait for what comes of it')
    .argument('<bundle>', 'a directory, packed as by waybill pack, or a tar or tar.gz')
    .addOption(pipelineOption());
  return withSigningOptions(
    withBundleOptions(
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
    ),
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

export function runsCommand(): Command {
  const command = new Command('runs').description(
    "a daemon's runs: list, show, follow, cancel, retry and repeat them",
  );
  subcommand(command, 'list', 'runs of the pipelines of the token, newest first')
    .option('-p, --pipeline <id>', 'only runs of this pipeline (may be given again)', collect)
    .addOption(
      new Option('--status <status>', 'only runs of this status').choices([
        'accepted',
        'queued',
        'running',
        'succeeded',
        'failed',
      ]),
    )
    .option('--since <time>', 'only runs that were accepted at this time or later: RFC 3339')
    .option('--search <words>', 'only runs in whose record each of these words occurs')
    .addOption(new Option('--limit <number>', 'at most so many').argParser(wholeNumber).default(20))
    .action(async (flags: ListFlags) => exitWith((await import('./runs.ts')).listRuns(flags)));
  subcommand(command, 'show', 'the record of one run')
    .argument('<run_id>', 'id of the run')
    .action(async (id: string, flags: RunFlags) => exitWith((await import('./runs.ts')).showRun(id, flags)));
  subcommand(command, 'follow', 'what becomes of a run, or of all runs, as it happens')
    .argument('[run_id]', 'id of the run; without one: all runs, until SIGINT')
    .option('-p, --pipeline <id>', 'only runs of this pipeline (may be given again)', collect)
    .action(async (id: string | undefined, flags: FollowFlags) =>
      exitWith((await import('./runs.ts')).followRuns(id, flags)),
    );
  subcommand(command, 'cancel', 'cancel a run that waits or runs, and wait for its end')
    .argument('<run_id>', 'id of the run')
    .action(async (id: string, flags: RunFlags) =>
      exitWith((await import('./runs.ts')).cancelRun(id, flags)),
    );
  subcommand(command, 'retry', 'try a run now that waits for its next try, and wait for its end')
    .argument('<run_id>', 'id of the run')
    .option('--no-wait', 'end once the daemon has the request')
    .option('--timeout <duration>', 'how long to wait for the run, like 10m (default: until it ends)')
    .action(async (id: string, flags: RerunFlags) =>
      exitWith((await import('./runs.ts')).retryRun(id, flags)),
    );
  subcommand(
    command,
    'rerun',
    'repeat a run that has ended, without sending its bundle again, and wait for it',
  )
    .argument('<run_id>', 'id of the run')
    .option('--no-wait', 'end once the daemon has taken the new run')
    .option('--timeout <duration>', 'how long to wait for the run, like 10m (default: until it ends)')
    .addHelpText(
      'after',
      `
The daemon publishes the bundle that it still has of the run, or reads the source of the pipeline again.
Any number of tries make one run. Exit codes: 0 the new run succeeded, 1 it failed, 2 wrong token or URL.`,
    )
    .action(async (id: string, flags: RerunFlags) => exitWith((await import('./runs.ts')).rerun(id, flags)));
  return command;
}

function subcommand(parent: Command, name: string, description: string): Command {
  return withRemoteOptions(parent.command(name).description(description)).addOption(formatOption());
}

function wholeNumber(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new InvalidArgumentError('It is a number from 1 to 999999.');
  return Number(text);
}

export function pipelinesCommand(): Command {
  return withRemoteOptions(
    new Command('pipelines').description(
      'the pipelines of a daemon that the token is for, and how they stand',
    ),
  )
    .addOption(formatOption())
    .action(async (flags: PipelinesFlags) => exitWith((await import('./runs.ts')).showPipelines(flags)));
}
