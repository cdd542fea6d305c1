import { createTarDecoder, packTar, type TarEntry } from 'modern-tar';

export interface NamedFile {
  /** Relative to the bundle. */
  path: string;
  file: File;
}

export interface Packed {
  body: Blob;
  /** The text of the manifest, for showing problems in it. null if it cannot be read. */
  manifest: string | null;
}

export const manifestName = 'manifest.json';
const maxManifestBytes = 16 * 1024 * 1024;

/**
 * Packs files into an archive. If there is no manifest, adds one for all of the files, with `name` as the
 * bundle's name.
 */
export async function packFiles(files: readonly NamedFile[], name: string): Promise<Packed> {
  const given = files.find(({ path }) => path === manifestName);
  const manifest = given === undefined ? manifestOf(files, name) : await given.file.text();
  const others = files.filter(({ path }) => path !== manifestName);
  const entries: TarEntry[] = [entryOf(manifestName, new TextEncoder().encode(manifest))];
  for (const { path, file } of others) entries.push(entryOf(path, new Uint8Array(await file.arrayBuffer())));
  const packed = await packTar(entries);
  return { body: new Blob([new Uint8Array(packed)], { type: 'application/x-tar' }), manifest };
}

function entryOf(name: string, body: Uint8Array): TarEntry {
  return { header: { name, size: body.length, type: 'file' }, body };
}

function manifestOf(files: readonly NamedFile[], name: string): string {
  const listed = files.map(({ path, file }) => ({ path: path.normalize('NFC'), size: file.size }));
  const named = name === '' ? {} : { name: name.normalize('NFC') };
  const created = new Date().toISOString();
  return `${JSON.stringify({ schema_version: 1, ...named, created, files: listed }, null, 2)}\n`;
}

/**
 * Returns the text of the manifest in an archive. Returns null if it cannot be read, because the daemon will
 * report that.
 */
export async function findManifest(file: Blob): Promise<string | null> {
  try {
    const [first, second] = new Uint8Array(await file.slice(0, 2).arrayBuffer());
    const isGzip = first === 0x1f && second === 0x8b;
    const bytes = isGzip ? file.stream().pipeThrough(new DecompressionStream('gzip')) : file.stream();
    const entries = bytes.pipeThrough(createTarDecoder()).getReader();
    for (;;) {
      const { done, value } = await entries.read();
      if (done) return null;
      const { header, body } = value;
      if (header.name.replace(/^\.\//, '') !== manifestName || header.size > maxManifestBytes) {
        await body.cancel();
        continue;
      }
      const text = await new Response(body).text();
      await entries.cancel();
      return text;
    }
  } catch {
    return null;
  }
}

export interface Chosen {
  files: NamedFile[];
  /** The name of the directory that all files are in; null if there is none. */
  directory: string | null;
}

/** Returns the files that were dropped. If it was a single directory, the paths are relative to it. */
export async function filesOfDrop(data: DataTransfer | null): Promise<Chosen> {
  // Do this before the first `await`, because the list is cleared when the event handler returns.
  const entries = [...(data?.items ?? [])].flatMap((item) => item.webkitGetAsEntry() ?? []);
  const [only] = entries;
  if (only?.isDirectory === true && entries.length === 1)
    return { files: await filesBelow(only as FileSystemDirectoryEntry, ''), directory: only.name };
  const files: NamedFile[] = [];
  for (const entry of entries) files.push(...(await filesOf(entry, '')));
  return { files, directory: null };
}

/** Returns the files that were chosen in an input for directories. */
export function filesOfInput({ files }: HTMLInputElement): Chosen {
  const all = [...(files ?? [])];
  return {
    files: all.map((file) => ({ file, path: file.webkitRelativePath.replace(/^[^/]+\//, '') })),
    directory: all[0]?.webkitRelativePath.replace(/\/.*/s, '') ?? null,
  };
}

async function filesOf(entry: FileSystemEntry, above: string): Promise<NamedFile[]> {
  if (entry.isDirectory) return filesBelow(entry as FileSystemDirectoryEntry, `${above}${entry.name}/`);
  const file = await new Promise<File>((resolve, reject) =>
    (entry as FileSystemFileEntry).file(resolve, reject),
  );
  return [{ path: `${above}${entry.name}`, file }];
}

async function filesBelow(directory: FileSystemDirectoryEntry, above: string): Promise<NamedFile[]> {
  const reader = directory.createReader();
  const found: NamedFile[] = [];
  for (;;) {
    // Each call returns at most 100 entries.
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject),
    );
    if (some.length === 0) return found;
    for (const entry of some) found.push(...(await filesOf(entry, above)));
  }
}
