import { Command } from 'commander';
import { configOption, exitWith, formatOption } from '../../setup/command-options.ts';
import type { ReloadOptions } from './reload.ts';

const help = `
Checks the file here first. Then it asks the daemon at server.http.listen, with
the token of server.admin_token_env, to read its own file. Tokens, pipelines,
notifiers, log and the secrets directory take effect immediately; settings that
need a restart are listed. If anything is wrong, the daemon keeps its current
configuration and every mistake is printed. Without a token, or for a worker:
kill -HUP, or systemctl reload.`;

export function reloadCommand(): Command {
  return new Command('reload')
    .description('let the daemon read its configuration again')
    .addOption(configOption())
    .option('--url <url>', 'base URL of the daemon (default: from server.http of the file)')
    .addOption(formatOption())
    .addHelpText('after', help)
    .action(async (options: ReloadOptions) => exitWith((await import('./reload.ts')).reloadDaemon(options)));
}
