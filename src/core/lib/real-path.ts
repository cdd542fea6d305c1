import { existsSync, realpathSync } from 'node:fs';
import path from 'node:path';

/** Resolves the symbolic links in an absolute path. The end of the path may not exist yet. */
export function realPath(target: string): string {
  if (existsSync(target)) return realpathSync(target);
  const parent = path.dirname(target);
  return parent === target ? target : path.join(realPath(parent), path.basename(target));
}
