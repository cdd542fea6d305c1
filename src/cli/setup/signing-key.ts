import { open, readFile } from 'node:fs/promises';
import type { ManifestSigner } from '../../core/bundle/pack/pack-directory.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { dateOf } from '../../core/lib/instant.ts';
import { describeFileError } from '../../core/lib/system-errors.ts';
import { type KeyId, maxFileBytes } from '../../core/signing/minisign-text.ts';
import { maxPassphraseBytes, parseSecretKeyFile, type SecretKey } from '../../core/signing/secret-key.ts';
import { signatureFile, trustedCommentOf } from '../../core/signing/signature.ts';

/** The options for a passphrase. It cannot be given on the command line, where other users could read it. */
interface PassphraseFlags {
  passphraseFile?: string;
}

const passphraseVariable = 'WAYBILL_KEY_PASSPHRASE';

/**
 * Reads a secret key of waybill or minisign, asking for the passphrase if there is one. Throws
 * `signing_key_invalid`, or `secrets_invalid` if the passphrase is missing. Errors never contain any part of
 * the key or the passphrase.
 */
async function readSecretKey(file: string, flags: PassphraseFlags): Promise<SecretKey> {
  const parsed = parseSecretKeyFile(await readKeyFile(file));
  if (!parsed.ok) throw invalidKey(file, parsed.reason);
  const { value: key } = parsed;
  const opened = await key.open(
    key.needsPassphrase ? await passphraseOf(flags, `Passphrase of ${file}: `) : '',
  );
  if (opened.ok) return opened.value;
  throw invalidKey(file, opened.reason);
}

/**
 * Reads a secret key and returns a function that signs manifests with it. Throws the same errors as
 * `readSecretKey`.
 */
export async function manifestSigner(
  file: string,
  flags: PassphraseFlags,
): Promise<{ keyId: KeyId; sign: ManifestSigner }> {
  const secret = await readSecretKey(file, flags);
  return {
    keyId: secret.publicKey.id,
    // Use the time in the manifest. Identical bundles then get identical signatures.
    sign: (manifest, created) =>
      Buffer.from(signatureFile(manifest, secret, trustedCommentOf(dateOf(created), 'manifest.json'))),
  };
}

/** Returns the packing option for `--sign`. */
export async function signingOptions(
  flags: PassphraseFlags & { sign?: string },
): Promise<{ sign?: ManifestSigner }> {
  if (flags.sign !== undefined) return { sign: (await manifestSigner(flags.sign, flags)).sign };
  if (flags.passphraseFile === undefined) return {};
  throw new WaybillError('usage', '--passphrase-file needs --sign KEY');
}

/**
 * Returns the passphrase. Looks for it in the file, then in the environment, and then asks on the terminal.
 *
 * @param confirm The prompt to use when asking for it a second time.
 */
export async function passphraseOf(
  { passphraseFile }: PassphraseFlags,
  prompt: string,
  confirm?: string,
): Promise<string> {
  if (passphraseFile !== undefined) return requireValidPassphrase(await readPassphrase(passphraseFile));
  const fromEnvironment = process.env[passphraseVariable];
  if (fromEnvironment !== undefined && fromEnvironment !== '') return requireValidPassphrase(fromEnvironment);
  if (!process.stdin.isTTY)
    throw new WaybillError('secrets_invalid', 'there is no passphrase for the key', {
      hint: `set ${passphraseVariable}, name a file with --passphrase-file, or run the command in a terminal`,
    });
  const typed = requireValidPassphrase(await askAtTerminal(prompt));
  if (confirm === undefined || typed === (await askAtTerminal(confirm))) return typed;
  throw new WaybillError('usage', 'the two passphrases differ', { hint: 'run the command again' });
}

function requireValidPassphrase(passphrase: string): string {
  const bytes = Buffer.byteLength(passphrase);
  if (bytes > 0 && bytes <= maxPassphraseBytes) return passphrase;
  const reason = bytes === 0 ? 'is empty' : `has more than ${maxPassphraseBytes} bytes`;
  throw new WaybillError('secrets_invalid', `the passphrase ${reason}`, {
    hint: 'give another one; waybill key new --no-passphrase makes a key without one',
  });
}

async function readPassphrase(file: string): Promise<string> {
  try {
    return (await readFile(file, 'utf8')).replace(/\r?\n$/, '');
  } catch (error) {
    throw new WaybillError(
      'secrets_invalid',
      `the passphrase file "${file}" cannot be read: ${describeFileError(error)}`,
      {
        hint: 'check the path after --passphrase-file',
        cause: error,
      },
    );
  }
}

async function readKeyFile(file: string): Promise<Buffer> {
  try {
    const handle = await open(file);
    try {
      const { buffer, bytesRead } = await handle.read(Buffer.alloc(maxFileBytes + 1));
      return buffer.subarray(0, bytesRead);
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw invalidKey(file, describeFileError(error));
  }
}

function invalidKey(file: string, reason: string): WaybillError {
  return new WaybillError('signing_key_invalid', `the key "${file}" cannot be used: ${reason}`, {
    hint: 'name a secret key that waybill key new or minisign -G made',
  });
}

/** Reads one line from the terminal without showing it. */
async function askAtTerminal(prompt: string): Promise<string> {
  const { stdin } = process;
  // Do this before printing the prompt. Otherwise, a passphrase that is pasted as soon as the prompt appears
  // could be visible.
  stdin.setRawMode(true);
  process.stderr.write(prompt);
  stdin.setEncoding('utf8');
  let typed = '';
  try {
    for await (const chunk of stdin.iterator({ destroyOnReturn: false }) as AsyncIterable<string>)
      for (const character of chunk) {
        if (character === '\r' || character === '\n' || character === '\u0004') return typed;
        if (character === '\u0003') process.kill(process.pid, 'SIGINT');
        else if (character === '\u007f' || character === '\b')
          typed = Array.from(typed).slice(0, -1).join('');
        else typed += character;
      }
    return typed;
  } finally {
    stdin.setRawMode(false);
    stdin.pause();
    process.stderr.write('\n');
  }
}
