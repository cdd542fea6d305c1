import type { Command } from 'commander';
import {
  configOption,
  exitWith,
  formatOption,
  pipelineOption,
  verboseCommand,
} from '../../setup/command-options.ts';
import type { InspectOptions } from './inspect.ts';

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
