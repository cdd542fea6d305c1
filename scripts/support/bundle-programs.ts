import path from 'node:path';
import { build } from 'esbuild';
import { sourcePlaces } from './source-places.ts';

/**
 * Bundles programs or modules from source with all project code that they import, so that they start without
 * compiling. Shared code is in separate files, which a process loads once.
 *
 * @param directory the output directory, from which the packages can be resolved
 * @param base the directory that the names of files and bundles are relative to
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
