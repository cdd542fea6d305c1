import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ConsoleDaemon } from './console-daemon.ts';
import { consoleTokens } from './console-daemon.ts';
import { past } from './past.ts';

const hour = 60;

/** Uploads of the days before, one of which failed, and a pipeline whose runs succeeded until yesterday. */
export async function earlierRuns(console: ConsoleDaemon): Promise<void> {
  const [web, full] = ['web', 'full'].map((name) => path.join(console.root, 'public', name)) as [
    string,
    string,
  ];
  // The first run also starts a thread.
  await past(243 * hour, () => console.start('library'), 4);
  const unmanaged = path.join(web, 'session-2');
  for (const [index, hoursAgo] of [219, 196, 171, 147, 122, 97].entries()) {
    const isFailing = index === 3;
    if (isFailing) putUnmanagedFile(unmanaged);
    await past(hoursAgo * hour, () =>
      console.publish(
        { 'index.html': `draft ${index}`, [`notes/draft-${index}.txt`]: 'x'.repeat(700 + 400 * (index % 4)) },
        {
          ...{ created: `2026-11-1${index}T01:02:03Z`, token: consoleTokens.ci },
          name: isFailing ? 'session-2' : `session-${index % 2}`,
        },
      ),
    );
    if (isFailing) rmSync(unmanaged, { recursive: true });
  }
  rmSync(path.join(full, 'index.html'));
  for (const hoursAgo of [170, 146, 122, 98, 74, 50])
    await past(hoursAgo * hour, () => console.start('blocked'));
  // A copy from a backup has no catalog.
  rmSync(full, { recursive: true });
  putUnmanagedFile(full);
  await past(26 * hour, () => console.start('blocked'));
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
