import { Command, Option } from 'commander';
import {
  collect,
  configOption,
  destinationOption,
  exitWith,
  formatOption,
  pipelineOption,
  verboseCommand,
} from '../../setup/command-options.ts';
import type { ShowAuditOptions, VerifyAuditOptions } from './audit.ts';
import type { InspectOptions } from './inspect.ts';
import type { PruneOptions } from './prune.ts';
import type { ReconcileOptions } from './reconcile-state.ts';
import type { VerifyOptions } from './verify.ts';

export function inspectCommand(): Command {
  return verboseCommand('inspect', 'show the bundles of a source and the state of its destinations')
    .addOption(configOption())
    .addOption(pipelineOption())
    .option(
      '--probe',
      'test source and destinations: latency, clock, permissions, rename, conditional writes; writes and removes one small file at each destination',
    )
    .addOption(formatOption())
    .action(async (options: InspectOptions) => exitWith((await import('./inspect.ts')).inspect(options)));
}

export function verifyCommand(): Command {
  return verboseCommand('verify', 'read published outputs and compare them with the catalog')
    .argument('[destination...]', 'with --signatures: path, sftp://… or s3://… instead of --config')
    .option('-c, --config <file>', 'configuration file (YAML)')
    .option(
      '--signatures <key>',
      'compare outputs and catalog with the signatures of this public key; see docs/signatures.md',
    )
    .option('-p, --pipeline <id>', 'only this pipeline (repeatable)', collect)
    .option('-d, --destination <id>', 'only destinations with this id (repeatable)', collect)
    .option('--subset <k/n>', 'read only part k of n; the n parts together cover all outputs')
    .option(
      '--repair',
      'restore missing or changed outputs from the source, or from another destination of the pipeline',
    )
    .option('--dry-run', 'with --repair: show the repairs without making them')
    .addOption(formatOption())
    .action(async (places: string[], options: VerifyOptions) =>
      exitWith((await import('./verify.ts')).verifyDestinations(places, options)),
    );
}

export function reconcileStateCommand(): Command {
  return verboseCommand(
    'reconcile-state',
    'remove records of missing outputs from a catalog; deletes no files',
  )
    .addOption(configOption())
    .addOption(pipelineOption())
    .addOption(destinationOption())
    .option('--dry-run', 'report findings without repairing them')
    .option('--all-owners', 'repair records of every owner, not only of this pipeline and destination')
    .addOption(formatOption())
    .action(async (options: ReconcileOptions) =>
      exitWith((await import('./reconcile-state.ts')).reconcileState(options)),
    );
}

export function pruneCommand(): Command {
  return verboseCommand('prune', 'remove old outputs according to retention.prune of a destination')
    .addOption(configOption())
    .addOption(pipelineOption())
    .addOption(destinationOption())
    .addOption(new Option('--dry-run', 'list the removals without making them').conflicts('apply'))
    .addOption(new Option('--apply', 'remove the outputs').conflicts('dryRun'))
    .option('--allow-removals', 'allow more removals than limits.max_removed')
    .addOption(formatOption())
    .action(async (options: PruneOptions) =>
      exitWith((await import('./prune.ts')).pruneDestination(options)),
    );
}

export function auditCommand(): Command {
  const group = new Command('audit').description(
    'show the audit trail of this machine, and verify its chain',
  );
  trailCommand(group, 'show', 'show the newest matching records, oldest first')
    .option('--since <time>', 'only records since then: 1h, 7d or an RFC 3339 time')
    .option('-p, --pipeline <id>', 'only records about this pipeline (repeatable)', collect)
    .option('--actor <id>', 'only records of this token or user')
    .option('--act <act>', 'only records of this act, such as upload or release.rollback')
    .option('--limit <count>', 'maximum number of records', '100')
    .action(async (options: ShowAuditOptions) => exitWith((await import('./audit.ts')).showAudit(options)));
  trailCommand(group, 'verify', 'verify that no record was edited, removed, reordered or cut off')
    .option('--partial', 'start with the first existing file; earlier files are archived')
    .option('--contains <record>', 'also require this record, which an earlier verify printed')
    .addHelpText('after', `\nExit codes: 0 whole, 1 something is wrong, 2 usage or configuration.`)
    .action(async (options: VerifyAuditOptions) =>
      exitWith((await import('./audit.ts')).verifyAudit(options)),
    );
  return group;
}

function trailCommand(group: Command, name: string, description: string): Command {
  const command = new Command(name)
    .description(description)
    .option('-c, --config <file>', 'configuration file (YAML) with the setting audit')
    .option('--directory <directory>', 'directory of a trail, such as a copy; instead of --config')
    .addOption(formatOption());
  group.addCommand(command);
  return command;
}
