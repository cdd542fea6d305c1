import type { Command } from 'commander';
import {
  configOption,
  destinationOption,
  exitWith,
  formatOption,
  pipelineOption,
  verboseCommand,
} from '../../setup/command-options.ts';
import type { ReconcileOptions } from './reconcile-state.ts';

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
