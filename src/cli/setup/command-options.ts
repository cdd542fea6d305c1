import { Command, Option } from 'commander';

/** Options that several commands share. Commands load this file to print their help: commander only. */

export const configOption = (): Option =>
  new Option('-c, --config <file>', 'configuration file (YAML)').makeOptionMandatory();

export const formatOption = (): Option =>
  new Option('--format <format>', 'how results are printed').choices(['text', 'json']).default('text');

export const linksOption = (): Option =>
  new Option('--links <policy>', 'symbolic links are an error, or left out (default: refuse)').choices([
    'refuse',
    'skip',
  ]);

export const pipelineOption = (): Option =>
  new Option('-p, --pipeline <id>', 'pipeline').makeOptionMandatory();

export const destinationOption = (): Option =>
  new Option('-d, --destination <id>', 'destination of the pipeline').makeOptionMandatory();

/** Collects the values of an option that may be given again. */
export const collect = (value: string, before: string[] | undefined): string[] => [...(before ?? []), value];

/** A command with `--verbose`, which most have. */
export function verboseCommand(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .option('--verbose', 'log every storage call to stderr, cut no list short');
}

/** Makes what a command returns the exit code of the process. */
export async function exitWith(code: Promise<number>): Promise<void> {
  process.exitCode = await code;
}
