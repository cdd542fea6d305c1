import { readFileSync } from 'node:fs';
import { WaybillError } from '../lib/errors.ts';
import { describeFileError } from '../lib/system-errors.ts';
import type { KeyId } from './minisign-text.ts';
import { parsePublicKey, type PublicKey } from './public-key.ts';

/** Decides which signatures a pipeline accepts. Either `keys` or `keysFile` is set, but not both. */
export interface SignaturePolicy {
  /** Whether bundles that have no signature are refused. */
  required: boolean;
  /** The base64 lines of public keys. */
  keys: readonly string[] | null;
  /** An absolute path. */
  keysFile: string | null;
}

/**
 * Returns the keys that are trusted, by id. `keys_file` is read each time, so once a key is removed, it is
 * not trusted anymore. Throws `signing_key_invalid` if the file cannot be read, has no keys in it, or has a
 * line that is not a key.
 */
export function trustedKeys({ keys, keysFile }: SignaturePolicy): ReadonlyMap<KeyId, PublicKey> {
  const lines = keys ?? (keysFile === null ? [] : keyLines(readKeys(keysFile)));
  const trusted = new Map<KeyId, PublicKey>();
  for (const line of lines) {
    const parsed = parsePublicKey(line);
    if (!parsed.ok) throw invalid(`${keysFile ?? 'keys'}: a line is not a public key: ${parsed.reason}`);
    trusted.set(parsed.value.id, parsed.value);
  }
  if (trusted.size === 0) throw invalid(`${keysFile ?? 'keys'} has no public key`);
  return trusted;
}

/** Throws the same errors as `trustedKeys` if there is a problem with the keys of any pipeline. */
export function requireTrustedKeys(
  pipelines: readonly { signatures?: SignaturePolicy | null | undefined }[],
): void {
  for (const { signatures = null } of pipelines) if (signatures !== null) trustedKeys(signatures);
}

/**
 * Returns the lines with keys in the text of one or more `.pub` files. Comments, empty lines, and lines that
 * start with `#` are skipped.
 */
function keyLines(text: string): string[] {
  return text.split(/\r?\n/).filter((line) => !/^(?:untrusted comment:|#|\s*$)/.test(line));
}

function readKeys(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw invalid(`the keys in ${file} cannot be read: ${describeFileError(error)}`, error);
  }
}

function invalid(message: string, cause?: unknown): WaybillError {
  return new WaybillError('signing_key_invalid', message, {
    hint: 'put the public keys of minisign or waybill key new there, one after another',
    cause,
  });
}
