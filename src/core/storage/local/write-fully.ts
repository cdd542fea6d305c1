import { write } from 'node:fs';
import { promisify } from 'node:util';

const writeSome = promisify(write);

/** Writes all of `bytes` at the current position of an open file; a single write may write fewer. */
export async function writeFully(target: number, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.byteLength;) {
    const { bytesWritten } = await writeSome(target, bytes, done, bytes.byteLength - done, null);
    done += bytesWritten;
  }
}
