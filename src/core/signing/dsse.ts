import { sign, verify } from 'node:crypto';
import { isRecord } from '../lib/json-document.ts';
import { quoted } from '../lib/text.ts';
import { type KeyId, type Parsed, refuse } from './minisign-text.ts';
import type { PublicKey } from './public-key.ts';
import type { SecretKey } from './secret-key.ts';

/* Reads and writes DSSE envelopes: https://github.com/secure-systems-lab/dsse */

/**
 * Returns an envelope with one signature as a string. The result is always the same for the same arguments.
 */
export function envelopeText(payloadType: string, payload: Uint8Array, secret: SecretKey): string {
  const signature = sign(null, covered(payloadType, payload), secret.key).toString('base64');
  const signatures = [{ keyid: secret.publicKey.id, sig: signature }];
  const encoded = Buffer.from(payload).toString('base64');
  return `${JSON.stringify({ payloadType, payload: encoded, signatures }, null, 2)}\n`;
}

/** Returns the payload of an envelope, provided that it has this type and was signed with this key. */
export function openEnvelope(text: string, payloadType: string, key: PublicKey): Parsed<Buffer> {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    return refuse('it is not JSON');
  }
  if (!isEnvelope(document)) return refuse('it is not a DSSE envelope');
  if (document.payloadType !== payloadType) return refuse(`its payload is not ${payloadType}`);
  const payload = Buffer.from(document.payload, 'base64');
  if (payload.toString('base64') !== document.payload) return refuse('its payload is not base64');
  const [only, ...others] = document.signatures;
  if (only === undefined || others.length > 0)
    return refuse(`it has ${document.signatures.length} signatures instead of 1`);
  if (only.keyid !== key.id) return refuse(`it is signed by key ${quoted(only.keyid)} instead of ${key.id}`);
  const signature = Buffer.from(only.sig, 'base64');
  if (signature.toString('base64') !== only.sig) return refuse('its signature is not base64');
  const isValid = verify(null, covered(payloadType, payload), key.key, signature);
  return isValid ? { ok: true, value: payload } : refuse('its signature was made for another statement');
}

interface Envelope {
  payloadType: string;
  payload: string;
  signatures: { keyid: KeyId; sig: string }[];
}

function isEnvelope(value: unknown): value is Envelope {
  if (!isRecord(value) || typeof value['payloadType'] !== 'string' || typeof value['payload'] !== 'string')
    return false;
  const { signatures } = value;
  return (
    Array.isArray(signatures) &&
    signatures.every(
      (each: unknown) =>
        isRecord(each) && typeof each['keyid'] === 'string' && typeof each['sig'] === 'string',
    )
  );
}

/** Returns the bytes that are signed, in the pre-authentication encoding of DSSE. */
function covered(payloadType: string, payload: Uint8Array): Buffer {
  const head = `DSSEv1 ${Buffer.byteLength(payloadType)} ${payloadType} ${payload.byteLength} `;
  return Buffer.concat([Buffer.from(head), payload]);
}
