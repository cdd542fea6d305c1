import {
  choice,
  choiceWithDefault,
  defaulted,
  described,
  flag,
  type Input,
  optional,
  required,
  rest,
} from '../../setup/command.ts';
import {
  allowRemovals,
  bundleInputs,
  config,
  destinationIfSeveral,
  exclude,
  forceConfirmed,
  format,
  include,
  links,
  maxRate,
  onlyDestinations,
  onlyPipelines,
  optionalConfig,
  pipelineIfSeveral,
  planOnly,
  verbose,
} from '../../setup/command-options.ts';
import { type SituationName, situations } from './situations.ts';

const whenToIndex = ['auto', 'always', 'never'] as const;

export const publishCommand = described({
  name: 'publish',
  about: 'publish a directory to destinations, without a configuration',
  signals: 'abort',
  inputs: {
    verbose,
    directory: required('<directory>', 'directory to publish'),
    destinations: rest('<destination...>', 'path, sftp://[user@]host[:port]/path or s3://bucket[/prefix]'),
    pipeline: optional('-p, --pipeline <id>', 'id in the catalog (default: the name of the directory)'),
    dryRun: planOnly,
    force: flag('--force', 'replace unmanaged content: deletes everything else there'),
    yes: forceConfirmed,
    releases: flag('--releases', 'publish as a new release, and make it current'),
    channel: optional(
      '--channel <name>',
      'with --releases: publish to this channel, and leave the current release',
    ),
    index: choiceWithDefault(
      '--index <when>',
      'generate index.html, a list of the files',
      whenToIndex,
      'auto',
      'auto: if the directory has no index.html',
    ),
    include,
    exclude,
    links,
    maxRate,
    url: optional('--url <url>', 'public URL of the destination'),
    channelUrl: optional('--channel-url <url>', 'public URL of the channel'),
    sshKey: optional('--ssh-key <file>', 'private key for SFTP (default: the SSH agent, or a key in ~/.ssh)'),
    open: flag('--open', 'open the published URL in the browser; needs --url'),
    save: optional('--save <file>', 'also write this configuration to a file'),
    format,
  },
  help: `Examples:
  waybill publish ./site sftp://deploy@web1/srv/www --dry-run
  waybill publish ./site 's3://bucket/site?endpoint=https://s3.example.org'

S3 URLs accept ?endpoint=URL, region=NAME and path_style=true. URLs must not
contain passwords: S3 credentials come from AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY, or the role of the machine; SSH keys from --ssh-key or
the SSH agent.

Exit codes: 0 published or nothing to do, 1 a destination failed, 2 usage,
3 another release stays current, because this one was rolled back.`,
});

const width = Math.max(...situations.map(({ name }) => name.length));
const list = situations.map(({ name, about }) => `  ${name.padEnd(width)}  ${about}`).join('\n');

const situation: Input<SituationName | undefined> = {
  flags: '[situation]',
  about: 'kind of configuration (default: directory if a site is found here, else uploads)',
  choices: situations.map(({ name }) => name),
};

export const initCommand = described({
  name: 'init',
  about: 'write a commented configuration to start with',
  inputs: {
    situation,
    out: defaulted('-o, --out <file>', 'file to write', 'waybill.yml'),
    systemd: optional('--systemd <file>', 'also write a systemd unit, such as waybill.service'),
    format,
  },
  help: `Situations:
${list}

A site is a directory named dist, build, out, public, _site or site with an
index.html. Existing files are not overwritten. With --systemd, paths are in
/var/lib/waybill, and secrets are credentials from /etc/waybill/secrets. See
docs/operations.md.`,
});

export const runCommand = described({
  name: 'run',
  about: 'publish the sources of all pipelines to their destinations',
  signals: 'abort',
  inputs: {
    verbose,
    config,
    pipeline: onlyPipelines,
    destination: onlyDestinations,
    dryRun: planOnly,
    force: flag(
      '--force',
      'replace unmanaged content and unusable catalogs: deletes everything else at the bundle path',
    ),
    allowRemovals,
    channel: optional('--channel <name>', 'publish to this channel at the destinations that define it'),
    retryFor: optional(
      '--retry-for <duration>',
      'how long to retry temporary failures, such as 30m (default: no retry)',
    ),
    maxRate: optional('--max-rate <rate>', 'maximum rate per destination (default: its max_rate)'),
    out: optional('-o, --out <file>', 'with --dry-run: write the plan to this file'),
    plan: optional('--plan <file>', 'carry out this plan; fails with plan_stale if anything has changed'),
    format,
  },
  help: `Example:
  waybill run --config waybill.yml --pipeline site --dry-run

Exit codes: 0 published or nothing to do, 1 something failed, 2 usage,
configuration, secrets or a stale plan, 3 another release stays current,
because the release of the source was rolled back.`,
});

export const promoteCommand = described({
  name: 'promote',
  about: 'publish what one destination has to another, without the source',
  signals: 'abort',
  inputs: {
    verbose,
    from: required('<from>', 'destination to read: id or PIPELINE/ID with --config, else a path or URL'),
    to: required('<to>', 'destination to publish to'),
    config: optional('-c, --config <file>', 'configuration file (YAML) that has both destinations'),
    pipeline: optional('-p, --pipeline <id>', 'pipeline that published there, if there are several'),
    path: optional('--path <path>', 'only this bundle path of <from>'),
    release: optional(
      '--release <release>',
      'id of a release of <from>, or a channel (default: the current one)',
    ),
    channel: optional('--channel <name>', 'publish to this channel of <to>, and leave its current release'),
    dryRun: planOnly,
    force: flag('--force', 'replace unmanaged content: deletes everything else at the bundle path'),
    yes: forceConfirmed,
    allowRemovals,
    releases: flag('--releases', 'without --config: publish as a new release'),
    index: choice('--index <when>', 'without --config: generate index.html (default: auto)', whenToIndex),
    url: optional('--url <url>', 'without --config: public URL of <to>'),
    channelUrl: optional('--channel-url <url>', 'without --config: public URL of the channel'),
    sshKey: optional('--ssh-key <file>', 'without --config: private key for SFTP'),
    format,
  },
  help: `Files that differ from the catalog of <from> are not published, nor is the rest
of their bundle. Generated files are made again for <to>. See docs/promote.md.

Examples:
  waybill promote site/staging archive/live --config waybill.yml
  waybill promote /srv/staging sftp://deploy@web1/srv/www

Exit codes: 0 published or nothing to do, 1 a destination failed, 2 usage,
configuration or secrets, 3 another release stays current, because this one was
rolled back.`,
});

export const unpublishCommand = described({
  name: 'unpublish',
  about: 'remove everything that a pipeline published at a bundle path',
  signals: 'abort',
  inputs: {
    verbose,
    path: required('<path>', 'bundle path at the destination; . is the root'),
    config,
    pipeline: pipelineIfSeveral,
    destination: destinationIfSeveral,
    layout: choice('--layout <layout>', 'layout to remove if the destination has both', [
      'in_place',
      'releases',
    ]),
    dryRun: flag('--dry-run', 'list the removals without making them'),
    allowRemovals,
    format,
  },
});

export const packCommand = described({
  name: 'pack',
  about: 'pack a directory as a bundle: a manifest and an archive to upload',
  inputs: {
    directory: required('<directory>', 'directory to pack'),
    output: optional(
      '-o, --output <file>',
      'archive to write; - is standard output (default: DIRECTORY.tar.gz)',
    ),
    manifestOnly: flag(
      '--manifest-only',
      'write or check manifest.json in the directory, without an archive',
    ),
    ...bundleInputs,
    format,
  },
  help: `An existing manifest.json is verified and used unchanged. The same files give
the same archive on every machine. See docs/producers.md.`,
});

export const validateCommand = described({
  name: 'validate',
  about: 'check a bundle, or all bundles of a configured source',
  inputs: {
    verbose,
    bundlePath: optional('[bundle_path]', 'directory of a bundle'),
    config: optionalConfig,
    pipeline: pipelineIfSeveral,
    listingOnly: flag('--listing-only', 'for SFTP and S3: check only manifests, scene maps and the listing'),
    format,
  },
});
