import { Option, type Command } from 'commander';
import { collect, linksOption } from './command-options.ts';

/** What a new manifest says, as commander parses it. */
export interface BundleFlags {
  name?: string;
  created?: string;
  metadata?: string[];
  include?: string[];
  exclude?: string[];
  links?: 'refuse' | 'skip';
  sceneMap?: string[];
  renew: boolean;
}

/** The options of commands that make a bundle of a directory. */
export function withBundleOptions(command: Command): Command {
  return command
    .option(
      '--name <path>',
      "the bundle's relative path, below which it is published (default: the name of the directory)",
    )
    .option('--created <time>', 'when it was made: RFC 3339, or now (default: the newest file)')
    .addOption(
      new Option('--include <pattern>', 'only these files, as .gitignore names them (again)').argParser(
        collect,
      ),
    )
    .addOption(
      new Option('--exclude <pattern>', 'not these files, as .gitignore names them (again)').argParser(
        collect,
      ),
    )
    .addOption(linksOption())
    .addOption(
      new Option('--scene-map <pattern>', 'these files are session scene maps (again)').argParser(collect),
    )
    .addOption(
      new Option('--metadata <key=value>', 'into the metadata of the manifest (again)').argParser(collect),
    )
    .option('--renew', 'make the manifest anew where there is one');
}
