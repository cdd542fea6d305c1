import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { systemClock } from '../../src/core/lib/clock.ts';
import type { ConsoleDaemon } from './console-daemon.ts';
import { consoleTokens } from './console-daemon.ts';
import { past } from './past.ts';

/** A run at a time in the past. */
export interface EarlierRun {
  hoursAgo: number;
  start: () => Promise<unknown>;
  /** See `past`. */
  pace?: number;
}

/** Starts the runs in the order of their times, because lists show runs in the order of acceptance. */
export async function startInOrder(runs: readonly EarlierRun[]): Promise<void> {
  for (const { hoursAgo, start, pace } of [...runs].sort((a, b) => b.hoursAgo - a.hoursAgo))
    await past(60 * hoursAgo, start, pace);
}

/** The files of a bundle of one day: a page, a drawing and a note. */
export function sessionFiles(day: number): Record<string, string> {
  const text = (words: string, count: number): string => `${words}\n`.repeat(count);
  return {
    'index.html': `<!doctype html>\n<title>Day ${day}</title>\n${text('<p>The harbor at noon.</p>', 70 + 9 * day)}`,
    'maps/harbor.svg': `<svg xmlns="http://www.w3.org/2000/svg">\n${text('<path d="M4 8h15v15"/>', 460 + 31 * day)}</svg>\n`,
    [`notes/day-${day}.txt`]: text(`Day ${day}: the tide was high at noon.`, 30 + 13 * (day % 4)),
  };
}

/** The time at which a bundle was made that is uploaded now, for `created`. */
export function justNow(): string {
  return new Date(systemClock.now().getTime() - 140_000).toISOString();
}

/** Uploads of the days before, one of which failed, and a pipeline whose runs succeeded until yesterday. */
export function earlierRuns(console: ConsoleDaemon): EarlierRun[] {
  const [web, full] = ['web', 'full'].map((name) => path.join(console.root, 'public', name)) as [
    string,
    string,
  ];
  const unmanaged = path.join(web, 'session-13');
  const uploads = [219, 196, 171, 147, 122, 97].map((hoursAgo, index) => ({
    hoursAgo,
    start: async () => {
      const isFailing = index === 3;
      if (isFailing) putUnmanagedFile(unmanaged);
      await console.publish(sessionFiles(index + 1), {
        ...{ created: justNow(), token: consoleTokens.ci },
        name: isFailing ? 'session-13' : `session-${11 + (index % 2)}`,
      });
      if (isFailing) rmSync(unmanaged, { recursive: true });
    },
  }));
  const succeeding = [170, 146, 121, 98, 73, 49].map((hoursAgo, index) => ({
    hoursAgo,
    start: () => {
      if (index === 0) rmSync(path.join(full, 'index.html'));
      return console.start('blocked');
    },
  }));
  const failing = {
    hoursAgo: 26,
    start: () => {
      // A copy from a backup has no catalog.
      rmSync(full, { recursive: true });
      putUnmanagedFile(full);
      return console.start('blocked');
    },
  };
  // The first run also starts a thread.
  const first = { hoursAgo: 243, start: () => console.start('library'), pace: 4 };
  return [first, ...uploads, ...succeeding, failing];
}

function putUnmanagedFile(directory: string): void {
  mkdirSync(directory);
  writeFileSync(path.join(directory, 'index.html'), 'an unmanaged file');
}

/** Changes the source of `library` after its last run: adds a bundle, and changes a file of another one. */
export function changeLibrary({ root }: ConsoleDaemon): void {
  const [old, added] = ['session-41', 'session-43'].map((name) => path.join(root, 'library', name)) as [
    string,
    string,
  ];
  cpSync(old, added, { recursive: true });
  const manifest = path.join(added, 'manifest.json');
  writeFileSync(manifest, readFileSync(manifest, 'utf8').replace('session-41', 'session-43'));
  writeFileSync(path.join(old, 'notes/recap.txt'), 'The recap, corrected.\n');
}
