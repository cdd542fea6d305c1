import path from 'node:path';
import { build, type Plugin } from 'esbuild';
import { sourcePlaces } from '../support/source-places.ts';

export interface TestBundle {
  readonly test: string;
  /** The entry point of the test process: its own code, and the project with the mutants. */
  readonly bundle: string;
  /** Project files in the bundle. */
  readonly inputs: readonly string[];
}

/** Bundles each test file with all project code that it imports into one module, which loads quickly. */
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
    plugins: [worker, sourcePlaces({ sourceOf: (file) => sources.get(path.relative('.', file)) })],
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

/** `t` comes from the worker, a new one for each run. */
const worker: Plugin = {
  name: 'worker',
  setup(build) {
    build.onResolve({ filter: /^tap$/ }, () => ({ path: 'tap', namespace: 'worker' }));
    build.onLoad({ filter: /^tap$/, namespace: 'worker' }, () => ({
      contents: 'export default globalThis.testOfMutants;',
    }));
  },
};
