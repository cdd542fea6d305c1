import { Command } from 'commander';
import { exitWith, formatOption } from '../../setup/command-options.ts';
import { withRemoteOptions } from '../../setup/remote-options.ts';
import type { PipelinesFlags } from './pipelines.ts';

export function pipelinesCommand(): Command {
  return withRemoteOptions(
    new Command('pipelines').description(
      'the pipelines of a daemon that the token is for, and how they stand',
    ),
  )
    .addOption(formatOption())
    .action(async (flags: PipelinesFlags) => exitWith((await import('./pipelines.ts')).showPipelines(flags)));
}
