import type { NamedFile } from './archive.ts';

/** What was dropped: files, or all that a directory holds, with paths relative to it. */
export async function filesOfDrop(data: DataTransfer | null): Promise<NamedFile[]> {
  // The list is empty as soon as this turn is over.
  const entries = [...(data?.items ?? [])].flatMap((item) => item.webkitGetAsEntry() ?? []);
  const [only] = entries;
  if (only?.isDirectory === true && entries.length === 1)
    return filesBelow(only as FileSystemDirectoryEntry, '');
  const found: NamedFile[] = [];
  for (const entry of entries) found.push(...(await filesOf(entry, '')));
  return found;
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
