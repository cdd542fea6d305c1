import { readFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, type Plugin } from 'esbuild';

/** A module finds what belongs to it from where its source is, and not from where the bundle is. */
const sourcePlaces: Plugin = {
  name: 'source-places',
  setup(build) {
    // A file of a package that is reached by its path is the package's own, and not a second one.
    build.onResolve({ filter: /^\..*\/node_modules\// }, ({ path: name, resolveDir }) => ({
      path: pathToFileURL(path.resolve(resolveDir, name)).href,
      external: true,
    }));
    build.onLoad({ filter: /\.ts$/ }, ({ path: file }) => ({
      loader: 'ts',
      contents: readFileSync(file, 'utf8')
        .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(file).href))
        .replaceAll('import.meta.dirname', JSON.stringify(path.dirname(file))),
    }));
  },
};

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
    plugins: [sourcePlaces],
    logLevel: 'warning',
  });
  return new Map(files.map((file) => [file, path.join(directory, file.replace(/\.ts$/, '.mjs'))]));
}
