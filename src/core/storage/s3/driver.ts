import { randomUUID } from 'node:crypto';
import type { Clock } from '../../clock.ts';
import type { Secrets } from '../../secrets.ts';
import { digestOf, hexOf, type Digest } from '../../digest.ts';
import { hasCode, WaybillError } from '../../errors.ts';
import type { Log } from '../../log.ts';
import { inParallel } from '../../parallel.ts';
import { defaultRetryPolicy, retry, type RetryPolicy } from '../../retry.ts';
import { measure } from '../body.ts';
import { createSemaphore } from '../../semaphore.ts';
import { collect } from '../collect.ts';
import { alreadyExists, readOnly as refuseReadOnly } from '../errors.ts';
import { joinKey, listedKey, type Key } from '../key.ts';
import { s3Client } from './client.ts';
import { answerName } from './errors.ts';
import { probeConditions, type Condition, type Conditions } from './conditions.ts';
import { describeS3, type S3Location } from './location.ts';
import { uploadInParts, type MultipartOptions } from './multipart.ts';
import { unfinishedUploads } from './unfinished-uploads.ts';
import type { ListPage, S3Wire } from './wire.ts';
import type { Body, Entry, FileStat, Storage, WriteOptions, Written } from '../storage.ts';

export interface S3StorageOptions {
  readOnly?: boolean;
  clock: Clock;
  log: Log;
  secrets: Secrets;
  /** How parts of large bodies are tried again, each by itself, and writes on a condition. */
  retry?: RetryPolicy;
  /** Larger bodies are sent in parts of this size. S3 asks for 5 MiB at least. */
  partBytes?: number;
  /** Keys a page of a listing; what the server likes, where it is left out. Only tests pass their own. */
  pageSize?: number;
}

const defaultPartBytes = 16 << 20;
const partsAtOnce = 4;
/** Of bodies and parts held in memory, all files together. */
const memoryBytes = 96 << 20;
/**
 * A conditional write is one request, whatever its size, and waits in memory. Only the state is written so.
 */
const mostConditionalBytes = 512 << 20;
const removalsAtOnce = 16;
/** A probe takes seconds; one that is an hour old was killed. */
const probeLeftAfterMs = 3_600_000;

/**
 * A prefix of a bucket of an S3-compatible server. Objects are put in place whole: those that fit a part in
 * one request, from memory, after their digest was checked; larger ones in parts, of which nothing is visible
 * before the digest of the whole was checked.
 *
 * Opening asks for one key below the prefix, which settles the bucket, the credentials, the region and the
 * clock at once. Which conditions the server honours is found out when it is first asked for, since that
 * takes writing.
 */
export async function s3Storage(location: S3Location, options: S3StorageOptions): Promise<Storage> {
  const { clock, log, partBytes = defaultPartBytes, pageSize = null } = options;
  const { prefix, credentials } = location;
  const label = describeS3(location);
  const wire = s3Client({
    location,
    place: { label, bucket: location.bucket },
    credentials: credentials === null ? null : resolve(credentials, options.secrets, label),
    clock,
  });
  const at = (key: Key | ''): string => prefix + key;
  const budget = createSemaphore(memoryBytes);
  const leftovers = unfinishedUploads(wire, prefix, log, label);
  const multipart: MultipartOptions = {
    wire,
    budget,
    partBytes,
    partsAtOnce,
    retry: { policy: options.retry ?? defaultRetryPolicy, clock },
    onAbortFailed: (upload, error) =>
      log.warn(
        { storage: label, key: upload.key, err: error },
        'a multipart upload was not aborted; the next run does it',
      ),
  };
  let probed: Promise<Conditions> | undefined;
  await firstLook(wire, prefix);

  const storage: Storage = {
    label,
    facts: {
      rename: 'none',
      conditionalWrites: async () => (await conditions()).honoured,
      localRoot: null,
      clockOffsetMs: wire.clockOffsetMs(),
    },

    async stat(key): Promise<FileStat | undefined> {
      const found = await wire.head(at(key));
      return found === undefined ? undefined : { type: 'file', ...found };
    },

    async *list(directory, { recursive }): AsyncIterable<Entry> {
      const below = directory === '' ? prefix : `${at(directory)}/`;
      for await (const { objects, prefixes } of pages(below, !recursive)) {
        yield* objects.flatMap(entryOf);
        for (const name of prefixes) {
          // "a//b" has a directory without a name in it: no path leads there, so its objects are told one by
          // one.
          if (!name.endsWith('//') && name !== '/') yield directoryOf(name);
          else for await (const page of pages(name, false)) yield* page.objects.flatMap(entryOf);
        }
      }
    },

    async *read(key): AsyncIterable<Uint8Array> {
      yield* await wire.get(at(key));
    },

    async write(key, body, write): Promise<Written> {
      if (options.readOnly === true) throw refuseReadOnly(storage, key);
      const condition = await conditionOf(key, write);
      if (condition !== undefined && body.size > mostConditionalBytes) throw tooLarge(key);
      await leftovers.abort(at(key));
      if (condition === undefined && body.size > partBytes)
        return uploadInParts(at(key), body, write, multipart);
      return putWhole(key, body, write, condition);
    },

    async rename(): Promise<void> {
      throw new WaybillError('storage_permanent', `${label}: objects cannot be renamed`);
    },

    sync: async () => undefined,

    async remove(key): Promise<void> {
      if (options.readOnly === true) throw refuseReadOnly(storage, key);
      await leftovers.abort(at(key));
      await wire.remove(at(key));
    },

    async removeTree(directory): Promise<void> {
      if (options.readOnly === true) throw refuseReadOnly(storage, directory);
      for await (const { objects } of pages(`${at(directory)}/`, false))
        await inParallel(objects, removalsAtOnce, async ({ key }) => wire.remove(key));
    },

    async close(): Promise<void> {
      wire.close();
    },
  };
  return storage;

  async function putWhole(
    key: Key,
    body: Body,
    write: WriteOptions,
    condition: Condition | undefined,
  ): Promise<Written> {
    const release = await budget.acquire(body.size);
    try {
      const { bytes, ...read } = await collect(key, body, write);
      const put = async (): Promise<string> =>
        wire.put(at(key), bytes, {
          sha256: hexOf(read.digest),
          headers: write.headers ?? {},
          condition,
          signal: write.signal,
        });
      const mine = { key: at(key), ...read };
      return { ...read, version: await (condition === undefined ? put() : putSurely(put, mine)) };
    } catch (error) {
      if (write.mode === 'create' && hasCode(error, 'storage_conflict'))
        throw alreadyExists(storage, key, error);
      throw error;
    } finally {
      release();
    }
  }

  /**
   * Servers answer a race of conditional writes with 409, or 500, and the write may have been applied or not.
   * Tried again, it may then break its own condition: what is there tells. Bytes of another cannot be
   * replaced by a late arrival of ours, since that, too, carries the condition.
   */
  async function putSurely(
    put: () => Promise<string>,
    mine: { key: string; size: number; digest: Digest },
  ): Promise<string> {
    let isUncertain = false;
    return retry(multipart.retry, async () => {
      try {
        return await put();
      } catch (error) {
        isUncertain ||= hasCode(error, 'storage_transient');
        if (!isUncertain || !hasCode(error, 'storage_conflict')) throw error;
        const found = await wire.head(mine.key);
        if (found?.size !== mine.size || (await measure(await wire.get(mine.key))).digest !== mine.digest)
          throw error;
        return found.version;
      }
    });
  }

  async function conditionOf(key: Key, { mode, ifVersion }: WriteOptions): Promise<Condition | undefined> {
    if (mode !== 'create' && ifVersion === undefined) return undefined;
    const { honoured, versionForm } = await conditions();
    if (mode === 'create' && honoured !== 'none') return { absent: true };
    if (ifVersion !== undefined && versionForm !== null) return { version: ifVersion, form: versionForm };
    throw new WaybillError(
      'storage_permanent',
      `${label}: "${key}": the server honours no such condition, so nothing can be written on it`,
    );
  }

  async function conditions(): Promise<Conditions> {
    if (options.readOnly === true) throw refuseReadOnly(storage, '.publisher.tmp');
    probed ??= findConditions();
    probed.catch(() => (probed = undefined));
    return probed;
  }

  async function findConditions(): Promise<Conditions> {
    const key = `${at(probeDirectory)}/probe-${randomUUID()}`;
    await sweepProbes();
    const found = await probeConditions({
      write: async (text, condition) =>
        wire.put(key, Buffer.from(text), { sha256: hexOf(digestOf(text)), headers: {}, condition }),
      remove: async () => wire.remove(key),
    });
    log.debug({ storage: label, ...found }, 'conditional writes were probed');
    if (found.honoured !== 'full')
      log.warn(
        { storage: label, honoured: found.honoured },
        'the server does not honour all conditional writes: do not let two publishers write to it at once',
      );
    return found;
  }

  async function sweepProbes(): Promise<void> {
    const old = clock.now().getTime() + (wire.clockOffsetMs() ?? 0) - probeLeftAfterMs;
    for await (const { objects } of pages(`${at(probeDirectory)}/probe-`, false))
      for (const { key, modifiedAt } of objects)
        if (modifiedAt !== null && modifiedAt.getTime() < old) await wire.remove(key);
  }

  async function* pages(below: string, oneLevel: boolean): AsyncIterable<ListPage> {
    let token: string | null = null;
    do {
      const page: ListPage = await wire.list({ prefix: below, oneLevel, token, pageSize });
      yield page;
      token = page.next;
    } while (token !== null);
  }

  /** Empty objects whose names end with "/" are what consoles make in place of directories. */
  function entryOf({ key, size }: ListPage['objects'][number]): Entry[] {
    if (size === 0 && key.endsWith('/')) return [];
    return [{ key: listedKey(key.slice(prefix.length)), type: 'file', size }];
  }

  function directoryOf(name: string): Entry {
    return { key: listedKey(name.slice(prefix.length, -1)), type: 'directory', size: 0 };
  }

  function tooLarge(key: Key): WaybillError {
    return new WaybillError(
      'storage_permanent',
      `${label}: "${key}" is too large to be written on a condition`,
    );
  }
}

const probeDirectory = joinKey('', '.publisher.tmp');

async function firstLook(wire: S3Wire, prefix: string): Promise<void> {
  try {
    await wire.list({ prefix, oneLevel: false, token: null, pageSize: 1 });
  } catch (error) {
    wire.close();
    if (!(error instanceof WaybillError) || answerName(error) !== 'NoSuchBucket') throw error;
    const { message, cause, hint = '' } = error;
    throw new WaybillError('storage_not_found', message, { cause, hint });
  }
}

function resolve(
  { accessKeyIdEnv, secretAccessKeyEnv }: NonNullable<S3Location['credentials']>,
  secrets: Secrets,
  label: string,
): { accessKeyId: string; secretAccessKey: string } {
  return {
    accessKeyId: secrets.require(accessKeyIdEnv, label),
    secretAccessKey: secrets.require(secretAccessKeyEnv, label),
  };
}
