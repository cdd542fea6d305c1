import { Command } from 'commander';
import { configOption, exitWith, formatOption } from '../../setup/command-options.ts';
import type { CheckOptions } from './config-check.ts';

export function configCommand(): Command {
  const group = new Command('config').description('look at configuration files');
  group
    .command('check')
    .description('check a configuration file and its secrets directory, and tell everything that is wrong')
    .addOption(configOption())
    .option(
      '--probe',
      'try all that it names: paths, SFTP and S3 servers (with small files that are removed again), Redis, databases, webhooks (connected to only), templates',
    )
    .addOption(formatOption())
    .action(async (options: CheckOptions) => {
      await exitWith((await import('./config-check.ts')).checkConfig(options));
      // What was given up still waits for its server, for minutes where that says nothing.
      if (options.probe) process.stdout.write('', () => process.exit());
    });
  group
    .command('schema')
    .description('print the JSON Schema of the configuration, for editors')
    .action(async () => exitWith((await import('./config-check.ts')).printSchema()));
  return group;
}
