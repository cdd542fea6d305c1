import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  scrypt,
  timingSafeEqual,
} from 'node:crypto';
import { blake2b } from '@noble/hashes/blake2.js';
import { bytesOf, keyFileText, linesOf, type Parsed, refuse } from './minisign-text.ts';
import { type PublicKey, publicKeyOf } from './public-key.ts';

export interface SecretKey {
  publicKey: PublicKey;
  key: KeyObject;
}

/** The limits for scrypt in libsodium, as they are stored in a key file. */
interface ScryptLimits {
  ops: bigint;
  /** In bytes. */
  mem: bigint;
}

/** The limits that minisign uses: 1 GiB of memory, and about two seconds. */
export const defaultLimits: ScryptLimits = { ops: 1n << 25n, mem: 1n << 30n };
/**
 * If a key file needs more memory than this, it is refused, because anyone could have changed its parameters.
 */
const maxMemBytes = 1n << 30n;

export const maxPassphraseBytes = 1024;

const pairBytes = 8 + 64 + 32;
const fileBytes = 2 + 2 + 2 + 32 + 8 + 8 + pairBytes;

export function newSecretKey(): SecretKey {
  const { privateKey } = generateKeyPairSync('ed25519');
  return withId(privateKey, randomBytes(8));
}

/** A key file, which may be encrypted. Look at `needsPassphrase` before asking for a passphrase. */
interface SecretKeyFile {
  needsPassphrase: boolean;
  /** Decrypts the key. Never throws; if the passphrase is wrong, the result says so. */
  open(passphrase: string): Promise<Parsed<SecretKey>>;
}

/** Parses a secret key file. If that fails, the reason does not include anything from the file. */
export function parseSecretKeyFile(bytes: Uint8Array): Parsed<SecretKeyFile> {
  const lines = linesOf(bytes, 2);
  if (!lines.ok) return lines;
  const read = bytesOf(lines.value[1] ?? '', fileBytes, 'the key');
  if (!read.ok) return read;
  const file = read.value;
  const [algorithm, derivation, checksum] = [0, 2, 4].map((at) => file.toString('latin1', at, at + 2));
  if (algorithm !== 'Ed') return refuse('it is not an Ed25519 key of minisign');
  if (checksum !== 'B2') return refuse('its checksum is not BLAKE2b');
  const salt = file.subarray(6, 38);
  const limits = { ops: file.readBigUInt64LE(38), mem: file.readBigUInt64LE(46) };
  const pair = file.subarray(54);
  if (derivation === '\0\0')
    return { ok: true, value: { needsPassphrase: false, open: async () => opened(pair, false) } };
  if (derivation !== 'Sc') return refuse('its passphrase is not processed by scrypt');
  if (limits.mem > maxMemBytes) return refuse('it asks for more than 1 GiB of memory');
  const open = async (passphrase: string): Promise<Parsed<SecretKey>> =>
    opened(xor(pair, await stretched(passphrase, salt, limits)), true);
  return { ok: true, value: { needsPassphrase: true, open } };
}

/** Returns the text of a secret key file. Without a passphrase, it is not encrypted. */
export async function secretKeyFile(
  secret: SecretKey,
  passphrase: string | null,
  limits: ScryptLimits = defaultLimits,
): Promise<string> {
  const { idBytes, raw } = secret.publicKey;
  const seed = Buffer.from(secret.key.export({ format: 'jwk' }).d ?? '', 'base64url');
  const secretBytes = Buffer.concat([seed, raw]);
  const isEncrypted = passphrase !== null;
  // If there is no passphrase, minisign leaves out the checksum.
  const checksum = isEncrypted ? checksumOf(idBytes, secretBytes) : Buffer.alloc(32);
  const pair = Buffer.concat([idBytes, secretBytes, checksum]);
  const salt = isEncrypted ? randomBytes(32) : Buffer.alloc(32);
  const numbers = Buffer.alloc(16);
  if (isEncrypted) {
    numbers.writeBigUInt64LE(limits.ops, 0);
    numbers.writeBigUInt64LE(limits.mem, 8);
  }
  const head = Buffer.from(isEncrypted ? 'EdScB2' : 'Ed\0\0B2', 'latin1');
  const body = isEncrypted ? xor(pair, await stretched(passphrase, salt, limits)) : pair;
  return keyFileText('minisign encrypted secret key', Buffer.concat([head, salt, numbers, body]));
}

function opened(pair: Buffer, isEncrypted: boolean): Parsed<SecretKey> {
  const idBytes = pair.subarray(0, 8);
  const secretBytes = pair.subarray(8, 72);
  const checksum = pair.subarray(72);
  const isWhole = timingSafeEqual(checksum, checksumOf(idBytes, secretBytes));
  if (isEncrypted && !isWhole) return refuse('the passphrase is wrong');
  if (!isWhole && checksum.some((byte) => byte !== 0)) return refuse('its checksum is wrong');
  const seed = secretBytes.subarray(0, 32);
  const raw = secretBytes.subarray(32);
  const d = seed.toString('base64url');
  const x = raw.toString('base64url');
  const key = createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', d, x }, format: 'jwk' });
  const secret = withId(key, idBytes);
  return secret.publicKey.raw.equals(raw) ? { ok: true, value: secret } : refuse('its two halves differ');
}

function withId(key: KeyObject, idBytes: Buffer): SecretKey {
  const { x = '' } = createPublicKey(key).export({ format: 'jwk' });
  return { key, publicKey: publicKeyOf(idBytes, Buffer.from(x, 'base64url')) };
}

/** Returns a BLAKE2b-256 digest. Node.js does not have that. */
function checksumOf(idBytes: Buffer, secretBytes: Buffer): Uint8Array {
  return blake2b(Buffer.concat([Buffer.from('Ed'), idBytes, secretBytes]), { dkLen: 32 });
}

function xor(a: Uint8Array, b: Uint8Array): Buffer {
  return Buffer.from(a.map((byte, index) => byte ^ (b[index] ?? 0)));
}

function stretched(passphrase: string, salt: Buffer, limits: ScryptLimits): Promise<Buffer> {
  const options = { ...parametersOf(limits), maxmem: Number(limits.mem) + (64 << 20) };
  return new Promise((resolve, reject) =>
    scrypt(Buffer.from(passphrase), salt, pairBytes, options, (error, bytes) =>
      error === null ? resolve(bytes) : reject(error),
    ),
  );
}

/** Does the same as `pickparams` in libsodium. */
function parametersOf({ ops, mem }: ScryptLimits): { N: number; r: number; p: number } {
  const r = 8n;
  const least = ops < 32768n ? 32768n : ops;
  const log2 = (most: bigint): bigint => {
    let exponent = 1n;
    while (exponent < 63n && 1n << exponent <= most / 2n) exponent += 1n;
    return exponent;
  };
  if (least < mem / 32n) return { N: Number(1n << log2(least / (r * 4n))), r: Number(r), p: 1 };
  const N = 1n << log2(mem / (r * 128n));
  const most = least / 4n / N;
  const p = (most > 0x3fffffffn ? 0x3fffffffn : most) / r;
  return { N: Number(N), r: Number(r), p: Number(p) };
}
