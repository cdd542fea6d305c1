import { randomUUID } from 'node:crypto';
import type { Clock } from '../../lib/clock.ts';
import { digestOf, hexOf } from '../../lib/digest.ts';
import { hasCode, WaybillError } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import { stagingName } from '../../lib/paths.ts';
import type { Key } from '../key.ts';
import type { ConditionalWrites, WriteOptions } from '../storage.ts';
import { readOnly as refuseReadOnly } from '../storage-errors.ts';
import { pagesBelow } from './listing.ts';
import type { BucketClient } from './s3-client.ts';
import { isUnsupported } from './s3-errors.ts';
import type { Condition, VersionForm } from './sdk.ts';

/** Probing takes seconds. If a probe object is this old, its process must have been killed. */
const probeAbandonedAfterMs = 600_000;
/**
 * If probing takes longer than this, another publisher may have deleted the probe object, so the result is
 * unreliable.
 */
const probeTimeoutMs = 300_000;

export interface Conditions {
  honored: ConditionalWrites;
  /**
   * The format that the server expects in `If-Match`, or null if it does not support the condition at all.
   */
  versionForm: VersionForm | null;
}

/** Finds out which conditions a server supports, when a write needs one for the first time. */
export class ConditionProbe {
  readonly #client: BucketClient;
  readonly #options: { prefix: string; label: string; readOnly: boolean; clock: Clock; log: Log };
  #probed: Promise<Conditions> | undefined;

  /** `prefix` is the prefix of the storage. Probe objects are written to the staging directory there. */
  constructor(
    client: BucketClient,
    options: { prefix: string; label: string; readOnly: boolean; clock: Clock; log: Log },
  ) {
    this.#client = client;
    this.#options = options;
  }

  /**
   * Returns the condition to use for a write, or undefined if it does not need any. Throws
   * `storage_permanent` if the server does not support the condition.
   */
  async conditionOf(key: Key, { mode, ifVersion }: WriteOptions): Promise<Condition | undefined> {
    if (mode !== 'create' && ifVersion === undefined) return undefined;
    const { honored, versionForm } = await this.conditions();
    if (mode === 'create' && honored !== 'none') return { absent: true };
    if (ifVersion !== undefined && versionForm !== null) return { version: ifVersion, form: versionForm };
    throw new WaybillError(
      'storage_permanent',
      `${this.#options.label}: "${key}": the server does not honor this condition, so the object cannot be written safely`,
    );
  }

  /**
   * Returns the conditions that the server supports. Throws `storage_denied` if the storage is read-only,
   * since probing has to write.
   */
  async conditions(): Promise<Conditions> {
    const { readOnly, label } = this.#options;
    if (readOnly) throw refuseReadOnly({ label }, stagingName);
    this.#probed ??= this.#probe();
    this.#probed.catch(() => (this.#probed = undefined));
    return this.#probed;
  }

  async #probe(): Promise<Conditions> {
    const { prefix, label, clock, log } = this.#options;
    const probes = `${prefix}${stagingName}/probe-`;
    await this.#removeAbandoned(probes);
    const key = `${probes}${randomUUID()}`;
    const started = clock.monotonic();
    const found = await probeConditions({
      write: async (text, condition) =>
        this.#client.put(key, Buffer.from(text), { sha256: hexOf(digestOf(text)), headers: {}, condition }),
      remove: async () => this.#client.remove(key),
    });
    if (clock.monotonic() - started > probeTimeoutMs)
      throw new WaybillError('storage_transient', `${label}: trying conditional writes took too long`);
    log.debug({ storage: label, ...found }, 'conditional writes were probed');
    if (found.honored !== 'full')
      log.warn(
        { storage: label, honored: found.honored },
        'the server does not honor all conditional writes: do not let two publishers write to it at once',
      );
    return found;
  }

  async #removeAbandoned(probes: string): Promise<void> {
    const { label, clock } = this.#options;
    const client = this.#client;
    const before = clock.now().getTime() + (client.clockOffsetMs ?? 0) - probeAbandonedAfterMs;
    const source = { client, label, pageSize: null };
    for await (const { objects } of pagesBelow(source, probes, { oneLevel: false }))
      for (const { key, modifiedAt } of objects)
        if (modifiedAt !== null && modifiedAt.getTime() < before) await client.remove(key);
  }
}

/**
 * An object that no other process uses. `write` returns the new version, and throws the errors of
 * `BucketClient.put`.
 */
export interface ProbeObject {
  write(text: string, condition?: Condition): Promise<string>;
  remove(): Promise<void>;
}

/**
 * Finds out which conditions a server supports by trying them all on an object that is not used for anything
 * else. A write must succeed if its condition is met, and be rejected if it is not. Going by the name of the
 * server is not enough, and neither is a single response: some servers answer with 501, while others ignore
 * the condition and report success. In the end, the object is deleted. Throws if a write fails for any reason
 * other than its condition.
 */
export async function probeConditions(object: ProbeObject): Promise<Conditions> {
  try {
    if ((await attempt(object, '1', { absent: true })) !== 'written')
      return { honored: 'none', versionForm: null };
    if ((await attempt(object, '2', { absent: true })) !== 'refused')
      return { honored: 'none', versionForm: null };
    for (const form of ['quoted', 'unquoted'] as const) {
      const version = await object.write('3');
      if ((await attempt(object, '4', { version, form })) !== 'written') continue;
      // By now, this version is out of date.
      if ((await attempt(object, '5', { version, form })) === 'refused')
        return { honored: 'full', versionForm: form };
    }
    return { honored: 'create', versionForm: null };
  } finally {
    await object.remove();
  }
}

/** Tries a conditional write. If it fails for any reason other than its condition, probing stops. */
async function attempt(
  object: ProbeObject,
  text: string,
  condition: Condition,
): Promise<'written' | 'refused' | 'unsupported'> {
  try {
    await object.write(text, condition);
    return 'written';
  } catch (error) {
    if (hasCode(error, 'storage_conflict') || hasCode(error, 'storage_exists')) return 'refused';
    // Some servers answer "no such key" if they cannot make sense of the ETag's format.
    if (hasCode(error, 'storage_not_found')) return 'refused';
    if (isUnsupported(error)) return 'unsupported';
    throw error;
  }
}
