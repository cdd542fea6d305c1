import path from 'node:path';
import { build, type Plugin } from 'esbuild';
import { sourcePlaces } from '../support/source-places.ts';

export interface TestBundle {
  readonly test: string;
  /**
   * The module that the test process loads. It contains the test and the parts of the project that it uses,
   * with all mutants.
   */
  readonly bundle: string;
  /** The files of the project that are in the bundle. */
  readonly inputs: readonly string[];
}

/** Bundles each test file with everything that it imports from the project, so that it loads quickly. */
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

/** Bundles the program that runs the tests. */
export async function bundleWorker(directory: string): Promise<string> {
  const outfile = path.join(directory, 'worker.mjs');
  const entryPoints = ['scripts/mutate/worker.ts'];
  await build({ entryPoints, outfile, bundle: true, format: 'esm', platform: 'node', packages: 'external' });
  return outfile;
}

/** `t` comes from the worker, because every run needs a new one. */
const worker: Plugin = {
  name: 'worker',
  setup(build) {
    build.onResolve({ filter: /^tap$/ }, () => ({ path: 'tap', namespace: 'worker' }));
    build.onLoad({ filter: /^tap$/, namespace: 'worker' }, () => ({
      contents: 'export default globalThis.testOfMutants;',
    }));
  },
};
