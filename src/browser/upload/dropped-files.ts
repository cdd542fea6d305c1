import type { NamedFile } from './archive.ts';

export interface Chosen {
  files: NamedFile[];
  /** The name of the directory that holds all of them; null if there is none. */
  directory: string | null;
}

/** Returns the dropped files; those of one directory have paths relative to it. */
export async function filesOfDrop(data: DataTransfer | null): Promise<Chosen> {
  // The list is empty as soon as this turn is over.
  const entries = [...(data?.items ?? [])].flatMap((item) => item.webkitGetAsEntry() ?? []);
  const [only] = entries;
  if (only?.isDirectory === true && entries.length === 1)
    return { files: await filesBelow(only as FileSystemDirectoryEntry, ''), directory: only.name };
  const files: NamedFile[] = [];
  for (const entry of entries) files.push(...(await filesOf(entry, '')));
  return { files, directory: null };
}

/** Returns the files of the directory that an input has. */
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
    // Browsers hand out a hundred at a time.
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject),
    );
    if (some.length === 0) return found;
    for (const entry of some) found.push(...(await filesOf(entry, above)));
  }
}
