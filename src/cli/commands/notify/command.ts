import { Command } from 'commander';
import { collect, configOption, exitWith, formatOption } from '../../command-options.ts';
import type { NotifyTestOptions } from './notify-test.ts';
import type { UndeliveredOptions } from './undelivered.ts';

const undeliveredHelp = `
The daemon keeps events that it has given up, at most 1,000 for each notifier. It is asked at server.http.listen, with the token of
server.admin_token_env. --notifier also takes one that is not configured any more.`;

const redeliverHelp = `
Asks the daemon at server.http.listen, with the token of server.admin_token_env, to send what it has given up again: in the order in which it
happened, each event with the id that it had. What is delivered is kept no more. Exit code 1 if anything is left.`;

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
