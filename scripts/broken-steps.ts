/**
 * `npm run test:broken-steps [-- STEP… --seeds 20]`: checks that the tests notice when a step of the protocol
 * is missing. Removes one step at a time from the source and runs the random walk that should fail, with
 * several seeds. Only one case of each stratum is run (`WAYBILL_TEST_BUDGET=0`), so that the result does not
 * depend on the machine. Fails if a missing step is noticed in less than 19 of 20 runs, or if a walk fails on
 * the original source.
 */
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build } from 'esbuild';
import pMap from 'p-map';
import { everyStep } from '../test/faults/steps.ts';
import { type BrokenStep, brokenSteps } from './broken-steps/steps.ts';
import { sourcePlaces } from './support/source-places.ts';

const requiredShare = 0.95;
/** If a walk does not end, that counts as noticed, too. */
const hangsAfterMs = 300_000;
const quietDomains = path.resolve('scripts/test/quiet-domains.mjs');

interface Run {
  hasFailed: boolean;
  /**
   * Whether a case, or the action itself, has failed. It does not count if only the list of steps differs.
   */
  byCase: boolean;
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { seeds: { type: 'string', default: '20' } },
});
const seeds = Array.from({ length: Number(values.seeds) }, (_, index) => index + 1);
const chosen = brokenSteps.filter(({ step }) => positionals.length === 0 || positionals.includes(step));
if (chosen.length === 0 || seeds.length === 0) throw new Error('no step or no seed was chosen');
mkdirSync('.tap', { recursive: true });
// Must be inside the project, or the bundles will not find its packages.
const directory = mkdtempSync('.tap/broken-steps-');
try {
  process.exitCode = (await main()) ? 0 : 1;
} finally {
  rmSync(directory, { recursive: true, force: true });
}

async function main(): Promise<boolean> {
  let isGood = true;
  for (const suite of new Set(chosen.map((one) => one.suite))) {
    const { hasFailed } = await run(await bundled(suite, 'unchanged'), 1);
    if (hasFailed) console.log(`${suite} fails without a change`);
    isGood &&= !hasFailed;
  }
  console.log('step | suite | noticed | by a case');
  for (const broken of chosen) {
    const bundle = await bundled(broken.suite, broken.step, broken);
    const runs = await pMap(seeds, async (seed) => run(bundle, seed), {
      concurrency: availableParallelism(),
    });
    const noticed = runs.filter(({ hasFailed }) => hasFailed).length;
    const byCase = runs.filter((one) => one.byCase).length;
    console.log(
      `${broken.step} | ${broken.suite} | ${noticed} of ${seeds.length} | ${byCase} of ${seeds.length}`,
    );
    isGood &&= noticed >= requiredShare * seeds.length;
  }
  return isGood;
}

/** Bundles a test file. If `broken` is given, that step is missing from the source. */
async function bundled(suite: string, name: string, broken?: BrokenStep): Promise<string> {
  const outfile = path.join(directory, `${name} ${suite}`.replaceAll(/[^\w-]+/g, '-') + '.mjs');
  const text = broken && withoutStep(broken);
  await build({
    entryPoints: [suite],
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'node',
    packages: 'external',
    logLevel: 'error',
    plugins: [
      sourcePlaces({ sourceOf: (file) => (path.relative('.', file) === broken?.file ? text : undefined) }),
    ],
  });
  return outfile;
}

function withoutStep({ step, file, from, to }: BrokenStep): string {
  const parts = readFileSync(file, 'utf8').split(from);
  if (parts.length !== 2) throw new Error(`${step}: ${file} contains the text ${parts.length - 1} times`);
  return parts.join(to);
}

async function run(bundle: string, seed: number): Promise<Run> {
  const place = mkdtempSync(path.join(tmpdir(), 'waybill-broken-step-'));
  const child = spawn(process.execPath, [`--import=${quietDomains}`, bundle], {
    stdio: ['ignore', 'pipe', 'ignore'],
    timeout: hangsAfterMs,
    killSignal: 'SIGKILL',
    env: {
      ...process.env,
      ...{ TAP: '1', TAP_BAIL: '1', TAP_TIMEOUT: '0', TMPDIR: place },
      ...{ WAYBILL_TEST_SEED: String(seed), WAYBILL_TEST_BUDGET: '0', WAYBILL_TEST_EXHAUSTIVE: '0' },
    },
  });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  rmSync(place, { recursive: true, force: true });
  return { hasFailed: code !== 0, byCase: code !== 0 && !output.includes(everyStep) };
}
