import type { Clock } from '../../lib/clock.ts';
import { hasCode, WaybillError } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import { inParallel } from '../../lib/parallel.ts';
import { briefRetryPolicy, type Outage, type RetryPolicy } from '../../lib/retry.ts';
import type { Secrets } from '../../lib/secrets.ts';
import type { BackupFile, Backups, CopySource, Duplicates, ObjectPlace } from '../capabilities.ts';
import type { Key } from '../key.ts';
import type {
  Body,
  Change,
  Entry,
  FileStat,
  ListOptions,
  RemoveOptions,
  Storage,
  StorageFacts,
  WriteOptions,
  Written,
} from '../storage.ts';
import * as failures from '../storage-errors.ts';
import { ConditionProbe } from './conditions.ts';
import { listEntries, type ListingSource, pagesBelow } from './listing.ts';
import { ObjectWriter } from './object-writer.ts';
import { BucketClient } from './s3-client.ts';
import { errorNameOf, isUnsupported } from './s3-errors.ts';
import { describeS3, type S3Location } from './s3-location.ts';
import { maxCopyBytes, ServerCopier } from './server-copier.ts';

export interface S3StorageOptions {
  readOnly?: boolean;
  clock: Clock;
  log: Log;
  secrets: Secrets;
  /** The retry policy for conditional writes, and for the individual parts of large bodies. */
  retry?: RetryPolicy;
  /** Shared with the caller, which retries whole calls. */
  outage?: Outage | undefined;
  /** Larger bodies are sent in parts of this many bytes. S3 itself requires at least 5 MiB. */
  partBytes?: number;
  /** The number of keys per page, or null for the server's default. Only set in tests. */
  pageSize?: number | null;
}

const defaultPartBytes = 16 << 20;
/**
 * The largest body for a conditional write, which is a single request from memory. This is only used for
 * catalogs.
 */
const maxConditionalBytes = 512 << 20;
const maxConcurrentRemovals = 16;
/** S3's limit for the prefix and the key together, in bytes. */
const maxKeyBytes = 1024;

/**
 * Opens a prefix of a bucket on a server that is compatible with S3. Objects do not appear until they are
 * complete. Small ones are verified in memory and then sent in a single request. Larger ones are sent in
 * parts, which the server only turns into an object after the digest of the whole body has been verified.
 *
 * Opening requests one key below the prefix. This single request checks the bucket, the credentials, the
 * region, and the clock. Throws `secrets_invalid` if a configured secret is missing, `storage_not_found` if
 * the bucket does not exist, `storage_denied` if the credentials are rejected, `storage_transient` if the
 * server is unreachable, and `storage_permanent` if anything else in the configuration is wrong. Calls may
 * also throw `storage_exists`, `storage_conflict`, `storage_full`, and `body_mismatch`, as defined by the
 * contract.
 */
export async function s3Storage(location: S3Location, options: S3StorageOptions): Promise<S3Storage> {
  const { clock, secrets } = options;
  const label = describeS3(location);
  const credentials = location.credentials && {
    accessKeyId: secrets.require(location.credentials.accessKeyIdEnv, label),
    secretAccessKey: secrets.require(location.credentials.secretAccessKeyEnv, label),
  };
  const client = new BucketClient({ location, credentials, clock });
  try {
    await client.list({ prefix: location.prefix, oneLevel: false, token: null, pageSize: 1 });
  } catch (error) {
    client.close();
    if (!(error instanceof WaybillError) || errorNameOf(error) !== 'NoSuchBucket') throw error;
    const { message, cause, hint } = error;
    throw new WaybillError('storage_not_found', message, { cause, hint });
  }
  return new S3Storage(client, location.prefix, label, options);
}

export class S3Storage implements Storage, Backups, Duplicates, CopySource {
  readonly label: string;
  readonly facts: StorageFacts;
  readonly maxBackupBytes = maxCopyBytes;
  readonly #client: BucketClient;
  readonly #prefix: string;
  readonly #log: Log;
  readonly #readOnly: boolean;
  readonly #partBytes: number;
  readonly #listing: ListingSource;
  readonly #conditions: ConditionProbe;
  readonly #writer: ObjectWriter;
  readonly #copier: ServerCopier;
  /**
   * Whether the bucket keeps old versions. We assume that it does until we see an object that has no version.
   */
  #hasVersions = true;
  #readsVersions: Promise<boolean> | undefined;

  constructor(client: BucketClient, prefix: string, label: string, options: S3StorageOptions) {
    const { clock, log, readOnly = false, partBytes = defaultPartBytes, pageSize = null } = options;
    this.label = label;
    this.#client = client;
    this.#prefix = prefix;
    this.#log = log;
    this.#readOnly = readOnly;
    this.#partBytes = partBytes;
    this.#listing = { client, label, pageSize };
    this.#conditions = new ConditionProbe(client, { prefix, label, readOnly, clock, log });
    const { retry: policy = briefRetryPolicy, outage = {} } = options;
    const retry = { policy, clock, outage };
    this.#writer = new ObjectWriter({ client, prefix, label, log, partBytes, retry });
    this.#copier = new ServerCopier({ client, label, log });
    this.facts = {
      conditionalWrites: async () => (await this.#conditions.conditions()).honored,
      keepsHeaders: true,
      clockOffsetMs: client.clockOffsetMs,
    };
  }

  async stat(key: Key): Promise<FileStat | undefined> {
    // If a key is too long, the server's error would be hard to understand.
    if (this.#isTooLong(key)) return undefined;
    const found = await this.#client.head(this.#at(key));
    if (found === undefined) return undefined;
    const { size, version, modifiedAt } = found;
    return { type: 'file', size, version, modifiedAt };
  }

  list(directory: Key | '', options: ListOptions): AsyncIterable<Entry> {
    return listEntries(this.#listing, this.#prefix, directory, options);
  }

  async *read(key: Key): AsyncIterable<Uint8Array> {
    yield* await this.#client.get(this.#at(key));
  }

  async write(key: Key, body: Body, write: WriteOptions): Promise<Written> {
    this.#requireWritable(key);
    const condition = await this.#conditions.conditionOf(key, write);
    if (condition !== undefined && body.size > maxConditionalBytes)
      throw new WaybillError(
        'storage_permanent',
        `${this.label}: "${key}" is too large to be written on a condition`,
      );
    const at = this.#at(key);
    await this.#writer.abortUnfinished(at);
    const copied = condition === undefined ? await this.#copier.copy(at, body, write) : null;
    if (copied !== null) return copied;
    if (condition === undefined && body.size > this.#partBytes)
      return this.#writer.putInParts(at, body, write);
    try {
      return await this.#writer.putWhole({ name: key, key: at }, body, write, condition);
    } catch (error) {
      if (write.mode !== 'create' || !hasCode(error, 'storage_conflict')) throw error;
      throw failures.alreadyExists(this, key, error);
    }
  }

  async obstacleTo({ writes }: Change): Promise<WaybillError | null> {
    const tooLong = writes.find((key) => this.#isTooLong(key));
    return tooLong === undefined ? null : failures.keyTooLong(this, tooLong, maxKeyBytes);
  }

  async remove(key: Key, { ifVersion }: RemoveOptions = {}): Promise<void> {
    this.#requireWritable(key);
    await this.#writer.abortUnfinished(this.#at(key));
    if (ifVersion === undefined || !(await this.#removeVersion(key, ifVersion)))
      await this.#client.remove(this.#at(key));
  }

  /**
   * Deletes a specific version. Returns false if the server cannot check the version or there is no such
   * object.
   */
  async #removeVersion(key: Key, version: string): Promise<boolean> {
    const { versionForm: form } = await this.#conditions.conditions();
    if (form === null) return false;
    try {
      await this.#client.removeVersion(this.#at(key), { version, form });
      return true;
    } catch (error) {
      if (isUnsupported(error) || hasCode(error, 'storage_not_found')) return false;
      throw error;
    }
  }

  async removeTree(directory: Key): Promise<void> {
    this.#requireWritable(directory);
    const pages = pagesBelow(this.#listing, `${this.#at(directory)}/`, { oneLevel: false });
    for await (const { objects } of pages)
      await inParallel(objects, maxConcurrentRemovals, async ({ key }) => this.#client.remove(key));
  }

  /**
   * If the bucket keeps versions and the current one can be read, all we need is its id. Otherwise, the
   * server copies the object, including headers and metadata. If the object is too large to copy, or the
   * server will not do it, the object can still be replaced, but not put back.
   */
  async backUp(key: Key, aside: Key): Promise<BackupFile | null> {
    this.#requireWritable(key);
    const version = this.#hasVersions ? await this.#versionToKeep(key) : null;
    if (version === undefined) return null;
    if (version !== null) return { key, aside, method: 'version', version };
    const outcome = await this.#copy(key, aside);
    if (outcome === 'absent') return null;
    if (outcome === 'refused')
      this.#log.warn(
        { storage: this.label, key },
        'the object cannot be kept: if the publication fails, the next run finishes it',
      );
    return { key, aside, method: outcome === 'done' ? 'copy' : 'nothing', version: null };
  }

  /**
   * Returns the version that could be put back later, null if the object needs to be copied instead, or
   * undefined if it does not exist. The version "null" means that the object is older than the bucket's
   * versioning, so it could be lost when it is replaced.
   */
  async #versionToKeep(key: Key): Promise<string | null | undefined> {
    const found = await this.#client.head(this.#at(key));
    if (found === undefined) return undefined;
    const { storedVersion: version } = found;
    if (version === null) this.#hasVersions = false;
    if (version === null || version === 'null' || found.size > maxCopyBytes) return null;
    return (await this.#canReadVersions(key, version)) ? version : null;
  }

  /** Returns true if old versions can be read, which takes an additional permission. */
  async #canReadVersions(key: Key, version: string): Promise<boolean> {
    this.#readsVersions ??= this.#client.head(this.#at(key), version).then(
      (found) => found !== undefined,
      (error: unknown) => {
        if (hasCode(error, 'storage_transient')) throw error;
        return false;
      },
    );
    this.#readsVersions.catch(() => (this.#readsVersions = undefined));
    return this.#readsVersions;
  }

  async restore({ key, aside, method, version }: BackupFile): Promise<void> {
    this.#requireWritable(key);
    if (method === 'nothing') throw failures.notKept(this, key);
    const from = version === null ? { key: this.#at(aside) } : { key: this.#at(key), version };
    if ((await this.#client.copy(from, this.#at(key))) === null) throw failures.notFound(this, key);
  }

  async duplicate(from: Key, to: Key): Promise<'copy' | null> {
    this.#requireWritable(to);
    await this.#writer.abortUnfinished(this.#at(to));
    if ((await this.#copy(from, to)) === 'done') return 'copy';
    await this.#client.remove(this.#at(to));
    return null;
  }

  /** Copies an object on the server. Only throws errors for which a retry may help. */
  async #copy(from: Key, to: Key): Promise<'done' | 'absent' | 'refused'> {
    try {
      const version = await this.#client.copy({ key: this.#at(from) }, this.#at(to));
      return version === null ? 'absent' : 'done';
    } catch (error) {
      if (hasCode(error, 'storage_transient') || hasCode(error, 'storage_full')) throw error;
      this.#log.debug({ storage: this.label, key: from, err: error }, 'the server does not copy the object');
      return 'refused';
    }
  }

  placeOf(key: Key): ObjectPlace {
    return this.#client.placeOf(this.#at(key));
  }

  async close(): Promise<void> {
    this.#client.close();
  }

  #at(key: Key): string {
    return this.#prefix + key;
  }

  #isTooLong(key: Key): boolean {
    return Buffer.byteLength(this.#at(key)) > maxKeyBytes;
  }

  #requireWritable(key: Key): void {
    if (this.#readOnly) throw failures.readOnly(this, key);
  }
}
