import { readFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, type Plugin } from 'esbuild';

export interface TestBundle {
  readonly test: string;
  /** The file that runs the test: its own code, and ours, with the mutants. */
  readonly bundle: string;
  /** Our own files in it. */
  readonly inputs: readonly string[];
}

/** Puts each test file and everything of ours that it imports into one module: that is loaded quickly. */
export async function bundleTests(
  tests: readonly string[],
  sources: ReadonlyMap<string, string>,
  directory: string,
): Promise<TestBundle[]> {
  const { metafile } = await build({
    entryPoints: [...tests],
    outdir: directory,
    outbase: '.',
    outExtension: { '.js': '.mjs' },
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    packages: 'external',
    metafile: true,
    logLevel: 'error',
    plugins: [withMutants(sources)],
  });
  return Object.entries(metafile.outputs).map(([bundle, { entryPoint = '', inputs }]) => ({
    test: entryPoint,
    bundle,
    inputs: Object.keys(inputs),
  }));
}

/** Bundles the process that runs the tests. */
export async function bundleWorker(directory: string): Promise<string> {
  const outfile = path.join(directory, 'worker.mjs');
  const entryPoints = ['scripts/mutate/worker.ts'];
  await build({ entryPoints, outfile, bundle: true, format: 'esm', platform: 'node', packages: 'external' });
  return outfile;
}

function withMutants(sources: ReadonlyMap<string, string>): Plugin {
  return {
    name: 'with-mutants',
    setup(build) {
      build.onResolve({ filter: /^tap$/ }, () => ({ path: 'tap', namespace: 'worker' }));
      build.onLoad({ filter: /^tap$/, namespace: 'worker' }, () => ({
        contents: 'export default globalThis.testOfMutants;',
      }));
      build.onLoad({ filter: /\.ts$/ }, ({ path: file }) => {
        const source = sources.get(path.relative('.', file)) ?? readFileSync(file, 'utf8');
        // A module finds the files that belong to it from where it was.
        const contents = source
          .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(file).href))
          .replaceAll('import.meta.dirname', JSON.stringify(path.dirname(file)))
          .replaceAll('import.meta.filename', JSON.stringify(file));
        return { loader: 'ts', contents };
      });
    },
  };
}
