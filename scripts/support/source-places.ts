import { readFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Plugin } from 'esbuild';

interface Places {
  /** The text of a file to be bundled in place of its own. */
  sourceOf?: (file: string) => string | undefined;
  /** By the absolute path of a file that is started by its name: the URL of what to start in its place. */
  programs?: ReadonlyMap<string, string>;
}

/**
 * For bundles: a module finds what belongs to it from where its source is, and not from where the bundle is.
 */
export function sourcePlaces({ sourceOf = () => undefined, programs = new Map() }: Places = {}): Plugin {
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
        contents: withPlaces(
          withPrograms(sourceOf(file) ?? readFileSync(file, 'utf8'), path.dirname(file), programs),
          { url: pathToFileURL(file).href, dirname: path.dirname(file), filename: file },
        ),
      }));
    },
  };
}

/** Relative names in strings, those of imports apart. */
function withPrograms(text: string, directory: string, programs: ReadonlyMap<string, string>): string {
  if (programs.size === 0) return text;
  return text.replaceAll(/(?<!from |import\()'(\.{1,2}\/[^'\n]+)'/g, (all, name: string) => {
    const program = programs.get(path.resolve(directory, name));
    return program === undefined ? all : JSON.stringify(program);
  });
}

/** The names are put together here: this very file may be bundled, too. */
function withPlaces(text: string, places: Readonly<Record<string, string>>): string {
  return Object.entries(places).reduce(
    (done, [name, place]) => done.replaceAll(`import.meta.${name}`, JSON.stringify(place)),
    text,
  );
}
