import { spawn } from 'node:child_process';
import { once } from 'node:events';

/** The code blocks of a language in a Markdown text, in order. */
export function blocksOf(markdown: string, language: string): string[] {
  return [...markdown.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map(
    ([, text = '']) => text,
  );
}

/** Runs a script as if pasted, and ends at the first command that fails. The output has both streams. */
export async function bash(
  script: string,
  {
    onOutput = () => undefined,
    ...options
  }: { cwd: string; env?: NodeJS.ProcessEnv; onOutput?: (text: string) => void },
): Promise<{ status: unknown; output: string }> {
  const child = spawn('bash', ['-e', '-o', 'pipefail', '-c', script], {
    ...options,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      onOutput(chunk.toString());
    });
  const [status] = (await once(child, 'close')) as unknown[];
  return { status, output };
}
