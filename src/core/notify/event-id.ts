import { createHash } from 'node:crypto';
import { customAlphabet } from 'nanoid';
import type { Occurrence } from './event.ts';

// Standard Webhooks requires ids to be unique and not to contain a period.
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const length = 27;
const randomId = customAlphabet(alphabet, length);

export const newEventId = (): string => `msg_${randomId()}`;

/**
 * Returns the id of an event. During a run, the id is derived from what happened. If a process dies right
 * after sending a notification, the next process sends it again with the same id, so receivers can discard
 * the duplicate. The id of an audit event is derived from the place of its record in the chain. All other
 * events have random ids.
 */
export function eventIdOf({ type, data }: Occurrence): string {
  if ('record' in data) {
    const { host, seq, time, prev } = data.record;
    return idOf([type, host, seq, time, prev]);
  }
  if (!('run_id' in data) || data.run_id === null) return newEventId();
  if ('attempt' in data) return idOf([data.run_id, type, data.attempt]);
  const { run_id, destination_id, destination_path, bundle } = data;
  const code = 'error' in data ? data.error.code : null;
  return idOf([run_id, type, destination_id, destination_path, bundle?.path ?? null, code]);
}

function idOf(parts: readonly (string | number | null)[]): string {
  return `msg_${inAlphabet(createHash('sha256').update(JSON.stringify(parts)).digest())}`;
}

function inAlphabet(bytes: Buffer): string {
  let rest = BigInt(`0x${bytes.toString('hex')}`);
  let text = '';
  for (; text.length < length; rest /= 62n) text += alphabet[Number(rest % 62n)] ?? '';
  return text;
}
