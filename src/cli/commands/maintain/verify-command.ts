import type { Command } from 'commander';
import { collect, configOption, exitWith, formatOption, verboseCommand } from '../../setup/command-options.ts';
import type { VerifyOptions } from './verify.ts';

export function verifyCommand(): Command {
  return verboseCommand('verify', 'read published outputs again and hold them against the catalog')
    .addOption(configOption())
    .option('-p, --pipeline <id>', 'only this pipeline (may be given again)', collect)
    .option('-d, --destination <id>', 'only destinations of this name (may be given again)', collect)
    .option('--subset <k/n>', 'read only part k of n of the outputs; all n parts together are all outputs')
    .option(
      '--repair',
      'write again what is missing or different: from the source, or from another destination of the pipeline',
    )
    .option('--dry-run', 'with --repair: show what would be written, write nothing')
    .addOption(formatOption())
    .action(async (options: VerifyOptions) =>
      exitWith((await import('./verify.ts')).verifyDestinations(options)),
    );
}
