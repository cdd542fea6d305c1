import { Option, type Command } from 'commander';
import {
  configOption,
  exitWith,
  formatOption,
  pipelineOption,
  verboseCommand,
} from '../../setup/command-options.ts';
import type { UnpublishOptions } from './unpublish.ts';

export function unpublishCommand(): Command {
  return verboseCommand('unpublish', 'remove all that a pipeline has published at one bundle path')
    .argument('<path>', 'bundle path at the destination; . for the root')
    .addOption(configOption())
    .addOption(pipelineOption())
    .addOption(new Option('-d, --destination <id>', 'destination of the pipeline, if it has more than one'))
    .addOption(
      new Option(
        '--layout <layout>',
        'what goes where a change of layout has left both, or refuse if that is not there',
      ).choices(['in_place', 'releases']),
    )
    .option('--dry-run', 'show what would go, remove nothing')
    .option('--allow-removals', 'remove more than limits.max_removed allows')
    .addOption(formatOption())
    .action(async (path: string, options: UnpublishOptions) =>
      exitWith((await import('./unpublish.ts')).unpublishBundlePath(path, options)),
    );
}
