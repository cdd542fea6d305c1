import { spawnSync } from 'node:child_process';
import { createHash, randomInt } from 'node:crypto';

export interface SourceVersion {
  /** The id of the checked-out commit; null outside a Git clone. */
  commit: string | null;
  /** The short commit, with a digest of uncommitted changes if there are any. */
  label: string;
}

/** Identifies the sources of this run. */
export function sourceVersion(): SourceVersion {
  const commit = git('rev-parse', 'HEAD')?.trim() ?? null;
  if (commit === null) return { commit, label: 'no commit' };
  const changes = `${git('diff', 'HEAD') ?? ''}${git('ls-files', '--others', '--exclude-standard') ?? ''}`;
  const short = commit.slice(0, 10);
  if (changes === '') return { commit, label: short };
  return { commit, label: `${short}+${createHash('sha256').update(changes).digest('hex').slice(0, 6)}` };
}

/** The seed for drawing samples: each commit has its own, so that a series of commits covers all cases. */
export function seedOf(commit: string | null): number {
  return commit === null ? randomInt(1, 1_000_000) : Number.parseInt(commit.slice(0, 7), 16);
}

function git(...args: string[]): string | undefined {
  const { status, stdout } = spawnSync('git', args, { encoding: 'utf8', maxBuffer: 256 << 20 });
  return status === 0 ? stdout : undefined;
}
