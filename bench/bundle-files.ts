import { createHash, randomFillSync } from 'node:crypto';
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';

/**
 * Writes a bundle of `count` files of `size` bytes, spread over fifty directories, with a manifest that
 * declares their digests. `fill` fills each chunk of the file with the given index. Default: random bytes.
 */
export function writeBundle(
  directory: string,
  count: number,
  size: number,
  fill: (chunk: Buffer, index: number) => unknown = (chunk) => randomFillSync(chunk),
): void {
  mkdirSync(directory, { recursive: true });
  const chunk = Buffer.allocUnsafe(Math.min(size, 1 << 20));
  const files = Array.from({ length: count }, (_, index) => {
    const name = `d${index % 50}/file-${index}.bin`;
    mkdirSync(path.dirname(path.join(directory, name)), { recursive: true });
    const hash = createHash('sha256');
    const file = openSync(path.join(directory, name), 'w');
    for (let written = 0; written < size; written += chunk.length) {
      fill(chunk, index);
      hash.update(chunk);
      writeSync(file, chunk);
    }
    closeSync(file);
    return { path: name, size, digest: `sha256:${hash.digest('hex')}` };
  });
  writeFileSync(
    path.join(directory, 'manifest.json'),
    JSON.stringify({ schema_version: 1, created: '2026-11-20T00:00:00Z', files }),
  );
}

/** Reads every file below a directory, so that all contenders find it in the page cache. */
export function readAll(directory: string): void {
  for (const name of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
    const file = path.join(directory, name);
    if (statSync(file).isFile()) readThrough(file);
  }
}

function readThrough(file: string): void {
  const chunk = Buffer.allocUnsafe(1 << 20);
  const handle = openSync(file, 'r');
  while (readSync(handle, chunk) > 0);
  closeSync(handle);
}
