import type { FileHandle } from 'node:fs/promises';

/** Writes all of `bytes` at the current position; a single write may write fewer. */
export async function writeFully(handle: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.byteLength;) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.byteLength - done, null);
    done += bytesWritten;
  }
}
