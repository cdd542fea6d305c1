import { Command } from 'commander';
import { withBundleOptions } from '../../setup/bundle-options.ts';
import { exitWith, formatOption } from '../../setup/command-options.ts';
import type { PackFlags } from './pack.ts';

export function packCommand(): Command {
  const command = new Command('pack')
    .description('make a bundle of a directory: its manifest, and an archive to upload')
    .argument('<directory>', 'the files of the bundle')
    .option('-o, --output <file>', 'the archive; - for standard output (default: DIRECTORY.tar.gz)')
    .option('--manifest-only', 'write manifest.json into the directory, or check it, and no archive');
  return withBundleOptions(command)
    .addOption(formatOption())
    .addHelpText(
      'after',
      `
An existing manifest.json is checked against every byte and used as it is.
Without one, it is made in the archive. The same files make the same bytes, on
every machine. docs/producers.md

Examples:
  waybill pack ./site
  waybill pack ./site --manifest-only`,
    )
    .action(async (directory: string, options: PackFlags) =>
      exitWith((await import('./pack.ts')).pack(directory, options)),
    );
}
