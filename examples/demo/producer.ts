/**
 * What a producer of bundles does: pack, upload, and see what became of it. Nothing here is waybill's own
 * code.
 */
import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { create } from 'tar';

export interface PackedBundle {
  archive: string;
  /** Bytes. */
  size: number;
  files: { path: string; kind: string; size: number }[];
}

/** Packs a directory with a manifest as a tar.gz. */
export async function pack(directory: string, archive: string): Promise<PackedBundle> {
  await create({ gzip: true, portable: true, cwd: directory, file: archive }, await readdir(directory));
  const manifest = JSON.parse(await readFile(path.join(directory, 'manifest.json'), 'utf8')) as {
    files: { path: string; kind?: string; size: number }[];
  };
  const files = manifest.files.map(({ kind = 'file', ...file }) => ({ ...file, kind }));
  return { archive, size: (await stat(archive)).size, files };
}

export interface Upload {
  url: string;
  token: string;
  archive: string;
}

/** Uploads an archive and returns the run's id. Throws with the daemon's own words where it is refused. */
export async function upload({ url, token, archive }: Upload, signal: AbortSignal): Promise<string> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/gzip' },
    body: await readFile(archive),
    signal,
  });
  const text = await response.text();
  if (response.status !== 202) throw new Error(`the upload was answered with ${response.status}: ${text}`);
  return (JSON.parse(text) as { run_id: string }).run_id;
}

/** The same as a line for a shell. */
export function uploadWithCurl({ url, token, archive }: Upload): string[] {
  return [
    `curl --data-binary @${shellWord(archive)} \\`,
    `  -H 'Authorization: Bearer ${token}' -H 'Content-Type: application/gzip' \\`,
    `  ${url}`,
  ];
}

export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

export interface RunRecord {
  status: string;
  destinations: {
    destination_id: string;
    action: string;
    destination_path: string | null;
    outputs_written: number;
    outputs_kept: number;
    error: { message: string } | null;
  }[];
  error: { message: string } | null;
}

const pollEveryMs = 50;

/** The record of a run once it is over. */
export async function follow(url: string, signal: AbortSignal): Promise<RunRecord> {
  for (;;) {
    const response = await fetch(url, { signal });
    const record = (await response.json()) as RunRecord;
    if (record.status === 'succeeded' || record.status === 'failed') return record;
    await sleep(pollEveryMs, undefined, { signal });
  }
}
