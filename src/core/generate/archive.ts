import { createGzip } from 'node:zlib';
import { manifestName } from '../bundle/manifest.ts';
import { dateOf } from '../instant.ts';
import { compareCodeUnits, parseRelativePath, type RelativePath } from '../paths.ts';
import { pipeThrough } from '../archive/pipe-through.ts';
import type { SourceBundle } from '../bundle/source-bundle.ts';
import { nameOf } from '../storage/key.ts';
import { digestInputs, type Generator, type GeneratorInput } from './generator.ts';
import { writeTar, type TarFile } from '../archive/tar-writer.ts';

const compressionLevel = 6;
const pieceBytes = 1 << 16;

/**
 * The whole bundle as a tar.gz: `manifest.json` as it was written, then the listed files, so that it is a
 * bundle that can be uploaded again. It is streamed each time it is asked for and never kept.
 */
export const archiveGenerator: Generator = {
  name: 'archive',
  version: 1,
  switchedBy: 'archive',
  describe: async ({ bundle }) => {
    const files = filesOf(bundle);
    return [
      {
        path: archiveName(bundle),
        kind: 'archive',
        contentType: 'application/gzip',
        // The same tar is compressed to other bytes by another zlib: then the archive counts as changed, and
        // is written anew.
        inputs: digestInputs(
          files.map(({ path, digest }) => [path, digest]),
          bundle.created,
          [process.versions.zlib, process.arch, compressionLevel],
        ),
        open: () =>
          pipeThrough(
            inPieces(writeTar(files, dateOf(bundle.created))),
            createGzip({ level: compressionLevel }),
          ),
      },
    ];
  },
};

function filesOf({ manifestFile, files }: GeneratorInput['bundle']): TarFile[] {
  const sorted = [...files].sort((a, b) => compareCodeUnits(a.path, b.path));
  return [{ path: manifestName, ...manifestFile }, ...sorted];
}

/** Called after the last segment of the bundle's path, or of its name. */
function archiveName({ path, name }: SourceBundle): RelativePath {
  const verdict = parseRelativePath(`${nameOf(path === '.' ? (name ?? 'bundle') : path)}.tar.gz`);
  return verdict.ok ? verdict.path : ('bundle.tar.gz' as RelativePath);
}

/**
 * Pieces of one size, whatever sizes the source delivers in: the bytes that come out of a compressor may
 * depend on those that go in at once.
 */
async function* inPieces(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  let piece = Buffer.allocUnsafe(pieceBytes);
  let used = 0;
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.byteLength;) {
      const count = Math.min(pieceBytes - used, chunk.byteLength - at);
      piece.set(chunk.subarray(at, at + count), used);
      used += count;
      at += count;
      if (used < pieceBytes) continue;
      yield piece;
      piece = Buffer.allocUnsafe(pieceBytes);
      used = 0;
    }
  }
  if (used > 0) yield piece.subarray(0, used);
}
