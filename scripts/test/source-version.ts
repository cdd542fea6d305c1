import { spawnSync } from 'node:child_process';
import { createHash, randomInt } from 'node:crypto';

export interface SourceVersion {
  /** The commit that is checked out; null if this is not a Git clone. */
  commit: string | null;
  /** The short id of the commit. If there are uncommitted changes, this includes a hash of them. */
  label: string;
}

/** Returns the version of the sources that are tested. */
export function sourceVersion(): SourceVersion {
  const commit = git('rev-parse', 'HEAD')?.trim() ?? null;
  if (commit === null) return { commit, label: 'no commit' };
  const changes = `${git('diff', 'HEAD') ?? ''}${git('ls-files', '--others', '--exclude-standard') ?? ''}`;
  const short = commit.slice(0, 10);
  if (changes === '') return { commit, label: short };
  return { commit, label: `${short}+${createHash('sha256').update(changes).digest('hex').slice(0, 6)}` };
}

/**
 * Returns the seed for random samples. It is different for each commit, so all cases are covered eventually.
 */
export function seedOf(commit: string | null): number {
  return commit === null ? randomInt(1, 1_000_000) : Number.parseInt(commit.slice(0, 7), 16);
}

function git(...args: string[]): string | undefined {
  const { status, stdout } = spawnSync('git', args, { encoding: 'utf8', maxBuffer: 256 << 20 });
  return status === 0 ? stdout : undefined;
}
