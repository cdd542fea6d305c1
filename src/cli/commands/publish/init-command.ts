import { Argument, Command } from 'commander';
import { exitWith, formatOption } from '../../setup/command-options.ts';
import type { InitOptions } from './init.ts';
import { situations, type SituationName } from './situations.ts';

const width = Math.max(...situations.map(({ name }) => name.length));
const list = situations.map(({ name, about }) => `  ${name.padEnd(width)}  ${about}`).join('\n');

export function initCommand(): Command {
  return new Command('init')
    .description('write a configuration with comments, to begin with')
    .addArgument(
      new Argument('<situation>', 'the kind of source').choices(situations.map(({ name }) => name)),
    )
    .option('-o, --out <file>', 'where it is written', 'waybill.yml')
    .option('--systemd <file>', 'also write a systemd unit that runs it, e.g. waybill.service')
    .addOption(formatOption())
    .addHelpText(
      'after',
      `
Situations:
${list}

Nothing is overwritten. Paths are next to the file. With --systemd they are
below /var/lib/waybill, which the unit makes, and secrets are files in
/etc/waybill/secrets, which it passes on as credentials. docs/operations.md

Example:
  waybill init uploads --out waybill.yml`,
    )
    .action(async (situation: SituationName, options: InitOptions) =>
      exitWith((await import('./init.ts')).init(situation, options)),
    );
}
