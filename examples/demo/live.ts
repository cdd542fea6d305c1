/**
 * A producer who goes on for as long as the demo stays, so that there is something to see in the console: a
 * bundle every few seconds, of which one file changes.
 */
import { cp, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pack, upload } from './producer.ts';

const everyMs = 8_000;
const changing = 'notes/recap.txt';

interface Manifest {
  name: string;
  created: string;
  files: { path: string; size?: number; digest?: string }[];
}

/** Uploads `bundle` again and again as the session of today, until `signal` aborts. Never rejects. */
export async function keepProducing(
  { bundle, directory, url, token }: { bundle: string; directory: string; url: string; token: string },
  signal: AbortSignal,
): Promise<void> {
  const copy = path.join(directory, 'session-today');
  const archive = path.join(directory, 'session-today.tar.gz');
  try {
    await cp(bundle, copy, { recursive: true });
    for (let take = 1; ; take++) {
      await sleep(everyMs, undefined, { signal });
      await change(copy, take);
      await pack(copy, archive);
      await upload({ url, token, archive }, signal);
    }
  } catch {
    // The demo or the daemon has ended. The console shows whether the upload was published.
  }
}

async function change(directory: string, take: number): Promise<void> {
  const file = path.join(directory, 'manifest.json');
  const manifest = JSON.parse(await readFile(file, 'utf8')) as Manifest;
  await writeFile(path.join(directory, changing), `take ${take}, at ${new Date().toISOString()}\n`);
  const files = manifest.files.map((one) => (one.path === changing ? { path: changing } : one));
  const created = new Date().toISOString();
  await writeFile(file, JSON.stringify({ ...manifest, name: 'session-today', created, files }, null, 2));
}
