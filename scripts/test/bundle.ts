import { isBuiltin } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { packageOf } from '../bundle/sources.mjs';
import { sourcePlaces } from '../support/source-places.ts';

/**
 * Packages that go into the bundles with all that they import: a process would find and read hundreds of
 * files of them. The others have native parts, files of their own or hardly anything to load, or are loaded
 * by import(), too, and would be there twice.
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
 * Packages that are no ES modules ask for Node.js's own ones with this. The name is put together, since this
 * very file may be bundled, too.
 */
const urlOfBundle = ['import', 'meta', 'url'].join('.');
const ownRequire = `import { createRequire as requireOfBundle } from 'node:module';const require = requireOfBundle(${urlOfBundle});`;

/**
 * Programs of this project that tests and sources start by the name of a file, which they have in a string:
 * the file named, and what is bundled in its place.
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
 * Bundles test files with all of this project that they import, and with the packages that load most; what
 * they share is in files of its own. A process that loads a bundle starts in a fraction of the processor time
 * that it takes to find and compile hundreds of modules. So does a process or thread that it starts from
 * source: its program is a bundle, too.
 *
 * @param directory where to: below the project, where the other packages are found
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
