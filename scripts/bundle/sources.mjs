/* What the bundles have in common: which package an import names, and where a module of ours will lie. */
import { isBuiltin } from 'node:module';
import path from 'node:path';
import { readFileSync } from 'node:fs';

const source = path.resolve('src');

/**
 * The package that an import names: `@aws-sdk/client-s3` for `@aws-sdk/client-s3/dist/x.js`.
 *
 * @param {string} specifier
 */
export function packageOf(specifier) {
  const parts = specifier.split('/');
  return parts.slice(0, specifier.startsWith('@') ? 2 : 1).join('/');
}

/**
 * The name that tsc gives to a module, below `dist`: `cli/main.js` for `src/cli/main.ts`.
 *
 * @param {string} file
 */
export function emittedName(file) {
  return path.relative(source, file).split(path.sep).join('/').replace(/\.ts$/, '.js');
}

/**
 * A plugin for esbuild: packages that our own code imports stay where they are, but for those that are to be
 * part of the bundle, with whatever they import themselves. A module finds the files that belong to it from
 * where tsc put it, and not from where the bundle is: `urlOf` makes the expression for its `import.meta.url`.
 *
 * @param {ReadonlySet<string>} inlined
 * @param {(emitted: string) => string} urlOf
 * @returns {import('esbuild').Plugin}
 */
export function ownCode(inlined, urlOf) {
  return {
    name: 'own-code',
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /^[^./]/ }, ({ path: specifier, importer, kind }) => {
        if (kind === 'entry-point' || isBuiltin(specifier)) return undefined;
        const isOurs = importer.startsWith(source + path.sep);
        return isOurs && !inlined.has(packageOf(specifier)) ? { external: true } : undefined;
      });
      onLoad({ filter: /[\\/]src[\\/].*\.ts$/ }, ({ path: file }) => {
        const text = readFileSync(file, 'utf8');
        return { loader: 'ts', contents: text.replaceAll('import.meta.url', urlOf(emittedName(file))) };
      });
    },
  };
}
