import { Command } from 'commander';
import { collect, configOption, exitWith, formatOption } from '../../command-options.ts';
import type { NotifyTestOptions } from './notify-test.ts';

export function notifyCommand(): Command {
  const group = new Command('notify').description('look after notifiers');
  group
    .command('test')
    .description('send a test event to the notifiers, one try each, and tell how it went')
    .option('--verbose', 'log to stderr in detail')
    .addOption(configOption())
    .option('-n, --notifier <id>', 'only this notifier (may be given again)', collect)
    .addOption(formatOption())
    .action(async (options: NotifyTestOptions) =>
      exitWith((await import('./notify-test.ts')).notifyTest(options)),
    );
  return group;
}
