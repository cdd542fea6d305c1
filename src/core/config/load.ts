import { open } from 'node:fs/promises';
import { WaybillError } from '../lib/errors.ts';
import { acceptedConfig, type Loaded, type LoadOptions } from './accepted-config.ts';

export const maxConfigBytes = 4 * 1024 * 1024;
const chunkBytes = 64 * 1024;

/**
 * Reads and checks a configuration file. Throws `config_unreadable` if the file cannot be read and
 * `config_invalid` with everything that is wrong in it (and the warnings) as findings, in the order of the
 * file. A finding's `pointer` is the key's path, like `pipelines[0].destinations[1].path`. No finding repeats
 * a value that may be a secret.
 */
export async function loadConfig(file: string, options: LoadOptions): Promise<Loaded> {
  const bytes = await readFile(file);
  if (bytes !== undefined) return parseConfig(bytes, file, options);
  const { tooLarge } = await import('./judge-config.ts');
  throw tooLarge(file, maxConfigBytes);
}

/**
 * The configuration in the bytes of `file`. Throws `config_invalid` as `loadConfig` does. joi is
 * loaded for an invalid file only (docs/decisions/015-accept.md).
 */
export async function parseConfig(bytes: Uint8Array, file: string, options: LoadOptions): Promise<Loaded> {
  return (
    acceptedConfig(bytes, file, options) ??
    (await import('./judge-config.ts')).judgeConfig(bytes, file, options)
  );
}

/** The bytes, or undefined if there are too many. Reads no more than that even from a device. */
async function readFile(file: string): Promise<Uint8Array | undefined> {
  try {
    const handle = await open(file);
    try {
      const chunks: Uint8Array[] = [];
      let size = 0;
      for (;;) {
        const chunk = Buffer.allocUnsafe(chunkBytes);
        const { bytesRead } = await handle.read(chunk, 0, chunkBytes);
        if (bytesRead === 0) return Buffer.concat(chunks);
        size += bytesRead;
        if (size > maxConfigBytes) return undefined;
        chunks.push(chunk.subarray(0, bytesRead));
      }
    } finally {
      await handle.close();
    }
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
    const [reason, hint] = unreadable[String(code)] ?? [
      cause instanceof Error ? cause.message : 'reading failed',
      'check the path and its permissions',
    ];
    throw new WaybillError('config_unreadable', `the configuration ${file} cannot be read: ${reason}`, {
      hint,
      cause,
    });
  }
}

const unreadable: Readonly<Record<string, [string, string]>> = {
  ENOENT: [
    'there is no such file',
    'check the path given with --config; waybill init writes a configuration to begin with',
  ],
  EISDIR: ['it is a directory', 'name the file in it with --config'],
  ENOTDIR: ['a part of the path is not a directory', 'check the path given with --config'],
  EACCES: ['permission denied', 'let the user that runs waybill read it'],
  EPERM: ['permission denied', 'let the user that runs waybill read it'],
};
