import { createReadStream } from 'node:fs';
import { mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { inParallel } from '../../core/lib/parallel.ts';
import { errnoOf } from '../../core/lib/system-errors.ts';
import { claimDirectory, type ClaimedDirectory, type ClaimRequest, claimStale } from './claimed-directory.ts';
import { temporaryErrors } from './content-files.ts';
import type { NewPartialUpload, PartialOutcome, PartialUpload } from './partial-upload.ts';

/**
 * This process's directory for partial uploads. It is located in `staging`, and only exists as long as there
 * are any. With BullMQ, several processes on the same machine may share `staging`, so each of them has a
 * directory with a number.
 */
export class PartialDirectory {
  readonly #request: ClaimRequest;
  #claimed: Claimed | null;
  #claiming: Promise<Claimed> | null = null;
  /** The partial uploads of earlier processes, as found at startup. */
  readonly restored: readonly PartialUpload[];

  private constructor(request: ClaimRequest, claimed: Claimed | null) {
    this.#request = request;
    this.#claimed = claimed;
    this.restored = claimed?.restored ?? [];
  }

  /** Takes over the files of processes that have ended. Throws system errors. */
  static async open(staging: string, clock: Pick<Clock, 'sleep'>): Promise<PartialDirectory> {
    const request = { parent: staging, name: 'partial', clock };
    const [first, ...others] = await claimStale(request);
    if (first === undefined) return new PartialDirectory(request, null);
    for (const other of others) {
      await new PartialFiles(first.directory).takeOver(other.directory);
      await other.release();
    }
    return new PartialDirectory(request, await restore(first));
  }

  /**
   * Claims a directory, unless this process already has one. The directory may have belonged to another
   * process that has ended since startup. Resolves with the partial uploads that it left behind.
   */
  async claim(): Promise<readonly PartialUpload[]> {
    if (this.#claimed !== null) return [];
    const isFirst = this.#claiming === null;
    this.#claiming ??= claimDirectory(this.#request)
      .then(restore)
      .then((claimed) => (this.#claimed = claimed))
      .finally(() => (this.#claiming = null));
    const { restored } = await this.#claiming;
    // If there are concurrent calls, only the first one returns the uploads.
    return isFirst ? restored : [];
  }

  /** The files in the claimed directory. */
  get files(): PartialFiles {
    if (this.#claimed === null)
      throw new WaybillError('internal_error', 'the directory of partial uploads is missing');
    return this.#claimed.files;
  }

  /** Releases the directory. If it is empty, it is deleted. */
  async close(): Promise<void> {
    await this.#claiming?.catch(() => null);
    await this.#claimed?.release();
  }
}

interface Claimed extends ClaimedDirectory {
  files: PartialFiles;
  restored: readonly PartialUpload[];
}

async function restore(claimed: ClaimedDirectory): Promise<Claimed> {
  const files = new PartialFiles(claimed.directory);
  try {
    return { ...claimed, files, restored: await files.restore() };
  } catch (error) {
    await claimed.release();
    throw error;
  }
}

/*
 * Each partial upload consists of two files: its record in `<id>.json`, and the bytes received so far in
 * `<id>.bytes`. They are not synced to disk. If a power failure corrupts the bytes, they will not match the
 * manifest.
 */
const recordForm = /^([0-9a-z]{24})\.json$/;
const maxConcurrentLoads = 8;
const ownForm = /^[0-9a-z]{24}\.(json|json\.new|bytes)$/;

interface Recorded extends Omit<NewPartialUpload, 'partial' | 'channel'> {
  /** Absent in records from earlier versions, which did not support such archives. */
  partial?: NewPartialUpload['partial'];
  /** Absent in records from earlier versions, too. */
  channel?: NewPartialUpload['channel'];
  /** Always 1. A record with any other version is rejected. */
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

/** The files of the partial uploads in one of this process's directories. */
class PartialFiles {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Moves the files of an earlier process from its directory to this one. */
  async takeOver(from: string): Promise<void> {
    const names = (await readdir(from)).filter((name) => ownForm.test(name));
    // Move the records last. A record without its bytes would look like it does not belong to an upload.
    names.sort((a, b) => Number(recordForm.test(a)) - Number(recordForm.test(b)));
    for (const name of names) await rename(path.join(from, name), path.join(this.#directory, name));
  }

  /** Reads the partial uploads of an earlier process. Deletes files that cannot be used. */
  async restore(): Promise<PartialUpload[]> {
    const names = await readdir(this.#directory);
    const ids = names.flatMap((name) => recordForm.exec(name)?.[1] ?? []);
    const uploads: PartialUpload[] = [];
    await inParallel(ids, maxConcurrentLoads, async (id) => {
      const upload = await this.#load(id);
      if (upload !== null) uploads.push(upload);
    });
    const needed = new Set(
      uploads.flatMap(({ id, outcome }) => [`${id}.json`, ...(outcome === null ? [`${id}.bytes`] : [])]),
    );
    const strays = names.filter((name) => ownForm.test(name) && !needed.has(name));
    await Promise.all(strays.map((name) => rm(path.join(this.#directory, name), { force: true })));
    return uploads;
  }

  /** Creates an empty file for the bytes. */
  async create(id: string): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    await writeFile(this.#path(id, 'bytes'), '', { flag: 'wx', mode: 0o600 });
  }

  /** Writes the record atomically. Creates the directory if necessary. */
  async save(upload: PartialUpload): Promise<void> {
    const temporary = this.#path(upload.id, 'json.new');
    const text = JSON.stringify(recordOf(upload));
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    await writeFile(temporary, text, { mode: 0o600 });
    await rename(temporary, this.#path(upload.id, 'json'));
  }

  /** Writes chunks, starting at `offset`. Yields the number of bytes of each write. */
  async *write(id: string, offset: number, chunks: AsyncIterable<Uint8Array>): AsyncGenerator<number> {
    const file = await open(this.#path(id, 'bytes'), 'r+');
    try {
      let position = offset;
      for await (const chunk of chunks)
        for (let done = 0; done < chunk.length;) {
          const { bytesWritten } = await file.write(chunk, done, chunk.length - done, position);
          done += bytesWritten;
          position += bytesWritten;
          yield bytesWritten;
        }
    } finally {
      await file.close();
    }
  }

  /** Reads the first `length` bytes. */
  read(id: string, length: number): AsyncIterable<Uint8Array> {
    return createReadStream(this.#path(id, 'bytes'), { end: length - 1 });
  }

  async removeBytes(id: string): Promise<void> {
    await rm(this.#path(id, 'bytes'), { force: true });
  }

  async remove(id: string): Promise<void> {
    // Delete the record last. Without it, the bytes could not be identified until the next startup.
    await this.removeBytes(id);
    await rm(this.#path(id, 'json'), { force: true });
  }

  #path(id: string, kind: 'json' | 'json.new' | 'bytes'): string {
    return path.join(this.#directory, `${id}.${kind}`);
  }

  /**
   * Loads an upload. Returns null if its files are incomplete, so that it cannot be continued. Throws if the
   * system has no files or memory left.
   */
  async #load(id: string): Promise<PartialUpload | null> {
    try {
      const text = await readFile(this.#path(id, 'json'), 'utf8');
      const { version, writtenAt, partial = null, channel = null, ...others } = JSON.parse(text) as Recorded;
      if (version !== 1) return null;
      const record = { ...others, id, partial, channel };
      const written = new Date(writtenAt);
      if (record.outcome !== null) return { ...record, received: 0, touchedAt: written };
      const { size, mtime } = await stat(this.#path(id, 'bytes'));
      const received = Math.min(size, record.length ?? record.maxBytes);
      return { ...record, received, touchedAt: mtime > written ? mtime : written };
    } catch (error) {
      if (temporaryErrors.has(errnoOf(error) ?? '')) throw error;
      return null;
    }
  }
}
