import { Option, type Command } from 'commander';
import {
  configOption,
  destinationOption,
  exitWith,
  formatOption,
  pipelineOption,
  verboseCommand,
} from '../../setup/command-options.ts';
import type { PruneOptions } from './prune.ts';

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
