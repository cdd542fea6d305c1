import type { Command } from 'commander';
import { collect, configOption, exitWith, formatOption, verboseCommand } from '../../command-options.ts';
import type { VerifyOptions } from './verify.ts';

export function verifyCommand(): Command {
  return verboseCommand('verify', 'read published outputs again and hold them against the catalog')
    .addOption(configOption())
    .option('-p, --pipeline <id>', 'only this pipeline (may be given again)', collect)
    .option('-d, --destination <id>', 'only destinations of this name (may be given again)', collect)
    .addOption(formatOption())
    .action(async (options: VerifyOptions) =>
      exitWith((await import('./verify.ts')).verifyDestinations(options)),
    );
}
