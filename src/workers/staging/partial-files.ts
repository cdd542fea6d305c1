import { createReadStream } from 'node:fs';
import { mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { claimDirectory, type ClaimedDirectory, claimLeft } from './claimed-directory.ts';
import type { NewPartialUpload, PartialOutcome, PartialUpload } from './partial-upload.ts';

/** The directory of this process's partial uploads, which is there while there are any. */
export interface PartialPlace {
  /** What earlier processes left. */
  left: readonly PartialUpload[];
  /**
   * Makes a directory this process's own, if it has none yet, and resolves with what an earlier process left
   * in it since the start.
   */
  claim(): Promise<{ files: PartialFiles; left: readonly PartialUpload[] }>;
  /** Of the directory that was claimed. */
  files(): PartialFiles;
  /** Gives the directory back, and removes it if nothing is in it. */
  close(): Promise<void>;
}

interface Claimed extends ClaimedDirectory {
  files: PartialFiles;
  left: readonly PartialUpload[];
}

/**
 * Takes the directory `partial` below `staging`, and what is in those of processes that have ended. In bullmq
 * mode several processes of a machine may stage in one directory: each has then a directory of its own, by a
 * number. Throws the system's error.
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
      throw new WaybillError('internal_error', 'there is no directory of partial uploads');
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
 * Each partial upload is two files: `<id>.json`, what is known of it, and `<id>.bytes`, what has come of the
 * archive. Nothing is made durable: what a power failure leaves of the bytes is checked against the manifest
 * like everything that is uploaded.
 */
const recordForm = /^([0-9a-z]{24})\.json$/;
const ownForm = /^[0-9a-z]{24}\.(json|json\.new|bytes)$/;

interface Recorded extends Omit<NewPartialUpload, 'partial' | 'channel'> {
  /** Left out: an earlier version wrote the record, and knew no such archives. */
  partial?: NewPartialUpload['partial'];
  /** As `partial`. */
  channel?: NewPartialUpload['channel'];
  /** 1; whoever reads another one refuses it. */
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

/** The files of partial uploads in one directory, which belongs to one process. */
interface PartialFiles {
  /** Everything that an earlier process left there; whatever is of no use is removed. */
  read(): Promise<PartialUpload[]>;
  /** Moves everything here that an earlier process left in another directory. */
  takeOver(from: string): Promise<void>;
  /** Writes the record in one step; the directory is made if it is gone. */
  save(upload: PartialUpload): Promise<void>;
  /** Makes the file of the bytes, empty. */
  begin(id: string): Promise<void>;
  /** Writes chunk by chunk from `offset` on, and reports the length of each that is written. */
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

  /** Null for what is not whole: it cannot be gone on with. */
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
      // The records last: one without its bytes would be taken for a stray.
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
      // The record last: without it nobody would know whose bytes these are, until the next start.
      await remove(of(id, 'bytes'));
      await remove(of(id, 'json'));
    },
  };
}
