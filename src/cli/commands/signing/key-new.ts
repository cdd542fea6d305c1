import { type FileHandle, open, rm } from 'node:fs/promises';
import { WaybillError } from '../../../core/lib/errors.ts';
import { errnoOf } from '../../../core/lib/system-errors.ts';
import { publicKeyFile, publicKeyLine } from '../../../core/signing/public-key.ts';
import { newSecretKey, secretKeyFile } from '../../../core/signing/secret-key.ts';
import type { Io, OptionsFor } from '../../setup/command.ts';
import { passphraseOf } from '../../setup/signing-key.ts';
import { writeError } from '../../setup/write-file.ts';
import type { newKeyCommand } from './commands.ts';

type KeyFlags = OptionsFor<typeof newKeyCommand>;

/** Implements `waybill key new`. Never overwrites a file. If anything fails, no files are left behind. */
export async function newKey(flags: KeyFlags, { output }: Io): Promise<number> {
  if (!flags.passphrase && flags.passphraseFile !== undefined)
    throw new WaybillError('usage', '--passphrase-file and --no-passphrase exclude each other');
  const { file } = flags;
  const publicFile = `${file}.pub`;
  const handles = await createFiles([file, 0o600], [publicFile, 0o644]);
  try {
    const passphrase = flags.passphrase
      ? await passphraseOf(flags, `Passphrase for ${file}: `, 'The same passphrase again: ')
      : null;
    const secret = newSecretKey();
    const { publicKey } = secret;
    const [privateHandle, publicHandle] = handles as [FileHandle, FileHandle];
    await privateHandle.writeFile(await secretKeyFile(secret, passphrase));
    await publicHandle.writeFile(publicKeyFile(publicKey));
    for (const handle of handles) await handle.sync();
    const line = publicKeyLine(publicKey);
    const written = { keyId: publicKey.id, secretKey: file, publicKey: line, publicKeyFile: publicFile };
    output.result('key_new', { ...written, isEncrypted: passphrase !== null }, () => {
      output.data(`${output.style.green('written')}  ${file}  ${publicFile}  key ${publicKey.id}`);
      output.data(line);
    });
    return 0;
  } catch (error) {
    for (const name of [file, publicFile]) await rm(name, { force: true });
    throw error;
  } finally {
    for (const handle of handles) await handle.close();
  }
}

async function createFiles(...files: [string, number][]): Promise<FileHandle[]> {
  const handles: FileHandle[] = [];
  for (const [name, mode] of files) {
    try {
      handles.push(await open(name, 'wx', mode));
    } catch (error) {
      for (const [index, handle] of handles.entries()) {
        await handle.close();
        await rm(files[index]?.[0] ?? '', { force: true });
      }
      if (errnoOf(error) !== 'EEXIST') throw writeError(name, error);
      throw new WaybillError('usage', `"${name}" exists, and no key is overwritten`, {
        hint: 'give another name, or move the file away',
        cause: error,
      });
    }
  }
  return handles;
}
