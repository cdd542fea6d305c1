import path from 'node:path';
import { build } from 'esbuild';
import { sourcePlaces } from '../support/source-places.ts';

/**
 * Bundles test files with all of this project that they import; what they share is in files of its own. A
 * process that loads a bundle starts in a third of the processor time that it takes to find and compile
 * hundreds of modules.
 *
 * @param directory where to: below the project, where the packages are found
 * @returns the bundle of each test file
 */
export async function bundle(
  files: readonly string[],
  directory: string,
): Promise<ReadonlyMap<string, string>> {
  await build({
    entryPoints: [...files],
    outdir: directory,
    outbase: '.',
    bundle: true,
    splitting: true,
    packages: 'external',
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    sourcemap: 'linked',
    outExtension: { '.js': '.mjs' },
    plugins: [sourcePlaces()],
    logLevel: 'warning',
  });
  return new Map(files.map((file) => [file, path.join(directory, file.replace(/\.ts$/, '.mjs'))]));
}
