import { createHmac } from 'node:crypto';
import { WaybillError } from '../lib/errors.ts';

/*
 * Signs messages as in Standard Webhooks 1.0 (https://github.com/standard-webhooks/standard-webhooks). The
 * scheme is `v1`, which is symmetric: HMAC-SHA256 over `id.timestamp.body`.
 */

export type SigningKey = Uint8Array;

// Standard Webhooks requires 192 to 512 bits.
const keyBytes = { min: 24, max: 64 };
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/;

/**
 * Parses the keys in a secret. A key is `whsec_` followed by base64. While a key is being replaced, there can
 * be several, separated by spaces. Anything else is a plain secret, and the key is its UTF-8 bytes. Throws a
 * `secrets_invalid` error, which says which variable is wrong but does not include the secret.
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
 * Returns the three headers of Standard Webhooks, with a signature for each key. `at` is the time of this
 * attempt, not of the event.
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
