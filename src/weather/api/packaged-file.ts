import { fileURLToPath } from 'node:url';

/** A file of the package by its path from the root, whether the program runs as it was built or bundled. */
export function packagedFile(file: string): string {
  return fileURLToPath(new URL(`../../../${file}`, import.meta.url));
}
