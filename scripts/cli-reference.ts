import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import type { Command } from 'commander';
import { makeProgram } from '../src/cli/program.ts';
import { bundlePrograms } from './support/bundle-programs.ts';

/** Returns all commands that can be run, as lists of words. Leaves out groups such as `runs`. */
function commandsOf(command: Command): string[][] {
  const isProgram = command.parent === null;
  const below = command
    .createHelp()
    .visibleCommands(command)
    .filter((each) => each.name() !== 'help');
  const acts = !isProgram && (below.length === 0 || command.options.length > 0);
  return [...(acts ? [wordsOf(command)] : []), ...below.flatMap(commandsOf)];
}

function wordsOf(command: Command): string[] {
  return command.parent === null ? [] : [...wordsOf(command.parent), command.name()];
}

/** Generates the reference in `docs/cli.md` from the `--help` of each command. */
export async function cliReference(): Promise<string> {
  mkdirSync('.tap', { recursive: true });
  // Must be inside the project, or the bundle will not find its packages.
  const directory = mkdtempSync('.tap/cli-');
  try {
    const main = 'src/cli/main.ts';
    const program = (await bundlePrograms([main], directory))(main);
    return commandsOf(makeProgram())
      .map((command) => `### \`waybill ${command.join(' ')}\`\n\n\`\`\`\n${help(program, command)}\`\`\`\n`)
      .join('\n');
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function help(program: string, command: string[]): string {
  const { stdout, status, stderr } = spawnSync(process.execPath, [program, ...command, '--help'], {
    encoding: 'utf8',
    env: { ...process.env, COLUMNS: '100', NO_COLOR: '1' },
  });
  if (status !== 0) throw new Error(stderr);
  return stdout;
}

const begin = '<!-- made by `npm run generate` -->';

/** Replaces the reference at the end of the page. Everything before it is written by hand. */
export async function withCliReference(page: string): Promise<string> {
  const [written] = page.split(begin);
  return `${written}${begin}\n\n${await cliReference()}`;
}
