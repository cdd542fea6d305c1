import { type Command, Option } from 'commander';
import {
  collect,
  configOption,
  destinationOption,
  exitWith,
  formatOption,
  pipelineOption,
  verboseCommand,
} from '../../setup/command-options.ts';
import type { InspectOptions } from './inspect.ts';
import type { PruneOptions } from './prune.ts';
import type { ReconcileOptions } from './reconcile-state.ts';
import type { VerifyOptions } from './verify.ts';

export function inspectCommand(): Command {
  return verboseCommand('inspect', 'show what a configured source holds and how its destinations stand')
    .addOption(configOption())
    .addOption(pipelineOption())
    .option(
      '--probe',
      'try what source and destinations can do: latency, clock, rights, rename, conditional writes; writes and removes one small file at each destination',
    )
    .addOption(formatOption())
    .action(async (options: InspectOptions) => exitWith((await import('./inspect.ts')).inspect(options)));
}

export function verifyCommand(): Command {
  return verboseCommand('verify', 'read published outputs again and hold them against the catalog')
    .argument('[destination...]', 'with --signatures: path, sftp://… or s3://… instead of --config')
    .option('-c, --config <file>', 'configuration file (YAML)')
    .option(
      '--signatures <key>',
      'compare them with what this public key signed instead, and the catalog too; docs/signatures.md',
    )
    .option('-p, --pipeline <id>', 'only this pipeline (may be given again)', collect)
    .option('-d, --destination <id>', 'only destinations of this name (may be given again)', collect)
    .option('--subset <k/n>', 'read only part k of n of the outputs; all n parts together are all outputs')
    .option(
      '--repair',
      'write again what is missing or different: from the source, or from another destination of the pipeline',
    )
    .option('--dry-run', 'with --repair: show what would be written, write nothing')
    .addOption(formatOption())
    .action(async (places: string[], options: VerifyOptions) =>
      exitWith((await import('./verify.ts')).verifyDestinations(places, options)),
    );
}

export function reconcileStateCommand(): Command {
  return verboseCommand(
    'reconcile-state',
    'remove the records of outputs that are gone from a catalog; deletes no file',
  )
    .addOption(configOption())
    .addOption(pipelineOption())
    .addOption(destinationOption())
    .option('--dry-run', 'tell what is missing, repair nothing')
    .option('--all-owners', 'repair the records of every owner, not only of this pipeline and destination')
    .addOption(formatOption())
    .action(async (options: ReconcileOptions) =>
      exitWith((await import('./reconcile-state.ts')).reconcileState(options)),
    );
}

export function pruneCommand(): Command {
  return verboseCommand(
    'prune',
    'remove old published outputs by the retention.prune policy of a destination',
  )
    .addOption(configOption())
    .addOption(pipelineOption())
    .addOption(destinationOption())
    .addOption(new Option('--dry-run', 'show what would go, delete nothing').conflicts('apply'))
    .addOption(new Option('--apply', 'delete what the policy says').conflicts('dryRun'))
    .option('--allow-removals', 'remove more than limits.max_removed allows')
    .addOption(formatOption())
    .action(async (options: PruneOptions) =>
      exitWith((await import('./prune.ts')).pruneDestination(options)),
    );
}
