import { createReadStream } from 'node:fs';
import { mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { claimDirectory, type ClaimedDirectory, claimLeft } from './claimed-directory.ts';
import type { NewPartialUpload, PartialOutcome, PartialUpload } from './partial-upload.ts';

/** This process's directory of partial uploads, which exists while it has any. */
export interface PartialPlace {
  /** Partial uploads of earlier processes. */
  left: readonly PartialUpload[];
  /**
   * Claims a directory if this process has none yet. Resolves with the partial uploads that an ended process
   * has left in it since the start.
   */
  claim(): Promise<{ files: PartialFiles; left: readonly PartialUpload[] }>;
  /** Files of the claimed directory. */
  files(): PartialFiles;
  /** Releases the directory, and removes it if it is empty. */
  close(): Promise<void>;
}

interface Claimed extends ClaimedDirectory {
  files: PartialFiles;
  left: readonly PartialUpload[];
}

/**
 * Claims the directory `partial` below `staging`, and moves the content of ended processes' directories into
 * it. In BullMQ mode several processes of a machine may share `staging`; each has a numbered directory.
 * Throws the system's error.
 */
export async function openPartialPlace(staging: string, clock: Pick<Clock, 'sleep'>): Promise<PartialPlace> {
  const request = { parent: staging, name: 'partial', clock };
  const taken = async (one: ClaimedDirectory): Promise<Claimed> => {
    const files = partialFiles(one.directory);
    try {
      return { ...one, files, left: await files.read() };
    } catch (error) {
      await one.release();
      throw error;
    }
  };
  const [first, ...others] = await claimLeft(request);
  for (const other of others) {
    await partialFiles((first as ClaimedDirectory).directory).takeOver(other.directory);
    await other.release();
  }
  let claimed = first === undefined ? null : await taken(first);
  let claiming: Promise<Claimed> | null = null;
  const current = (): Claimed | null => claimed;
  const files = (): PartialFiles => {
    if (claimed === null)
      throw new WaybillError('internal_error', 'the directory of partial uploads is missing');
    return claimed.files;
  };
  return {
    left: claimed?.left ?? [],
    files,
    claim: async () => {
      if (claimed !== null) return { files: claimed.files, left: [] };
      claiming ??= claimDirectory(request)
        .then(taken)
        .finally(() => (claiming = null));
      const fresh = await claiming;
      const left = fresh === current() ? [] : fresh.left;
      claimed = fresh;
      return { files: fresh.files, left };
    },
    close: async () => {
      await claiming?.catch(() => null);
      await claimed?.release();
    },
  };
}

/*
 * Each partial upload has two files: the record `<id>.json`, and the received bytes `<id>.bytes`. Neither is
 * synced. After a power failure, the manifest detects damaged bytes, as for every upload.
 */
const recordForm = /^([0-9a-z]{24})\.json$/;
const ownForm = /^[0-9a-z]{24}\.(json|json\.new|bytes)$/;

interface Recorded extends Omit<NewPartialUpload, 'partial' | 'channel'> {
  /** Absent in records of earlier versions, which had no such archives. */
  partial?: NewPartialUpload['partial'];
  /** As `partial`. */
  channel?: NewPartialUpload['channel'];
  /** Always 1; records with another version are refused. */
  version: number;
  outcome: PartialOutcome | null;
  /** RFC 3339. */
  writtenAt: string;
}

function recordOf(upload: PartialUpload): Recorded {
  const { pipelineId, caller, key, rerunFailed, channel, length, partial, maxBytes, metadata } = upload;
  const { outcome, touchedAt } = upload;
  const known = { pipelineId, caller, key, rerunFailed, channel, length, partial, maxBytes, metadata };
  return { version: 1, ...known, outcome, writtenAt: touchedAt.toISOString() };
}

/** The files of partial uploads in one directory of this process. */
interface PartialFiles {
  /** Reads the partial uploads of an earlier process. Removes unusable files. */
  read(): Promise<PartialUpload[]>;
  /** Moves the files of an earlier process from another directory to this one. */
  takeOver(from: string): Promise<void>;
  /** Writes the record atomically. Creates the directory if it is missing. */
  save(upload: PartialUpload): Promise<void>;
  /** Creates an empty file for the bytes. */
  begin(id: string): Promise<void>;
  /** Writes chunk by chunk from `offset` on. Reports the length of each written chunk. */
  write(
    id: string,
    offset: number,
    chunks: AsyncIterable<Uint8Array>,
    onWritten: (bytes: number) => void,
  ): Promise<void>;
  /** The bytes up to `length`. */
  open(id: string, length: number): AsyncIterable<Uint8Array>;
  removeBytes(id: string): Promise<void>;
  remove(id: string): Promise<void>;
}

function partialFiles(directory: string): PartialFiles {
  const of = (id: string, kind: 'json' | 'json.new' | 'bytes'): string =>
    path.join(directory, `${id}.${kind}`);
  const remove = (file: string): Promise<void> => rm(file, { force: true });

  /** null if the upload is incomplete on disk and cannot be continued. */
  async function readOne(id: string): Promise<PartialUpload | null> {
    try {
      const {
        version,
        writtenAt,
        partial = null,
        channel = null,
        ...others
      } = JSON.parse(await readFile(of(id, 'json'), 'utf8')) as Recorded;
      const record = { ...others, partial, channel };
      if (version !== 1) return null;
      const written = new Date(writtenAt);
      if (record.outcome !== null) return { ...record, id, received: 0, touchedAt: written };
      const { size, mtime } = await stat(of(id, 'bytes'));
      const received = Math.min(size, record.length ?? record.maxBytes);
      return { ...record, id, received, touchedAt: mtime > written ? mtime : written };
    } catch {
      return null;
    }
  }

  return {
    read: async () => {
      const names = await readdir(directory);
      const ids = names.flatMap((name) => recordForm.exec(name)?.[1] ?? []);
      const found = (await Promise.all(ids.map(readOne))).filter((upload) => upload !== null);
      const needed = new Set(
        found.flatMap(({ id, outcome }) => [`${id}.json`, ...(outcome === null ? [`${id}.bytes`] : [])]),
      );
      const strays = names.filter((name) => ownForm.test(name) && !needed.has(name));
      await Promise.all(strays.map((name) => remove(path.join(directory, name))));
      return found;
    },
    takeOver: async (from) => {
      const names = (await readdir(from)).filter((name) => ownForm.test(name));
      // Records come last: without its bytes, a record would look like a stray file.
      names.sort((a, b) => Number(recordForm.test(a)) - Number(recordForm.test(b)));
      for (const name of names) await rename(path.join(from, name), path.join(directory, name));
    },
    save: async (upload) => {
      const { id } = upload;
      const text = recordOf(upload);
      await mkdir(directory, { recursive: true, mode: 0o700 });
      await writeFile(of(id, 'json.new'), JSON.stringify(text), { mode: 0o600 });
      await rename(of(id, 'json.new'), of(id, 'json'));
    },
    begin: async (id) => {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      await writeFile(of(id, 'bytes'), '', { flag: 'wx', mode: 0o600 });
    },
    write: async (id, offset, chunks, onWritten) => {
      const file = await open(of(id, 'bytes'), 'r+');
      try {
        let position = offset;
        for await (const chunk of chunks)
          for (let done = 0; done < chunk.length;) {
            const { bytesWritten } = await file.write(chunk, done, chunk.length - done, position);
            done += bytesWritten;
            position += bytesWritten;
            onWritten(bytesWritten);
          }
      } finally {
        await file.close();
      }
    },
    open: (id, length) => createReadStream(of(id, 'bytes'), { end: length - 1 }),
    removeBytes: (id) => remove(of(id, 'bytes')),
    remove: async (id) => {
      // The record comes last: without it the bytes would be unidentified until the next start.
      await remove(of(id, 'bytes'));
      await remove(of(id, 'json'));
    },
  };
}
