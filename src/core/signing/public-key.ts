import { createPublicKey, type KeyObject } from 'node:crypto';
import { bytesOf, keyFileText, type KeyId, keyIdOf, linesOf, type Parsed, refuse } from './minisign-text.ts';

export interface PublicKey {
  id: KeyId;
  /** The eight bytes of the id, the way they are stored in a file. */
  idBytes: Buffer;
  /** 32 bytes. */
  raw: Buffer;
  key: KeyObject;
}

const size = 2 + 8 + 32;

/** Parses the base64 line of a public key, which is what `minisign -P` takes. */
export function parsePublicKey(line: string): Parsed<PublicKey> {
  const read = bytesOf(line, size, 'the key');
  if (!read.ok) return read;
  const bytes = read.value;
  if (bytes.toString('latin1', 0, 2) !== 'Ed') return refuse('it is not an Ed25519 key of minisign');
  return { ok: true, value: publicKeyOf(bytes.subarray(2, 10), bytes.subarray(10)) };
}

/** Parses a `.pub` file. */
export function parsePublicKeyFile(bytes: Uint8Array): Parsed<PublicKey> {
  const lines = linesOf(bytes, 2);
  return lines.ok ? parsePublicKey(lines.value[1] ?? '') : lines;
}

export function publicKeyOf(idBytes: Buffer, raw: Buffer): PublicKey {
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: raw.toString('base64url') };
  return { id: keyIdOf(idBytes), idBytes, raw, key: createPublicKey({ key: jwk, format: 'jwk' }) };
}

export function publicKeyLine({ idBytes, raw }: PublicKey): string {
  return Buffer.concat([Buffer.from('Ed'), idBytes, raw]).toString('base64');
}

/** Returns the text of a `.pub` file. */
export function publicKeyFile(key: PublicKey): string {
  const bytes = Buffer.concat([Buffer.from('Ed'), key.idBytes, key.raw]);
  return keyFileText(`minisign public key ${key.id}`, bytes);
}
