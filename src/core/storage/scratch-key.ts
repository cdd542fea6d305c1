import { randomUUID } from 'node:crypto';
import { stagingName } from '../lib/paths.ts';
import { joinKey, parentOf, type Key } from './key.ts';

/**
 * The staging directory beside a key. The cleanup of abandoned attempts looks there, so that whatever a crash
 * leaves in it is found. Pure.
 */
export function stagingBeside(key: Key): Key {
  return joinKey(parentOf(key), stagingName);
}

/** A new key in the staging directory, for bytes that are moved to `key` once they are complete. */
export function scratchBeside(key: Key): Key {
  return joinKey(stagingBeside(key), `write-${randomUUID()}`);
}
