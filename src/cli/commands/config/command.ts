import { Command } from 'commander';
import { configOption, exitWith, formatOption } from '../../command-options.ts';
import type { CheckOptions } from './config-check.ts';

export function configCommand(): Command {
  const group = new Command('config').description('look at configuration files');
  group
    .command('check')
    .description('check a configuration file and its secrets directory, and tell everything that is wrong')
    .addOption(configOption())
    .addOption(formatOption())
    .action(async (options: CheckOptions) =>
      exitWith((await import('./config-check.ts')).checkConfig(options)),
    );
  group
    .command('schema')
    .description('print the JSON Schema of the configuration, for editors')
    .action(async () => exitWith((await import('./config-check.ts')).printSchema()));
  return group;
}
