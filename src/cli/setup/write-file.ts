import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import path from 'node:path';
import { type Digest, finishDigest, startDigest } from '../../core/lib/digest.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { describeWriteError } from '../../core/lib/system-errors.ts';

type Bytes = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/**
 * Writes a file atomically, by writing to a temporary file in the same directory and renaming it. Throws a
 * `usage` error if the file cannot be written, and the errors of `bytes`.
 */
export async function writeFile(file: string, bytes: Bytes): Promise<{ size: number; digest: Digest }> {
  const scratch = path.join(path.dirname(file), `.${path.basename(file)}.${randomUUID().slice(0, 8)}`);
  const handle = await open(scratch, 'wx').catch((error: unknown) => {
    throw writeError(file, error);
  });
  // This also works if a signal ends the process, because signals call `exit`.
  const remove = (): void => rmSync(scratch, { force: true });
  process.on('exit', remove);
  const hash = startDigest();
  let size = 0;
  try {
    try {
      for await (const chunk of bytes) {
        hash.update(chunk);
        size += chunk.byteLength;
        for (let done = 0; done < chunk.byteLength;)
          done += (
            await handle.write(chunk, done).catch((error: unknown) => {
              throw writeError(file, error);
            })
          ).bytesWritten;
      }
    } finally {
      await handle.close();
    }
    await rename(scratch, file).catch((error: unknown) => {
      throw writeError(file, error);
    });
  } finally {
    remove();
    process.off('exit', remove);
  }
  return { size, digest: finishDigest(hash) };
}

export function writeError(file: string, error: unknown): WaybillError {
  const reason = describeWriteError(error);
  return new WaybillError('usage', `"${file}" cannot be written: ${reason}`, {
    hint: 'name a writable file in an existing directory',
    cause: error,
  });
}
