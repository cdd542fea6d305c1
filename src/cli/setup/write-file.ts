import { randomUUID } from 'node:crypto';
import { rmSync, type Stats } from 'node:fs';
import { type FileHandle, open, realpath, rename, stat } from 'node:fs/promises';
import path from 'node:path';
import { type Digest, finishDigest, startDigest } from '../../core/lib/digest.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { describeWriteError } from '../../core/lib/system-errors.ts';

type Bytes = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

interface WrittenFile {
  size: number;
  digest: Digest;
}

/**
 * Writes a file atomically, by writing to a temporary file in the same directory and renaming it. A link
 * stays, and its target is replaced. A device or a pipe, such as `/dev/stdout`, is not replaced but written
 * to. Throws a `usage` error if the file cannot be written, and the errors of `bytes`.
 */
export async function writeFile(file: string, bytes: Bytes): Promise<WrittenFile> {
  const refuse = (error: unknown): never => {
    throw writeError(file, error);
  };
  const found = await stat(file).catch(() => undefined);
  if (found?.isFile() === false && !found.isDirectory())
    return writeAll(await open(file, 'w').catch(refuse), bytes, refuse);
  const target = found === undefined ? file : await realpath(file).catch(refuse);
  const scratch = path.join(path.dirname(target), `.${path.basename(target)}.${randomUUID().slice(0, 8)}`);
  const handle = await open(scratch, 'wx').catch(refuse);
  // This also works if a signal ends the process, because signals call `exit`.
  const remove = (): void => rmSync(scratch, { force: true });
  process.on('exit', remove);
  try {
    const written = await writeAll(handle, bytes, refuse);
    await rename(scratch, target).catch(refuse);
    return written;
  } finally {
    remove();
    process.off('exit', remove);
  }
}

/** Throws a `usage` error if writing to `file` would replace one of the files that the command reads. */
export async function refuseToReplaceInput(file: string, inputs: readonly string[]): Promise<void> {
  const find = (one: string): Promise<Stats | undefined> => stat(one).catch(() => undefined);
  const found = await find(file);
  if (found?.isFile() !== true) return;
  for (const input of inputs) {
    const read = await find(input);
    if (read?.ino !== found.ino || read.dev !== found.dev) continue;
    throw new WaybillError('usage', `"${file}" cannot be written: the command reads it`, {
      hint: 'name another file for the output',
    });
  }
}

/** Writes to the file and closes it. */
async function writeAll(
  handle: FileHandle,
  bytes: Bytes,
  refuse: (error: unknown) => never,
): Promise<WrittenFile> {
  const hash = startDigest();
  let size = 0;
  try {
    for await (const chunk of bytes) {
      hash.update(chunk);
      size += chunk.byteLength;
      for (let done = 0; done < chunk.byteLength;)
        done += (await handle.write(chunk, done).catch(refuse)).bytesWritten;
    }
  } finally {
    await handle.close();
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
