import type { Command } from 'commander';
import { exitWith, formatOption, verboseCommand } from '../../setup/command-options.ts';
import type { ValidateOptions } from './validate.ts';

export function validateCommand(): Command {
  return verboseCommand('validate', 'check a bundle, or every bundle of a configured source')
    .argument('[bundle_path]', 'directory of a bundle')
    .option('-c, --config <file>', 'configuration file (YAML)')
    .option('-p, --pipeline <id>', 'pipeline whose source is checked')
    .option(
      '--listing-only',
      'a quick look at a source on SFTP or S3: its manifests, scene maps and listing, not the bytes of its files',
    )
    .addOption(formatOption())
    .action(async (bundlePath: string | undefined, options: ValidateOptions) =>
      exitWith((await import('./validate.ts')).validate(bundlePath, options)),
    );
}
