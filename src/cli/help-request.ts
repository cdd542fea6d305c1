import type { Command } from 'commander';
import { nearest } from '../core/lib/text.ts';

/**
 * Returns the command line with `--help` instead of `help`: `waybill help releases list` and
 * `waybill releases help list` print the help of `waybill releases list`.
 */
export function withHelpOption(argv: readonly string[], program: Command): string[] {
  const [first = '', second, ...others] = argv;
  if (first === 'help') return [...argv.slice(1), '--help'];
  const group = program.commands.find((each) => each.name() === first);
  const isInGroup = second === 'help' && group !== undefined && group.commands.length > 0;
  return isInGroup ? [first, ...others, '--help'] : [...argv];
}

/**
 * Reports a usage error if help is requested for a command that does not exist. Commander would print the
 * general help, as if it had succeeded.
 */
export function refuseUnknownHelp(argv: readonly string[], program: Command): void {
  if (!argv.includes('--help') && !argv.includes('-h')) return;
  let command = program;
  for (const word of argv) {
    const { commands } = command;
    if (word.startsWith('-') || commands.length === 0) return;
    const below = commands.find((each) => each.name() === word);
    if (below === undefined && word !== 'help') {
      const guess = nearest(
        word,
        commands.map((each) => each.name()),
      );
      const suggestion = guess === undefined ? '' : `\n(Did you mean ${guess}?)`;
      command.error(`error: unknown command '${word}'${suggestion}`, { code: 'commander.unknownCommand' });
    }
    if (below === undefined) return;
    command = below;
  }
}
