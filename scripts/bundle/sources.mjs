/* Shared by the bundles: the package that an import names, and the output location of a project module. */
import { readFileSync } from 'node:fs';
import path from 'node:path';

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

/** Packages that the bundles import from node_modules. Users install them if a setting needs them. */
const { peerDependencies } = JSON.parse(readFileSync('package.json', 'utf8'));

/** Optional parts of packages that work without them: native code, and clients of unused servers. */
const absent =
  /\.node$|^(?:cpu-features|msgpackr-extract|@napi-rs\/nice|@redis\/client|@valkey\/valkey-glide|pg)$/;

/**
 * An esbuild plugin. Packages become part of the bundle, except the peer dependencies. A module finds its
 * data files relative to its location in `dist`: `urlOf` returns the expression for its `import.meta.url`.
 *
 * @param {(emitted: string) => string} urlOf
 * @returns {import('esbuild').Plugin}
 */
export function ownCode(urlOf) {
  return {
    name: 'own-code',
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /^[^./]/ }, ({ path: specifier }) =>
        packageOf(specifier) in peerDependencies ? { external: true } : undefined,
      );
      // Its `main` loads its parts in a way that cannot be bundled.
      onResolve({ filter: /^jsonc-parser$/ }, () => ({
        path: path.resolve('node_modules/jsonc-parser/lib/esm/main.js'),
        sideEffects: false,
      }));
      onResolve({ filter: absent }, ({ path: specifier }) => ({ path: specifier, namespace: 'absent' }));
      onLoad({ filter: /.*/, namespace: 'absent' }, ({ path: specifier }) => ({
        contents: `throw new Error(${JSON.stringify(`${specifier} is not part of waybill`)});`,
      }));
      onLoad({ filter: /[\\/]src[\\/].*\.ts$/ }, ({ path: file }) => {
        if (!file.startsWith(source + path.sep)) return undefined;
        const text = readFileSync(file, 'utf8');
        return { loader: 'ts', contents: text.replaceAll('import.meta.url', urlOf(emittedName(file))) };
      });
    },
  };
}
