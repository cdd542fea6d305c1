import { readFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Plugin } from 'esbuild';

/**
 * For bundles: a module finds what belongs to it from where its source is, and not from where the bundle is.
 *
 * @param sourceOf the text of a file to be bundled in place of its own
 */
export function sourcePlaces(sourceOf: (file: string) => string | undefined = () => undefined): Plugin {
  return {
    name: 'source-places',
    setup(build) {
      // A file of a package that is reached by its path is the package's own, and not a second one.
      build.onResolve({ filter: /^\..*\/node_modules\// }, ({ path: name, resolveDir }) => ({
        path: pathToFileURL(path.resolve(resolveDir, name)).href,
        external: true,
      }));
      build.onLoad({ filter: /\.ts$/ }, ({ path: file }) => ({
        loader: 'ts',
        contents: (sourceOf(file) ?? readFileSync(file, 'utf8'))
          .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(file).href))
          .replaceAll('import.meta.dirname', JSON.stringify(path.dirname(file)))
          .replaceAll('import.meta.filename', JSON.stringify(file)),
      }));
    },
  };
}
