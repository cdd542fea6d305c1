import { createHash, type Hash, hash as hashAtOnce } from 'node:crypto';

declare const digestBrand: unique symbol;
/** `sha256:` and 64 lower-case hexadecimal digits. */
export type Digest = string & { readonly [digestBrand]: true };

const digestForm = /^sha256:[0-9a-f]{64}$/;

/** Parses a digest at the edge; undefined if the text is not one. */
export function parseDigest(text: string): Digest | undefined {
  return digestForm.test(text) ? (text as Digest) : undefined;
}

/** Does not create a `Hash` object, which would be a fifth of the time for a small file. */
export function digestOf(bytes: Uint8Array | string): Digest {
  return `sha256:${hashAtOnce('sha256', bytes, 'hex')}` as Digest;
}

export function startDigest(): Hash {
  return createHash('sha256');
}

export function finishDigest(hash: Hash): Digest {
  return `sha256:${hash.digest('hex')}` as Digest;
}

/** The 64 hexadecimal digits alone, as `sha256sum` prints them. */
export function hexOf(digest: Digest): string {
  return digest.slice('sha256:'.length);
}
