/* Helpers that all bundles share: which packages to include, and where the output of each module goes. */
import { readFileSync } from 'node:fs';
import path from 'node:path';

const source = path.resolve('src');

/**
 * Returns the name of the package in a path: `@aws-sdk/client-s3` for `@aws-sdk/client-s3/dist/x.js`.
 *
 * @param {string} specifier
 */
export function packageOf(specifier) {
  const parts = specifier.split('/');
  return parts.slice(0, specifier.startsWith('@') ? 2 : 1).join('/');
}

/**
 * Returns the path of the module that tsc creates for a source file, relative to `dist`: `cli/main.js` for
 * `src/cli/main.ts`.
 *
 * @param {string} file
 */
export function emittedName(file) {
  return path.relative(source, file).split(path.sep).join('/').replace(/\.ts$/, '.js');
}

/** These packages are not bundled. Users install them if they use a feature that needs them. */
const { peerDependencies } = JSON.parse(readFileSync('package.json', 'utf8'));

/**
 * Optional parts of packages, which work without them: native modules, and clients for servers that we do not
 * use.
 */
const absent =
  /\.node$|^(?:cpu-features|msgpackr-extract|@napi-rs\/nice|@redis\/client|@valkey\/valkey-glide|pg)$/;

/**
 * An esbuild plugin that includes all packages in the bundle, except for peer dependencies. In order to find
 * data files, `import.meta.url` has to be where the module would be in `dist`; `urlOf` returns an expression
 * for that.
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
      // The default entry point of this package cannot be bundled.
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
