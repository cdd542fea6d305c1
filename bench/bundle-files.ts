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
 * Creates a bundle with `count` files of `size` bytes in fifty directories, and a manifest with their
 * digests. `fill` fills a chunk of the file with this index. By default, files contain random bytes.
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

/** Reads all files in a directory, so that they are in the page cache for every program that is measured. */
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
