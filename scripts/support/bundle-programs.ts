import path from 'node:path';
import { build } from 'esbuild';
import { sourcePlaces } from './source-places.ts';

/**
 * Bundles programs or modules from source with all that they import of this project, so that each start of
 * one need not compile it. What they share is in files of its own, and is there once if a process loads two.
 *
 * @param directory where to: where the packages are found
 * @param base what the names of the files, and of the bundles in the directory, are relative to
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
