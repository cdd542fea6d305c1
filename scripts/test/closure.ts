import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';

/** Returns a test file and all files in `test/` that it imports, directly or indirectly. */
export function closureOf(file: string): string[] {
  const seen = new Set<string>();
  const visit = (name: string): void => {
    if (seen.has(name) || !name.startsWith('test/') || !existsSync(name)) return;
    seen.add(name);
    for (const [, target = ''] of readFileSync(name, 'utf8').matchAll(/(?:from|import) ?\(?'(\.[^']+\.ts)'/g))
      visit(path.join(path.dirname(name), target));
  };
  visit(file);
  return [...seen];
}
