import {
  choice,
  choiceWithDefault,
  described,
  flag,
  optional,
  repeatable,
  required,
} from '../../setup/command.ts';
import {
  bundleInputs,
  format,
  limit,
  maxRate,
  periodForm,
  pipelineOfToken,
  remoteInputs,
  timeout,
} from '../../setup/command-options.ts';

export const pushCommand = described({
  name: 'push',
  about: 'publish a directory or an archive through a daemon, and wait for the result',
  signals: 'abort',
  inputs: {
    bundle: required('<bundle>', 'directory, tar or tar.gz'),
    pipeline: pipelineOfToken,
    ...remoteInputs,
    wait: flag('--no-wait', 'exit once the daemon has accepted the bundle'),
    timeout,
    channel: optional('--channel <name>', 'publish to this channel at the destinations that define it'),
    message: optional('--message <text>', 'one line about this version, for the run record'),
    git: flag('--no-git', 'do not send commit, branch and author from git or CI'),
    again: flag('--again', 'publish even if the daemon has already accepted this bundle'),
    open: flag('--open', 'open the published URL in the browser'),
    resumable: choiceWithDefault(
      '--resumable <when>',
      'send several requests, and resume after a lost connection',
      ['auto', 'always', 'never'],
      'auto',
      'auto: over 16 MiB, if the daemon supports it',
    ),
    chunkSize: optional('--chunk-size <size>', 'size of one of these requests (default: 8MiB)'),
    maxRate,
    whole: flag('--whole', 'send every file, including those that the daemon has'),
    dryRun: flag('--dry-run', 'show the plan without publishing'),
    ...bundleInputs,
    format,
  },
  help: `Without a token, a CI job exchanges its ID token: GitHub Actions, GitLab,
Buildkite, CircleCI, or WAYBILL_ID_TOKEN and WAYBILL_ID_TOKEN_FILE. Temporary
failures are retried; the bundle is published only once. See docs/producers.md.

Example:
  waybill push ./site --to https://publish.example.org -p handbook --dry-run

Exit codes: 0 the run succeeded, 1 it failed, 2 wrong token, pipeline, URL or
certificate.`,
});

const remote = { ...remoteInputs, format };
const ofOneRun = { ...remote, id: required('<run_id>', 'id of the run') };
const ofPipelines = repeatable('-p, --pipeline <id>', 'only runs of this pipeline (repeatable)');

export const listCommand = described({
  name: 'list',
  about: 'list the runs of the pipelines of the token, newest first',
  signals: 'abort',
  inputs: {
    ...remote,
    pipeline: ofPipelines,
    status: choice('--status <status>', 'only runs with this status', [
      'accepted',
      'queued',
      'running',
      'succeeded',
      'failed',
    ]),
    since: optional('--since <time>', `only runs accepted since then: ${periodForm}`),
    until: optional('--until <time>', 'only runs accepted until then'),
    search: optional('--search <words>', 'only runs whose record contains all of these words'),
    limit: limit('maximum number of runs', 20),
  },
});

export const startCommand = described({
  name: 'start',
  about: 'publish the source of a pipeline, and wait for the result',
  signals: 'abort',
  inputs: {
    pipeline: pipelineOfToken,
    ...remote,
    channel: optional('--channel <name>', 'publish to this channel at the destinations that define it'),
    wait: flag('--no-wait', 'exit once the daemon has accepted the run'),
    timeout,
  },
  help: `For pipelines that read a local, SFTP or S3 source. For others, use waybill
push.

Exit codes: 0 the run succeeded, 1 it failed, 2 wrong token, pipeline or URL.`,
});

export const showCommand = described({
  name: 'show',
  about: 'show the record of a run',
  signals: 'abort',
  inputs: ofOneRun,
});

export const followCommand = described({
  name: 'follow',
  about: 'follow a run, or all runs, until they end',
  signals: 'abort',
  onlyPrints: true,
  inputs: {
    ...remote,
    id: optional('[run_id]', 'id of the run; default: all runs, until SIGINT'),
    pipeline: ofPipelines,
  },
});

export const cancelCommand = described({
  name: 'cancel',
  about: 'cancel a run, and wait until it has ended',
  signals: 'abort',
  inputs: ofOneRun,
});

export const retryCommand = described({
  name: 'retry',
  about: 'retry a waiting run now, and wait until it has ended',
  signals: 'abort',
  inputs: { ...ofOneRun, wait: flag('--no-wait', 'exit once the daemon has the request'), timeout },
});

export const rerunCommand = described({
  name: 'rerun',
  about: 'repeat a finished run, and wait for the new run',
  signals: 'abort',
  inputs: { ...ofOneRun, wait: flag('--no-wait', 'exit once the daemon has accepted the new run'), timeout },
  help: `The daemon publishes the staged bundle of the run, or reads the source again.
Repeating the command starts no second run.

Exit codes: 0 the new run succeeded, 1 it failed, 2 wrong token or URL.`,
});

export const pipelinesCommand = described({
  name: 'pipelines',
  about: 'list the pipelines of the token and their state',
  signals: 'abort',
  inputs: remote,
});
