import { isBuiltin } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { packageOf } from '../bundle/sources.mjs';
import { sourcePlaces } from '../support/source-places.ts';

/**
 * Packages to include in the bundles, which saves reading hundreds of files. The others are left out because
 * they have native modules or data files, load quickly anyway, or would be loaded twice because they are also
 * imported with import().
 */
const inlined = new Set([
  '@aws-sdk/client-s3',
  '@smithy/node-http-handler',
  '@smithy/signature-v4',
  'ajv',
  'ajv-formats',
  'busboy',
  'canonicalize',
  'commander',
  'cors',
  'express',
  'fast-check',
  'fast-xml-parser',
  'ipaddr.js',
  'joi',
  'mime',
  'multer',
  'negotiator',
  'p-map',
  'prom-client',
  'tap',
  'tar',
  'yaml',
]);

/**
 * Lets CommonJS packages load Node.js modules. The name is put together at run time, because this file may be
 * bundled as well.
 */
const urlOfBundle = ['import', 'meta', 'url'].join('.');
const ownRequire = `import { createRequire as requireOfBundle } from 'node:module';const require = requireOfBundle(${urlOfBundle});`;

/** Programs in this project that are started by file name, and the files to bundle for them. */
const programs: Readonly<Record<string, string>> = {
  'examples/demo/demo.ts': 'examples/demo/demo.ts',
  'src/workers/disk/disk-thread-from-source.mjs': 'src/workers/disk/disk-thread.ts',
  'src/workers/embedded/file-reader.ts': 'src/workers/embedded/file-reader.ts',
  'src/workers/threads/thread-from-source.mjs': 'src/workers/threads/thread.ts',
  'test/faults/publisher-process.ts': 'test/faults/publisher-process.ts',
  'test/fixtures/workers/dying-publisher-from-source.mjs': 'test/fixtures/workers/dying-publisher.ts',
};

/**
 * Bundles test files, with everything that they import from the project and the packages that take longest to
 * load. Code that several of them use is in separate files. Starting a test then takes a fraction of the
 * processor time, because it does not have to load hundreds of modules. The same is true for the processes
 * and threads that it starts from source.
 *
 * @param directory Where to write the bundles. Must be inside the project, so that other packages can be
 *   found.
 * @returns the bundle of each test file
 */
export async function bundle(
  files: readonly string[],
  directory: string,
): Promise<ReadonlyMap<string, string>> {
  const bundleOf = (file: string): string => path.join(directory, file.replace(/\.ts$/, '.mjs'));
  const urls = new Map(
    Object.entries(programs).map(([named, file]) => [
      path.resolve(named),
      pathToFileURL(bundleOf(file)).href,
    ]),
  );
  await build({
    entryPoints: [...new Set([...files, ...Object.values(programs)])],
    outdir: directory,
    outbase: '.',
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    sourcemap: 'linked',
    sourcesContent: false,
    outExtension: { '.js': '.mjs' },
    banner: { js: ownRequire },
    plugins: [packagesInside, sourcePlaces({ programs: urls })],
    logLevel: 'warning',
  });
  return new Map(files.map((file) => [file, bundleOf(file)]));
}

const packagesInside: Plugin = {
  name: 'packages-inside',
  setup(build) {
    build.onResolve(
      { filter: /^[^./]/ },
      async ({ path: specifier, importer, kind, resolveDir, pluginData }) => {
        if (pluginData === packagesInside || kind === 'entry-point' || isBuiltin(specifier)) return undefined;
        const isOfPackage = importer.includes(`${path.sep}node_modules${path.sep}`);
        if (!isOfPackage && !inlined.has(packageOf(specifier))) return { external: true };
        if (kind !== 'dynamic-import') return undefined;
        // Node.js detects the exports of a CommonJS module when it loads it. In a bundle, this would not
        // work.
        const found = await build.resolve(specifier, {
          kind,
          importer,
          resolveDir,
          pluginData: packagesInside,
        });
        return { path: pathToFileURL(found.path).href, external: true };
      },
    );
  },
};
