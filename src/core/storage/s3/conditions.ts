import { hasCode } from '../../lib/errors.ts';
import type { ConditionalWrites } from '../storage.ts';
import { isUnsupported } from './errors.ts';
import type { Condition, VersionForm } from './wire.ts';

export interface Conditions {
  honoured: ConditionalWrites;
  /** The form that `If-Match` is honoured in; null if in neither. */
  versionForm: VersionForm | null;
}

/** One object that nobody else knows. `write` returns the version and rejects like `S3Wire.put`. */
export interface ProbeObject {
  write(text: string, condition?: Condition): Promise<string>;
  remove(): Promise<void>;
}

/**
 * Finds out which conditions a server really honours, by trying each on an object of its own: a write must
 * succeed if its condition holds and be refused if it does not. This cannot be concluded from the name of the
 * server or from a single answer, since some answer 501 and others ignore the condition and report success.
 * Removes the object at the end. Throws what a write fails with unless that is a refusal.
 */
export async function probeConditions(object: ProbeObject): Promise<Conditions> {
  try {
    return await probe(object);
  } finally {
    await object.remove();
  }
}

async function probe(object: ProbeObject): Promise<Conditions> {
  const none: Conditions = { honoured: 'none', versionForm: null };
  if ((await attempt(() => object.write('1', { absent: true }))) !== 'written') return none;
  if ((await attempt(() => object.write('2', { absent: true }))) !== 'refused') return none;
  const create: Conditions = { honoured: 'create', versionForm: null };
  for (const form of ['quoted', 'unquoted'] as const) {
    const version = await object.write('3');
    if ((await attempt(() => object.write('4', { version, form }))) !== 'written') continue;
    // This version is outdated now.
    if ((await attempt(() => object.write('5', { version, form }))) === 'refused')
      return { honoured: 'full', versionForm: form };
  }
  return create;
}

/** The outcome of a conditional write. Any failure besides a refusal ends the probe. */
async function attempt(write: () => Promise<string>): Promise<'written' | 'refused' | 'unsupported'> {
  try {
    await write();
    return 'written';
  } catch (error) {
    if (hasCode(error, 'storage_conflict') || hasCode(error, 'storage_exists')) return 'refused';
    // Some servers answer an ETag in a form that they cannot match with "no such key".
    if (hasCode(error, 'storage_not_found')) return 'refused';
    if (isUnsupported(error)) return 'unsupported';
    throw error;
  }
}
