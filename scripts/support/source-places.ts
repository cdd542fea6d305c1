import { readFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Plugin } from 'esbuild';

interface Places {
  /** The text of a source file to bundle instead of its content. */
  sourceOf?: (file: string) => string | undefined;
  /** The URL to start instead of a file, by the absolute path of the file. */
  programs?: ReadonlyMap<string, string>;
}

/** For bundles: a module finds its data files relative to its source, not to the bundle. */
export function sourcePlaces({ sourceOf = () => undefined, programs = new Map() }: Places = {}): Plugin {
  return {
    name: 'source-places',
    setup(build) {
      // A package file that is imported by its path is the package's own file, not a second copy.
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

/** Relative file names in strings, except imports. */
function withPrograms(text: string, directory: string, programs: ReadonlyMap<string, string>): string {
  if (programs.size === 0) return text;
  return text.replaceAll(/(?<!from |import\()'(\.{1,2}\/[^'\n]+)'/g, (all, name: string) => {
    const program = programs.get(path.resolve(directory, name));
    return program === undefined ? all : JSON.stringify(program);
  });
}

/** The names are concatenated here, because this file may be bundled too. */
function withPlaces(text: string, places: Readonly<Record<string, string>>): string {
  return Object.entries(places).reduce(
    (done, [name, place]) => done.replaceAll(`import.meta.${name}`, JSON.stringify(place)),
    text,
  );
}
