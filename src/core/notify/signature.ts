import { createHmac } from 'node:crypto';
import { WaybillError } from '../lib/errors.ts';

/*
 * Implements signatures as in Standard Webhooks 1.0 (https://github.com/standard-webhooks/standard-webhooks),
 * with the symmetric scheme `v1`: HMAC-SHA256 over `id.timestamp.body`.
 */

export type SigningKey = Uint8Array;

// Standard Webhooks requires 192 to 512 bits.
const keyBytes = { min: 24, max: 64 };
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/;

/**
 * Parses the keys in a secret: `whsec_` followed by base64, or several of these separated by spaces while a
 * key is being rotated. Any other text is a plain secret whose UTF-8 bytes are the key. Throws
 * `secrets_invalid`, which names the variable but never includes the value.
 */
export function parseSigningSecret(secret: string, name: string): { keys: SigningKey[]; isPlain: boolean } {
  const refuse = (reason: string): WaybillError =>
    new WaybillError('secrets_invalid', `the signing secret ${name} ${reason}`, {
      hint: 'generate one with: echo "whsec_$(openssl rand -base64 32)"',
    });
  const parts = secret.trim().split(/\s+/);
  if (!parts.some((part) => part.startsWith('whsec_'))) {
    const key = Buffer.from(secret, 'utf8');
    if (key.byteLength < keyBytes.min) throw refuse(`is shorter than ${keyBytes.min} bytes`);
    return { keys: [key], isPlain: true };
  }
  const keys = parts.map((part) => {
    const encoded = part.slice('whsec_'.length);
    if (!part.startsWith('whsec_')) throw refuse('has several values, but not all of them begin with whsec_');
    if (!base64.test(encoded)) throw refuse('is not base64 after whsec_');
    const key = Buffer.from(encoded, 'base64');
    if (key.byteLength < keyBytes.min || key.byteLength > keyBytes.max)
      throw refuse(`has ${key.byteLength} bytes after whsec_; expected ${keyBytes.min} to ${keyBytes.max}`);
    return key;
  });
  return { keys, isPlain: false };
}

/**
 * Returns the three Standard Webhooks headers, with one signature per key. `at` is the time of the attempt,
 * not of the event.
 */
export function signedHeaders(
  keys: readonly SigningKey[],
  message: { id: string; at: Date; body: string },
): Record<'webhook-id' | 'webhook-timestamp' | 'webhook-signature', string> {
  const timestamp = String(Math.floor(message.at.getTime() / 1000));
  const signatures = keys.map((key) =>
    createHmac('sha256', key).update(`${message.id}.${timestamp}.${message.body}`).digest('base64'),
  );
  return {
    'webhook-id': message.id,
    'webhook-timestamp': timestamp,
    'webhook-signature': signatures.map((signature) => `v1,${signature}`).join(' '),
  };
}
