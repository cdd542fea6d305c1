import { createHash } from 'node:crypto';
import { customAlphabet } from 'nanoid';
import type { Occurrence } from './event.ts';

// As Standard Webhooks has them: unique, without a full stop.
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const length = 27;
const randomId = customAlphabet(alphabet, length);

export const newEventId = (): string => `msg_${randomId()}`;

/**
 * What happens in a run has an id that follows from it: if a process dies after it has told, and the next one
 * cannot know that, a receiver gets the same id again, and not another event. All else gets a new id.
 */
export function eventIdOf({ type, data }: Occurrence): string {
  if (!('run_id' in data) || data.run_id === null) return newEventId();
  if ('attempt' in data) return idOf([data.run_id, type, data.attempt]);
  const { run_id, destination_id, destination_path, bundle } = data;
  const code = 'error' in data ? data.error.code : null;
  return idOf([run_id, type, destination_id, destination_path, bundle?.path ?? null, code]);
}

function idOf(what: readonly (string | number | null)[]): string {
  return `msg_${inAlphabet(createHash('sha256').update(JSON.stringify(what)).digest())}`;
}

function inAlphabet(bytes: Buffer): string {
  let rest = BigInt(`0x${bytes.toString('hex')}`);
  let text = '';
  for (; text.length < length; rest /= 62n) text += alphabet[Number(rest % 62n)] ?? '';
  return text;
}
