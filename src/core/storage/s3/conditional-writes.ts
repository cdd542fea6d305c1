import { randomUUID } from 'node:crypto';
import type { Clock } from '../../lib/clock.ts';
import { digestOf, hexOf } from '../../lib/digest.ts';
import { WaybillError } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import { stagingName } from '../../lib/paths.ts';
import { readOnly as refuseReadOnly } from '../errors.ts';
import type { Key } from '../key.ts';
import type { WriteOptions } from '../storage.ts';
import { probeConditions, type Conditions } from './conditions.ts';
import { pagesBelow } from './listing.ts';
import type { Condition, S3Wire } from './wire.ts';

/** A probe takes seconds, so one that is this old was left by a killed process. */
const probeAbandonedAfterMs = 600_000;
/** The result of a probe that took longer is not used: another publisher may have swept its object. */
const probeWithinMs = 300_000;

/** The conditions that the server honours, probed on the first question. */
export interface ConditionalWrites {
  /** Throws `storage_denied` if the storage was opened read-only, since probing has to write. */
  conditions(): Promise<Conditions>;
  /**
   * The condition of a write; undefined if it has none. Throws `storage_permanent` if the server does not
   * honour it.
   */
  conditionOf(key: Key, write: WriteOptions): Promise<Condition | undefined>;
}

/** `prefix` is that of the storage; probe objects are written to the staging directory below it. */
export function conditionalWrites(
  wire: S3Wire,
  {
    prefix,
    label,
    readOnly,
    clock,
    log,
  }: {
    prefix: string;
    label: string;
    readOnly: boolean;
    clock: Clock;
    log: Log;
  },
): ConditionalWrites {
  let probed: Promise<Conditions> | undefined;
  return { conditions, conditionOf };

  async function conditionOf(key: Key, { mode, ifVersion }: WriteOptions): Promise<Condition | undefined> {
    if (mode !== 'create' && ifVersion === undefined) return undefined;
    const { honoured, versionForm } = await conditions();
    if (mode === 'create' && honoured !== 'none') return { absent: true };
    if (ifVersion !== undefined && versionForm !== null) return { version: ifVersion, form: versionForm };
    throw new WaybillError(
      'storage_permanent',
      `${label}: "${key}": the server does not honour this condition, so the object cannot be written safely`,
    );
  }

  async function conditions(): Promise<Conditions> {
    if (readOnly) throw refuseReadOnly({ label }, stagingName);
    probed ??= probe();
    probed.catch(() => (probed = undefined));
    return probed;
  }

  async function probe(): Promise<Conditions> {
    const key = `${prefix}${stagingName}/probe-${randomUUID()}`;
    await removeAbandonedProbes();
    const started = clock.monotonic();
    const found = await probeConditions({
      write: async (text, condition) =>
        wire.put(key, Buffer.from(text), { sha256: hexOf(digestOf(text)), headers: {}, condition }),
      remove: async () => wire.remove(key),
    });
    if (clock.monotonic() - started > probeWithinMs)
      throw new WaybillError('storage_transient', `${label}: trying conditional writes took too long`);
    log.debug({ storage: label, ...found }, 'conditional writes were probed');
    if (found.honoured !== 'full')
      log.warn(
        { storage: label, honoured: found.honoured },
        'the server does not honour all conditional writes: do not let two publishers write to it at once',
      );
    return found;
  }

  async function removeAbandonedProbes(): Promise<void> {
    const before = clock.now().getTime() + (wire.clockOffsetMs() ?? 0) - probeAbandonedAfterMs;
    const probes = `${prefix}${stagingName}/probe-`;
    for await (const { objects } of pagesBelow({ label }, wire, probes, { oneLevel: false, pageSize: null }))
      for (const { key, modifiedAt } of objects)
        if (modifiedAt !== null && modifiedAt.getTime() < before) await wire.remove(key);
  }
}
