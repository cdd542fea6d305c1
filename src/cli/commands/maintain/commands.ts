import { described, flag, optional, repeatable, rest } from '../../setup/command.ts';
import {
  allowRemovals,
  config,
  destinationIfSeveral,
  format,
  limit,
  onlyDestinations,
  onlyPipelines,
  optionalConfig,
  periodForm,
  pipelineIfSeveral,
  verbose,
} from '../../setup/command-options.ts';

export const inspectCommand = described({
  name: 'inspect',
  about: 'show the bundles of a source and the state of its destinations',
  inputs: {
    verbose,
    config,
    pipeline: pipelineIfSeveral,
    probe: flag(
      '--probe',
      'test source and destinations: latency, clock, permissions, rename, conditional writes; writes and removes a small file',
    ),
    format,
  },
});

export const verifyCommand = described({
  name: 'verify',
  about: 'read published outputs and compare them with the catalog',
  signals: ({ repair, dryRun }) => (repair && !dryRun ? 'abort' : 'exit'),
  inputs: {
    verbose,
    places: rest('[destination...]', 'with --signatures: path, sftp://… or s3://… instead of --config'),
    config: optionalConfig,
    pipeline: onlyPipelines,
    destination: onlyDestinations,
    repair: flag('--repair', 'restore missing or changed outputs from the source or another destination'),
    dryRun: flag('--dry-run', 'with --repair: show the repairs without making them'),
    subset: optional('--subset <k/n>', 'read only part k of n'),
    signatures: optional(
      '--signatures <key>',
      'compare outputs and catalog with the signatures of this public key',
    ),
    format,
  },
});

export const reconcileStateCommand = described({
  name: 'reconcile-state',
  about: 'remove records of missing outputs from a catalog; deletes no files',
  signals: 'abort',
  inputs: {
    verbose,
    config,
    pipeline: pipelineIfSeveral,
    destination: destinationIfSeveral,
    dryRun: flag('--dry-run', 'report findings without repairing them'),
    allOwners: flag(
      '--all-owners',
      'repair records of every owner, not only of this pipeline and destination',
    ),
    format,
  },
});

export const pruneCommand = described({
  name: 'prune',
  about: 'remove old outputs according to retention.prune of a destination',
  signals: 'abort',
  inputs: {
    verbose,
    config,
    pipeline: pipelineIfSeveral,
    destination: destinationIfSeveral,
    dryRun: flag('--dry-run', 'list the removals without making them', 'apply'),
    apply: flag('--apply', 'remove the outputs', 'dryRun'),
    allowRemovals,
    format,
  },
});

const trail = {
  config: optional('-c, --config <file>', 'configuration file (YAML) with the setting audit'),
  directory: optional('--directory <directory>', 'directory of a trail, such as a copy; instead of --config'),
  format,
};

export const showAuditCommand = described({
  name: 'show',
  about: 'show the newest matching records, oldest first',
  inputs: {
    ...trail,
    since: optional('--since <time>', `only records since then: ${periodForm}`),
    pipeline: repeatable('-p, --pipeline <id>', 'only records about this pipeline (repeatable)'),
    actor: optional('--actor <id>', 'only records of this token or user'),
    act: optional('--act <act>', 'only records of this act, such as upload or release.rollback'),
    limit: limit('maximum number of records', 100),
  },
});

export const verifyAuditCommand = described({
  name: 'verify',
  about: 'verify that no record was edited, removed, reordered or cut off',
  inputs: {
    ...trail,
    partial: flag('--partial', 'start with the first existing file, if earlier ones are archived'),
    contains: optional('--contains <record>', 'also require this record, which an earlier verify printed'),
  },
  help: 'Exit codes: 0 whole, 1 something is wrong, 2 usage or configuration.',
});
