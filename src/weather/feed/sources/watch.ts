import type { Clock } from '../../../core/lib/clock.ts';
import type { WatchConfig } from '../../../core/config/weather/feed.ts';
import type { Fed } from '../feed-document.ts';
import type { Target } from '../tables/target.ts';
import { feedFile, filesAt, stateOf } from './files.ts';

export interface LookOptions {
  /** What is there counts as settled. */
  settled?: boolean;
  signal?: AbortSignal;
}

/**
 * Loads what has settled since the last look, and returns what became of it. Throws `usage` where the
 * directory is away, and what the database throws; those files are loaded at the next look.
 */
export type Look = (target: Target, options?: LookOptions) => Promise<Fed[]>;

/**
 * Looks for files of a directory that are new or have changed, by listing it: that works on network drives,
 * and misses nothing that came while nobody watched. A file is loaded once it has stayed as it is for
 * `settleMs`, and again only when it has changed, whatever became of it.
 */
export function watchDirectory({ directory, settleMs }: WatchConfig, clock: Clock): Look {
  const seen = new Map<string, { state: string; since: number; isLoaded: boolean }>();
  return async (target, { settled = false, signal } = {}) => {
    const files = await filesAt(directory);
    const present = new Set(files);
    for (const file of seen.keys()) if (!present.has(file)) seen.delete(file);
    const fed: Fed[] = [];
    for (const file of files) {
      signal?.throwIfAborted();
      const state = await stateOf(file);
      if (state === null) continue;
      const now = clock.monotonic();
      const before = seen.get(file);
      const known = before?.state === state ? before : { state, since: now, isLoaded: false };
      seen.set(file, known);
      if (known.isLoaded || (!settled && now - known.since < settleMs)) continue;
      fed.push(await feedFile(target, file));
      known.isLoaded = true;
    }
    return fed;
  };
}
