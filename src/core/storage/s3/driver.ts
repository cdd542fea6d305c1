import type { Clock } from '../../lib/clock.ts';
import type { Secrets } from '../../lib/secrets.ts';
import { hasCode, WaybillError } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import { escapedName } from '../../lib/text.ts';
import { inParallel, createSemaphore } from '../../lib/parallel.ts';
import { briefRetryPolicy, type RetryPolicy } from '../../lib/retry.ts';
import { alreadyExists, keyTooLong, noLinks, readOnly as refuseReadOnly } from '../errors.ts';
import { listedKey, nameOf, splitAtOddSegment, type Key } from '../key.ts';
import { s3Client } from './client/client.ts';
import { conditionalWrites } from './conditional-writes.ts';
import { answerName, isUnsupported } from './errors.ts';
import { copyOnServer, largestCopyBytes, s3Keeper } from './keep.ts';
import { describeS3, type S3Location } from './location.ts';
import { pagesBelow } from './listing.ts';
import { uploadInParts, type MultipartOptions } from './multipart.ts';
import { unfinishedUploads } from './unfinished-uploads.ts';
import { putWhole } from './whole-puts.ts';
import type { ListPage, S3Wire } from './wire.ts';
import type { Entry, FileStat, Storage, UnreadableName, Written } from '../storage.ts';

export interface S3StorageOptions {
  readOnly?: boolean;
  clock: Clock;
  log: Log;
  secrets: Secrets;
  /** How each part of a large body is retried by itself, and writes on a condition. */
  retry?: RetryPolicy;
  /** Larger bodies are sent in parts of this many bytes; at least 5 MiB for S3 itself. */
  partBytes?: number;
  /** Keys per page of a listing; by default as many as the server likes. Only tests pass their own. */
  pageSize?: number;
}

const defaultPartBytes = 16 << 20;
const partsAtOnce = 4;
/** The bodies and parts held in memory, for all files together. */
const memoryBytes = 96 << 20;
/** A write on a condition is one request from memory, whatever its size. Only catalogs are written so. */
const mostConditionalBytes = 512 << 20;
const removalsAtOnce = 16;
/** The limit of S3, for the prefix and the key together. */
const mostKeyBytes = 1024;

/**
 * Opens a prefix of a bucket of an S3-compatible server. Objects appear whole: those that fit into one part
 * are one request from memory, sent after their digest was verified; larger ones are sent in parts, none of
 * which is visible before the digest of the whole has been verified.
 *
 * Opening asks for one key below the prefix, which checks bucket, credentials, region and clock at once.
 * Throws `secrets_invalid` if a configured secret is missing, `storage_not_found` if there is no such bucket,
 * `storage_denied` if the credentials are refused, `storage_transient` if the server cannot be reached, and
 * `storage_permanent` for anything else that is configured wrongly. Calls also throw `storage_exists`,
 * `storage_conflict`, `storage_full` and `body_mismatch`, as the contract says.
 */
export async function s3Storage(location: S3Location, options: S3StorageOptions): Promise<Storage> {
  const { clock, log, readOnly = false, partBytes = defaultPartBytes, pageSize = null } = options;
  const { prefix, credentials } = location;
  const label = describeS3(location);
  const wire = s3Client({
    location,
    place: { label, bucket: location.bucket, endpoint: location.endpoint },
    credentials: credentials === null ? null : resolve(credentials, options.secrets, label),
    clock,
  });
  const at = (key: Key | ''): string => prefix + key;
  const leftovers = unfinishedUploads(wire, prefix, log, label);
  const conditional = conditionalWrites(wire, { prefix, label, readOnly, clock, log });
  const keeper = s3Keeper(wire, at, { label, log });
  const transfer: MultipartOptions = {
    wire,
    budget: createSemaphore(memoryBytes),
    partBytes,
    partsAtOnce,
    retry: { policy: options.retry ?? briefRetryPolicy, clock },
    onAbortFailed: (upload, error) =>
      log.warn(
        { storage: label, key: upload.key, err: error },
        'a multipart upload was not aborted; the next run does it',
      ),
  };
  await checkAccess(wire, prefix);

  const storage: Storage = {
    label,
    facts: {
      rename: 'none',
      conditionalWrites: async () => (await conditional.conditions()).honoured,
      keepsHeaders: true,
      movesDirectories: false,
      replacesLinks: false,
      largestKeptBytes: largestCopyBytes,
      localFiles: null,
      clockOffsetMs: wire.clockOffsetMs(),
    },

    async stat(key): Promise<FileStat | undefined> {
      // Servers answer such a question with an error that says nothing.
      if (isTooLong(key)) return undefined;
      const found = await wire.head(at(key));
      if (found === undefined) return undefined;
      const { size, version, modifiedAt } = found;
      return { type: 'file', size, version, modifiedAt };
    },

    async *list(directory, { recursive, onUnreadable }): AsyncIterable<Entry> {
      const below = directory === '' ? prefix : `${at(directory)}/`;
      for await (const { objects, prefixes } of pages(below, { oneLevel: !recursive })) {
        for (const entry of objects.flatMap(entryOf)) {
          const odd = onUnreadable && splitAtOddSegment(entry.key);
          if (odd) onUnreadable(unreadable(odd, 'file'));
          else yield entry;
        }
        for (const name of prefixes) {
          const entry = directoryOf(name);
          const odd = splitAtOddSegment(entry.key);
          if (odd !== null && onUnreadable !== undefined)
            onUnreadable(unreadable({ ...odd, rest: `${odd.rest}/` }, 'directory'));
          // "a//b" implies a directory without a name, which no key can reach: its objects are listed
          // instead.
          else if (nameOf(entry.key) === '')
            for await (const page of pages(name, { oneLevel: false })) yield* page.objects.flatMap(entryOf);
          else yield entry;
        }
      }
    },

    async *read(key): AsyncIterable<Uint8Array> {
      yield* await wire.get(at(key));
    },

    async write(key, body, write): Promise<Written> {
      requireWritable(key);
      const condition = await conditional.conditionOf(key, write);
      if (condition !== undefined && body.size > mostConditionalBytes) throw tooLarge(key);
      await leftovers.abort(at(key));
      if (condition === undefined && body.size > partBytes)
        return uploadInParts(at(key), body, write, transfer);
      try {
        return await putWhole({ name: key, key: at(key) }, body, write, condition, transfer);
      } catch (error) {
        if (write.mode !== 'create' || !hasCode(error, 'storage_conflict')) throw error;
        throw alreadyExists(storage, key, error);
      }
    },

    async rename(): Promise<void> {
      throw new WaybillError('storage_permanent', `${label}: objects cannot be renamed`);
    },

    async obstacleTo({ writes }) {
      const long = writes.find(isTooLong);
      return long === undefined ? null : keyTooLong(storage, long, mostKeyBytes);
    },

    async keep(key, aside) {
      requireWritable(key);
      return keeper.keep(key, aside);
    },

    async putBack(kept): Promise<void> {
      requireWritable(kept.key);
      await keeper.putBack(kept);
    },

    async duplicate(from, to): Promise<'copy' | null> {
      requireWritable(to);
      await leftovers.abort(at(to));
      if ((await copyOnServer(wire, at(from), at(to), { label, log })) === 'done') return 'copy';
      await wire.remove(at(to));
      return null;
    },

    readLink: async () => null,

    async replaceLink(): Promise<void> {
      throw noLinks(storage);
    },

    sync: async () => undefined,

    async remove(key, { ifVersion } = {}): Promise<void> {
      requireWritable(key);
      await leftovers.abort(at(key));
      if (ifVersion === undefined || !(await removedVersion(key, ifVersion))) await wire.remove(at(key));
    },

    async removeTree(directory): Promise<void> {
      requireWritable(directory);
      for await (const { objects } of pages(`${at(directory)}/`, { oneLevel: false }))
        await inParallel(objects, removalsAtOnce, async ({ key }) => wire.remove(key));
    },

    async close(): Promise<void> {
      wire.close();
    },
  };
  return storage;

  function requireWritable(key: Key): void {
    if (readOnly) throw refuseReadOnly(storage, key);
  }

  /** False if the server does not know such a condition, or what it is about. */
  async function removedVersion(key: Key, version: string): Promise<boolean> {
    const { versionForm: form } = await conditional.conditions();
    if (form === null) return false;
    try {
      await wire.removeVersion(at(key), { version, form });
      return true;
    } catch (error) {
      if (isUnsupported(error) || hasCode(error, 'storage_not_found')) return false;
      throw error;
    }
  }

  function isTooLong(key: Key): boolean {
    return Buffer.byteLength(at(key)) > mostKeyBytes;
  }

  function pages(below: string, { oneLevel }: { oneLevel: boolean }): AsyncIterable<ListPage> {
    return pagesBelow({ label }, wire, below, { oneLevel, pageSize });
  }

  /** Consoles create empty objects whose names end with "/" to represent directories. They are left out. */
  function entryOf({ key, size, version, modifiedAt }: ListPage['objects'][number]): Entry[] {
    if (size === 0 && key.endsWith('/')) return [];
    const file = { key: listedKey(key.slice(prefix.length)), type: 'file' as const, size };
    if (version === null || modifiedAt === null) return [file];
    return [{ ...file, stamp: { id: `${size}-${version}`, modifiedAt, isExact: true } }];
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

function unreadable(
  { directory, rest }: { directory: Key | ''; rest: string },
  type: Entry['type'],
): UnreadableName {
  return { reason: 'no_path', directory, decoded: rest, escaped: escapedName(Buffer.from(rest)), type };
}

async function checkAccess(wire: S3Wire, prefix: string): Promise<void> {
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
