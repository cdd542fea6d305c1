import { Option, type Command } from 'commander';

/** Where the daemon is and who calls, as commander parses it. */
export interface RemoteFlags {
  to: string;
  tokenFile?: string;
}

/** The options of commands that call a daemon. */
export function withRemoteOptions(command: Command): Command {
  return command
    .addOption(new Option('--to <url>', 'the daemon, with its base path').makeOptionMandatory())
    .option('--token-file <file>', 'file that holds the token (default: the variable WAYBILL_TOKEN)');
}
