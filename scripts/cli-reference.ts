import { spawnSync } from 'node:child_process';

const commands = [
  ['run'],
  ['validate'],
  ['inspect'],
  ['verify'],
  ['reconcile-state'],
  ['prune'],
  ['unpublish'],
  ['pack'],
  ['push'],
  ['runs', 'list'],
  ['runs', 'show'],
  ['runs', 'follow'],
  ['runs', 'cancel'],
  ['pipelines'],
  ['serve'],
  ['weather', 'feed'],
  ['notify', 'test'],
  ['config', 'check'],
  ['config', 'schema'],
];

/** The reference part of `docs/cli.md`: what each command's own --help says. */
export function cliReference(): string {
  return commands
    .map((command) => `### \`waybill ${command.join(' ')}\`\n\n\`\`\`\n${help(command)}\`\`\`\n`)
    .join('\n');
}

function help(command: string[]): string {
  const { stdout, status, stderr } = spawnSync(
    process.execPath,
    ['--import=tsx', 'src/cli/main.ts', ...command, '--help'],
    {
      encoding: 'utf8',
      env: { ...process.env, COLUMNS: '100', NO_COLOR: '1' },
    },
  );
  if (status !== 0) throw new Error(stderr);
  return stdout;
}

const begin = '<!-- made by `npm run generate` -->';

/** The hand-written page with its reference part, which ends the page, made anew. */
export function withCliReference(page: string): string {
  const [written] = page.split(begin);
  return `${written}${begin}\n\n${cliReference()}`;
}
