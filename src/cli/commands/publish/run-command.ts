import type { Command } from 'commander';
import { collect, configOption, exitWith, formatOption, verboseCommand } from '../../setup/command-options.ts';
import type { RunOptions } from './run-options.ts';

export function runCommand(): Command {
  return verboseCommand('run', 'publish what the sources hold to all destinations')
    .addOption(configOption())
    .option('-p, --pipeline <id>', 'only this pipeline (may be given again)', collect)
    .option('-d, --destination <id>', 'only destinations of this name (may be given again)', collect)
    .option('--dry-run', 'decide and print, write nothing at all')
    .option(
      '--force',
      'replace unmanaged content and unusable states: deletes everything below the destination bundle path',
    )
    .option('--allow-removals', 'remove more published outputs than limits.max_removed allows')
    .option(
      '--channel <name>',
      'publish to this channel of the destinations that have it; others, and what is current, stay as they are',
    )
    .option(
      '--retry-for <duration>',
      'try destinations again that failed for a passing cause, like 30m (default: one try)',
    )
    .option('-o, --out <file>', 'with --dry-run: write the plan to this file')
    .option('--plan <file>', 'carry out this plan, exactly; refused if anything changed since (plan_stale)')
    .addOption(formatOption())
    .addHelpText(
      'after',
      `
Examples:
  waybill run --config waybill.yml --dry-run
  waybill run --config waybill.yml --pipeline site

Exit codes: 0 published or nothing to do, 1 something failed, 2 usage,
configuration, secrets or a stale plan, 3 readers still have another release,
because the one that the source holds was rolled back.`,
    )
    .action(async (options: RunOptions) => exitWith((await import('./run.ts')).run(options)));
}
