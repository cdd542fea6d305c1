import { isBuiltin } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { packageOf } from '../bundle/sources.mjs';
import { sourcePlaces } from '../support/source-places.ts';

/**
 * Packages that are bundled with everything they import, to avoid reading hundreds of files. The others have
 * native parts or data files, load quickly, or are also loaded by import(), which would duplicate them.
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
 * CommonJS packages use this for Node.js built-ins. The name is concatenated, because this file may be
 * bundled too.
 */
const urlOfBundle = ['import', 'meta', 'url'].join('.');
const ownRequire = `import { createRequire as requireOfBundle } from 'node:module';const require = requireOfBundle(${urlOfBundle});`;

/**
 * Programs of this project that tests and sources start by a file name in a string: the file, and the entry
 * point to bundle instead.
 */
const programs: Readonly<Record<string, string>> = {
  'examples/demo/demo.ts': 'examples/demo/demo.ts',
  'src/workers/disk/disk-thread-from-source.mjs': 'src/workers/disk/disk-thread.ts',
  'src/workers/embedded/file-reader.ts': 'src/workers/embedded/file-reader.ts',
  'src/workers/threads/thread-from-source.mjs': 'src/workers/threads/thread.ts',
  'test/faults/publisher-process.ts': 'test/faults/publisher-process.ts',
  'test/fixtures/workers/dying-publisher-from-source.mjs': 'test/fixtures/workers/dying-publisher.ts',
};

/**
 * Bundles test files with all project code that they import, and with the packages that take longest to load.
 * Shared code is in separate files. A process that loads a bundle starts in a fraction of the processor time
 * that hundreds of modules take. The same applies to the processes and threads that it starts from source.
 *
 * @param directory the output directory, below the project, so that the other packages are found
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
        // CommonJS modules would lose their export names, which Node.js detects at load time.
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
