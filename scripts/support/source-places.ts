import { readFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Plugin } from 'esbuild';

interface Places {
  /** Returns the source to use instead of the content of a file. */
  sourceOf?: (file: string) => string | undefined;
  /** The URL of the program to start instead of a file, by the absolute path of the file. */
  programs?: ReadonlyMap<string, string>;
}

/**
 * An esbuild plugin that lets modules find their data files relative to their source instead of the bundle.
 */
export function sourcePlaces({ sourceOf = () => undefined, programs = new Map() }: Places = {}): Plugin {
  return {
    name: 'source-places',
    setup(build) {
      // If a file in a package is imported by its path, use the file in the package instead of making a copy.
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

/** Replaces relative file names in strings, but not in imports. */
function withPrograms(text: string, directory: string, programs: ReadonlyMap<string, string>): string {
  if (programs.size === 0) return text;
  return text.replaceAll(/(?<!from |import\()'(\.{1,2}\/[^'\n]+)'/g, (all, name: string) => {
    const program = programs.get(path.resolve(directory, name));
    return program === undefined ? all : JSON.stringify(program);
  });
}

/** This file may be bundled as well, so it must not contain the names itself. */
function withPlaces(text: string, places: Readonly<Record<string, string>>): string {
  return Object.entries(places).reduce(
    (done, [name, place]) => done.replaceAll(`import.meta.${name}`, JSON.stringify(place)),
    text,
  );
}
