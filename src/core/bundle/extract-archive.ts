import path from 'node:path';
import { type Digest, finishDigest, startDigest } from '../lib/digest.ts';
import { blockingDisk, type Disk, type WriteBehind, writeBehind } from '../lib/disk.ts';
import { finding, WaybillError } from '../lib/errors.ts';
import { neverYield, type YieldToEventLoop } from '../lib/event-loop.ts';
import { ancestorsOf, parseRelativePath, type RelativePath } from '../lib/paths.ts';
import { foldedPath, quotedName } from '../lib/text.ts';
import { decompress } from './archive/gzip.ts';
import { readTar, type TarEntry } from './archive/tar-reader.ts';
import { maxPathSegments } from './limits.ts';
import { manifestName, maxSignatureBytes, signatureName } from './manifest.ts';
import { invalidBundle } from './source-bundle.ts';

export interface ArchiveLimits {
  /** The maximum size of the archive in bytes. The same limit applies to the files that are extracted. */
  maxUploadSize: number;
  /** The maximum number of files, without `manifest.json`. */
  maxFiles: number;
}

interface ExtractRequest {
  /** tar or tar.gz. */
  input: AsyncIterable<Uint8Array>;
  /** The absolute path of an empty directory. */
  directory: string;
  limits: ArchiveLimits;
  /** Whether to refuse an archive that has no `manifest.json` at its root. Default: true. */
  needsManifest?: boolean;
  /** Called before each file to let the event loop run. Default: never. */
  yieldToEventLoop?: YieldToEventLoop;
  disk?: Disk;
}

/** The extracted files, with the sizes and digests that were measured while writing them. */
export interface Extraction {
  files: Map<RelativePath, { size: number; digest: Digest }>;
  /** Modification times in milliseconds since 1970, for files that have one in the archive. */
  modified: Map<RelativePath, number>;
  /** The size of all files together, in bytes. */
  bytes: number;
  /**
   * Adds a file that was not in the archive: reserves its path, and creates its directories. Throws the same
   * errors as for a file that was.
   */
  take(path: RelativePath): void | Promise<void>;
}

/** Files with no more than this many bytes are written with a single call. */
const smallFileBytes = 1 << 16;

/**
 * Extracts an archive while it arrives, without needing more memory for a larger one. Only regular files and
 * directories are allowed, and their paths must be safe and distinct. Owners, times and modes in the archive
 * are ignored. Throws `malformed_archive`, `unsafe_archive_entry`, `upload_too_large`, `too_many_files`,
 * `archive_bomb`, `invalid_bundle` (if there is no `manifest.json` at the root, or two), the input's own
 * error, or a system error. After an error, the files written so far are still there, because the directory
 * belongs to the caller.
 */
export async function extractArchive(request: ExtractRequest): Promise<Extraction> {
  const {
    input,
    directory,
    limits,
    needsManifest = true,
    yieldToEventLoop = neverYield,
    disk = blockingDisk,
  } = request;
  const tree = pathTree(limits);
  const made = new Set<string>();
  const writes = writeBehind();
  const makeParents = (file: RelativePath): Promise<void> | undefined => {
    const parents = parentsToMake(file, made).map((parent) => path.join(directory, parent));
    return parents.length === 0 ? undefined : writes.add(0, disk.makeDirectories(parents));
  };
  const take = async (file: RelativePath): Promise<void> => {
    tree.addFile(file);
    await makeParents(file);
    await writes.done();
  };
  const extraction: Extraction = { files: new Map(), modified: new Map(), bytes: 0, take };
  for await (const entry of readTar(decompress(limited(input, limits.maxUploadSize)))) {
    const entryPath = judgePath(entry);
    if (entryPath === null) continue;
    if (entry.type === 'directory') {
      tree.addDirectory(entryPath);
      continue;
    }
    tree.addFile(entryPath);
    if (entryPath === signatureName && entry.size > maxSignatureBytes) throw largeSignature(entry.size);
    extraction.bytes += entry.size;
    if (extraction.bytes > limits.maxUploadSize)
      throw tooLarge('what the archive holds', limits.maxUploadSize);
    await makeParents(entryPath);
    await yieldToEventLoop();
    const digest = await writeEntry(entry, path.join(directory, entryPath), { disk, writes });
    extraction.files.set(entryPath, { size: entry.size, digest });
    if (entry.modifiedAt !== null) extraction.modified.set(entryPath, entry.modifiedAt.getTime());
  }
  await writes.done();
  if (needsManifest && !extraction.files.has(manifestName as RelativePath))
    throw manifestMissing(extraction.files.keys());
  return extraction;
}

async function* limited(input: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Uint8Array> {
  let size = 0;
  for await (const chunk of input) {
    size += chunk.byteLength;
    if (size > maxBytes) throw tooLarge('the archive', maxBytes);
    yield chunk;
  }
}

/**
 * Returns the path of an entry, or null if it is the root itself, as in archives from `tar -C directory .`.
 */
function judgePath({ name, type }: TarEntry): RelativePath | null {
  const withoutDot = name.replace(/^(?:\.\/)+/, '');
  const trimmed = type === 'directory' ? withoutDot.replace(/\/$/, '') : withoutDot;
  if (type === 'directory' && (trimmed === '' || trimmed === '.')) return null;
  const verdict = parseRelativePath(trimmed);
  if (!verdict.ok) throw unsafe(name, `has a path that ${verdict.reason}`);
  if (trimmed.split('/').length > maxPathSegments)
    throw unsafe(name, `has a path of more than ${maxPathSegments} segments`);
  return verdict.path;
}

/**
 * Keeps track of the paths in an archive. They are compared as on a case-insensitive file system, so that no
 * file can overwrite another one or end up below it.
 */
function pathTree({ maxFiles }: ArchiveLimits): {
  addFile(path: RelativePath): void;
  addDirectory(path: RelativePath): void;
} {
  const files = new Map<string, string>();
  const directories = new Set<string>();
  const maxDirectories = 4 * maxFiles + maxPathSegments;

  const addDirectories = (path: RelativePath, folded: string): void => {
    for (const ancestor of ancestorsOf(folded)) addOne(path, ancestor);
  };
  const addOne = (path: RelativePath, folded: string): void => {
    const file = files.get(folded);
    if (file !== undefined) throw unsafe(path, `needs a directory where the file ${quotedName(file)} is`);
    directories.add(folded);
    if (directories.size > maxDirectories)
      throw new WaybillError('too_many_files', `the archive holds more than ${maxDirectories} directories`, {
        hint: 'use fewer directories',
      });
  };

  return {
    addFile(path) {
      const folded = foldedPath(path);
      const earlier = files.get(folded);
      if (earlier !== undefined && folded === manifestName) throw manifestTwice(path, earlier);
      if (earlier === path) throw unsafe(path, 'is there twice');
      if (earlier !== undefined)
        throw unsafe(path, `differs from ${quotedName(earlier)} only in letter case`);
      if (directories.has(folded)) throw unsafe(path, 'is a file where a directory is');
      addDirectories(path, folded);
      files.set(folded, path);
      const own = [manifestName, signatureName].filter((name) => files.has(name)).length;
      if (files.size - own > maxFiles)
        throw new WaybillError('too_many_files', `the archive holds more than ${maxFiles} files`, {
          hint: 'split the bundle, or ask the administrator to raise max_files',
        });
    },
    addDirectory(path) {
      const folded = foldedPath(path);
      addDirectories(path, folded);
      addOne(path, folded);
    },
  };
}

/** Returns the parent directories that do not exist yet, starting from the top, and adds them to `made`. */
function parentsToMake(file: string, made: Set<string>): string[] {
  // Most files are in the same directory as an earlier one, so look up each directory only once.
  if (made.has(path.posix.dirname(file))) return [];
  const parents = [...ancestorsOf(file)].filter((directory) => !made.has(directory));
  for (const parent of parents) made.add(parent);
  return parents;
}

async function writeEntry(
  entry: TarEntry,
  file: string,
  { disk, writes }: { disk: Disk; writes: WriteBehind },
): Promise<Digest> {
  const hash = startDigest();
  if (entry.size <= smallFileBytes) {
    const chunks: Buffer[] = [];
    for await (const chunk of entry.read()) chunks.push(chunk);
    const bytes = Buffer.concat(chunks);
    await writes.add(bytes.byteLength, disk.writeFile(file, bytes));
    return finishDigest(hash.update(bytes));
  }
  await writes.add(0, disk.openFile(file));
  try {
    for await (const chunk of entry.read()) {
      const appended = disk.appendToFile(file, chunk);
      hash.update(chunk);
      await writes.add(chunk.byteLength, appended);
    }
  } finally {
    void writes.add(0, disk.closeFile(file));
  }
  return finishDigest(hash);
}

function manifestMissing(files: Iterable<string>): WaybillError {
  const nested = [...files].find((file) => file.endsWith(`/${manifestName}`));
  const message =
    nested === undefined
      ? `the archive has no ${manifestName} at its root`
      : `the archive has no ${manifestName} at its root, only ${quotedName(nested)}; make it inside the bundle: tar -C DIRECTORY -cf - .`;
  return invalidBundle('the upload', [finding('error', 'manifest_missing', message, { file: manifestName })]);
}

function manifestTwice(path: string, earlier: string): WaybillError {
  const message =
    path === earlier
      ? 'the archive has it twice'
      : `the archive has ${quotedName(earlier)} and ${quotedName(path)}`;
  return invalidBundle('the upload', [finding('error', 'manifest_twice', message, { file: manifestName })]);
}

function largeSignature(size: number): WaybillError {
  const message = `has ${size} bytes; the maximum for a signature is ${maxSignatureBytes}`;
  return invalidBundle('the upload', [
    finding('error', 'signature_invalid', message, { file: signatureName }),
  ]);
}

/** @param what The thing that is too large. The message starts with it. */
export function tooLarge(what: string, maxBytes: number): WaybillError {
  return new WaybillError(
    'upload_too_large',
    `${what} is larger than ${maxBytes} bytes, the maximum of the source`,
    {
      hint: 'split the bundle, or ask the administrator to raise max_upload_size',
    },
  );
}

function unsafe(name: string, reason: string): WaybillError {
  return new WaybillError('unsafe_archive_entry', `the archive entry ${quotedName(name)} ${reason}`, {
    hint: 'docs/manifest.md says which paths a bundle may hold',
  });
}
