import { hasCode } from '../../errors.ts';
import { isUnsupported } from './errors.ts';
import type { ConditionalWrites } from '../storage.ts';

/**
 * How a server wants the version in `If-Match`: some compare it with the quotes of the ETag, some without.
 */
export type VersionForm = 'quoted' | 'unquoted';

export interface Conditions {
  honoured: ConditionalWrites;
  /** Null where `If-Match` is not honoured in either form. */
  versionForm: VersionForm | null;
}

/**
 * Writes and removes one object that nobody else knows. `write` rejects as a conditional write does, and
 * returns the version.
 */
export interface ProbeObject {
  write(text: string, condition?: Condition): Promise<string>;
  remove(): Promise<void>;
}

export type Condition = { absent: true } | { version: string; form: VersionForm };

/**
 * Finds out which conditions a server truly honours, by trying each of them on an object of its own: that it
 * lets through what holds, and refuses what does not. Servers answer 501, or answer yes and write whatever
 * the condition said; neither their name nor their answer alone tells.
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
    // The version is an old one now.
    if ((await attempt(() => object.write('5', { version, form }))) === 'refused')
      return { honoured: 'full', versionForm: form };
  }
  return create;
}

/** What became of a conditional write. Any other failure than a refusal is one, and ends the probe. */
async function attempt(write: () => Promise<string>): Promise<'written' | 'refused' | 'unsupported'> {
  try {
    await write();
    return 'written';
  } catch (error) {
    if (hasCode(error, 'storage_conflict') || hasCode(error, 'storage_exists')) return 'refused';
    // An ETag in a form that the server cannot match is, to some, an object that is not there.
    if (hasCode(error, 'storage_not_found')) return 'refused';
    if (isUnsupported(error)) return 'unsupported';
    throw error;
  }
}
