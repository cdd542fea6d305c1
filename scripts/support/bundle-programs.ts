import path from 'node:path';
import { build } from 'esbuild';
import { sourcePlaces } from './source-places.ts';

/**
 * Bundles programs or modules from source, so that they start without having to compile many files. Code that
 * several of them use is in separate files, which a process loads only once.
 *
 * @param directory Where to write the bundles. Must be a directory from which packages can be found.
 * @param base The names of files and bundles are relative to this directory.
 */
export async function bundlePrograms(
  files: readonly string[],
  directory: string,
  base = '.',
): Promise<(file: string) => string> {
  await build({
    entryPoints: files.map((file) => path.resolve(base, file)),
    outdir: directory,
    outbase: base,
    bundle: true,
    splitting: true,
    packages: 'external',
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    outExtension: { '.js': '.mjs' },
    plugins: [sourcePlaces()],
    logLevel: 'warning',
  });
  return (file) => path.resolve(directory, file.replace(/\.ts$/, '.mjs'));
}
