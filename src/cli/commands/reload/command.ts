import { Command } from 'commander';
import { configOption, exitWith, formatOption } from '../../command-options.ts';
import type { ReloadOptions } from './reload.ts';

const help = `
Checks the file here first. Then it asks the daemon at server.http.listen, with the token of server.admin_token_env, to read its own file:
tokens, pipelines, notifiers, log and the secrets directory hold at once, and settings that need a restart are named. If anything is wrong,
the daemon goes on as it was, and everything that is wrong is told. Without a token, or for a worker: kill -HUP, or systemctl reload.`;

export function reloadCommand(): Command {
  return new Command('reload')
    .description('let the daemon read its configuration again')
    .addOption(configOption())
    .option('--url <url>', 'base URL of the daemon (default: from server.http of the file)')
    .addOption(formatOption())
    .addHelpText('after', help)
    .action(async (options: ReloadOptions) => exitWith((await import('./reload.ts')).reloadDaemon(options)));
}
