import { Command, InvalidArgumentError, Option } from 'commander';
import {
  collect,
  exitWith,
  formatOption,
  maxRateOption,
  pipelineOption,
  withBundleOptions,
  withRemoteOptions,
  withSigningOptions,
} from '../../setup/command-options.ts';
import type { PushFlags } from './push.ts';
import type { FollowFlags, ListFlags, PipelinesFlags, RerunFlags, RunFlags } from './runs.ts';

export function pushCommand(): Command {
  const command = new Command('push')
    .description('publish a directory or an archive through a daemon, and wait for the result')
    .argument('<bundle>', 'directory (packed like waybill pack does), tar or tar.gz')
    .addOption(pipelineOption());
  return withSigningOptions(
    withBundleOptions(
      withRemoteOptions(command)
        .option('--no-wait', 'exit once the daemon has accepted the bundle')
        .option(
          '--timeout <duration>',
          'maximum time to wait for the run, such as 10m (default: until it ends)',
        )
        .option('--channel <name>', 'publish to this channel at the destinations that define it')
        .option('--message <text>', 'one line about this version, kept in the run record')
        .option('--no-git', 'do not send commit, branch and author from git or CI')
        .option('--again', 'publish even if the daemon has already accepted this bundle')
        .option('--open', 'open the published URL in the browser')
        .addOption(
          new Option(
            '--resumable <when>',
            'send the archive in several requests, and resume after a lost connection',
          )
            .choices(['auto', 'always', 'never'])
            .default('auto', 'auto: over 16 MiB, if the daemon supports it'),
        )
        .option('--chunk-size <size>', 'size of one of these requests (default: 8MiB)')
        .addOption(maxRateOption())
        .option('--whole', 'send every file, including files that the daemon already has')
        .option('--dry-run', 'show the plan without publishing'),
    ),
  )
    .addOption(formatOption())
    .addHelpText(
      'after',
      `
The token comes from WAYBILL_TOKEN or --token-file. Otherwise a CI job exchanges
its ID token: GitHub Actions, GitLab, Buildkite, CircleCI, or WAYBILL_ID_TOKEN
and WAYBILL_ID_TOKEN_FILE. Temporary failures are retried, and retries publish
the bundle only once. See docs/producers.md.

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
    'list, show, follow, cancel, retry and rerun the runs of a daemon',
  );
  subcommand(command, 'list', 'list the runs of the pipelines of the token, newest first')
    .option('-p, --pipeline <id>', 'only runs of this pipeline (repeatable)', collect)
    .addOption(
      new Option('--status <status>', 'only runs with this status').choices([
        'accepted',
        'queued',
        'running',
        'succeeded',
        'failed',
      ]),
    )
    .option('--since <time>', 'only runs accepted at or after this time (a date or RFC 3339)')
    .option('--until <time>', 'only runs accepted at or before this time (a date or RFC 3339)')
    .option('--search <words>', 'only runs whose record contains all of these words')
    .addOption(new Option('--limit <number>', 'maximum number of runs').argParser(wholeNumber).default(20))
    .action(async (flags: ListFlags) => exitWith((await import('./runs.ts')).listRuns(flags)));
  subcommand(command, 'show', 'show the record of a run')
    .argument('<run_id>', 'id of the run')
    .action(async (id: string, flags: RunFlags) => exitWith((await import('./runs.ts')).showRun(id, flags)));
  subcommand(command, 'follow', 'follow a run, or all runs, until they end')
    .argument('[run_id]', 'id of the run; default: all runs, until SIGINT')
    .option('-p, --pipeline <id>', 'only runs of this pipeline (repeatable)', collect)
    .action(async (id: string | undefined, flags: FollowFlags) =>
      exitWith((await import('./runs.ts')).followRuns(id, flags)),
    );
  subcommand(command, 'cancel', 'cancel a waiting or active run, and wait until it has ended')
    .argument('<run_id>', 'id of the run')
    .action(async (id: string, flags: RunFlags) =>
      exitWith((await import('./runs.ts')).cancelRun(id, flags)),
    );
  subcommand(command, 'retry', 'retry a run now that waits for its next attempt, and wait until it has ended')
    .argument('<run_id>', 'id of the run')
    .option('--no-wait', 'exit once the daemon has the request')
    .option('--timeout <duration>', 'maximum time to wait for the run, such as 10m (default: until it ends)')
    .action(async (id: string, flags: RerunFlags) =>
      exitWith((await import('./runs.ts')).retryRun(id, flags)),
    );
  subcommand(
    command,
    'rerun',
    'repeat a finished run without sending its bundle again, and wait for the new run',
  )
    .argument('<run_id>', 'id of the run')
    .option('--no-wait', 'exit once the daemon has accepted the new run')
    .option('--timeout <duration>', 'maximum time to wait for the run, such as 10m (default: until it ends)')
    .addHelpText(
      'after',
      `
The daemon publishes the staged bundle of the run, or reads the source of the
pipeline again. Repeating the command starts no second run.

Exit codes: 0 the new run succeeded, 1 it failed, 2 wrong token or URL.`,
    )
    .action(async (id: string, flags: RerunFlags) => exitWith((await import('./runs.ts')).rerun(id, flags)));
  return command;
}

function subcommand(parent: Command, name: string, description: string): Command {
  return withRemoteOptions(parent.command(name).description(description)).addOption(formatOption());
}

function wholeNumber(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new InvalidArgumentError('Enter a number from 1 to 999999.');
  return Number(text);
}

export function pipelinesCommand(): Command {
  return withRemoteOptions(
    new Command('pipelines').description('list the pipelines of the token and their state'),
  )
    .addOption(formatOption())
    .action(async (flags: PipelinesFlags) => exitWith((await import('./runs.ts')).showPipelines(flags)));
}
