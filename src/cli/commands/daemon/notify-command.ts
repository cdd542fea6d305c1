import { Command } from 'commander';
import { collect, configOption, exitWith, formatOption } from '../../setup/command-options.ts';
import type { NotifyTestOptions } from './notify-test.ts';
import type { UndeliveredOptions } from './undelivered.ts';

const undeliveredHelp = `
The daemon keeps events that could not be delivered, at most 1,000 for each
notifier. It is asked at server.http.listen, with the token of
server.admin_token_env. --notifier also takes one that is no longer configured.`;

const redeliverHelp = `
Asks the daemon at server.http.listen, with the token of
server.admin_token_env, to send the undelivered events again: in the order in
which they happened, each with the id that it had. Delivered events are removed.

Exit codes: 0 all delivered, 1 some are left, 2 usage, configuration or
secrets.`;

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
  withDaemon(group.command('undelivered'))
    .description('list the events that the daemon has given up')
    .addHelpText('after', undeliveredHelp)
    .action(async (options: UndeliveredOptions) =>
      exitWith((await import('./undelivered.ts')).listUndelivered(options)),
    );
  withDaemon(group.command('redeliver'))
    .description('send the events again that the daemon has given up')
    .addHelpText('after', redeliverHelp)
    .action(async (options: UndeliveredOptions) =>
      exitWith((await import('./undelivered.ts')).redeliverAll(options)),
    );
  return group;
}

function withDaemon(command: Command): Command {
  return command
    .addOption(configOption())
    .option('-n, --notifier <id>', 'only this notifier (may be given again)', collect)
    .option('--url <url>', 'base URL of the daemon (default: from server.http of the file)')
    .addOption(formatOption());
}
