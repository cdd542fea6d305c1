import t, { type Test } from 'tap';
import type { PipelineConfig } from '../../src/core/config/config.ts';
import { digestOf } from '../../src/core/lib/digest.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import { publishBundles } from '../../src/core/publish/publish.ts';
import { countActions } from '../../src/core/publish/results/result.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import { memoryQueue } from '../../src/workers/memory/memory-queue.ts';
import type { JobResult } from '../../src/workers/queue/job.ts';
import type { JobQueue } from '../../src/workers/queue/job-queue.ts';
import type { RunRecord } from '../../src/workers/queue/run-record.ts';
import { isCancelled } from '../../src/workers/queue/run-transitions.ts';
import { type Case, walkCases } from '../support/sampling.ts';
import { manualClock } from '../workers/manual-clock.ts';
import { stepsOf, withoutIds } from './steps.ts';
import { newLog } from './walk.ts';
import { withFaults } from './with-faults.ts';
import {
  bundleOf,
  contextWith,
  destinationOf,
  type Files,
  leftovers,
  lookAt,
  newWorld,
  publishTo,
  testClock,
  type WorldKind,
  worldKinds,
} from './world.ts';

/*
 * Runs are cancelled at each operation of their publications. Afterwards, the next run of the bundle
 * publishes without force.
 */

const v1: Files = { 'a.txt': 'a1', 'dir/c.txt': 'c1' };
const v2: Files = { 'a.txt': 'a2', 'new/d.txt': 'd2' };

interface Scenario {
  name: string;
  workflow: 'additive' | 'replacement';
  /** The version that was published before. */
  before: Files | null;
  outcome: Files;
}

const scenarios: readonly [Scenario, ...Scenario[]] = [
  { name: 'publish_new', workflow: 'additive', before: null, outcome: v2 },
  { name: 'upsert_additive', workflow: 'additive', before: v1, outcome: { ...v1, ...v2 } },
  { name: 'replace_catalog', workflow: 'replacement', before: v1, outcome: v2 },
];

/** Publishes `v2` to the storage as a run of `maps` does. */
async function publish(
  storage: Storage,
  { workflow }: Scenario,
  { runId, signal }: { runId: string; signal: AbortSignal },
): Promise<JobResult> {
  const pipeline: PipelineConfig = {
    id: 'maps',
    source: { backend: 'http_upload', maxUploadSize: 1, maxFiles: 1 },
    sourceId: 'maps',
    destinations: [destinationOf(workflow)],
    maxWaiting: null,
    retryForMs: null,
    runTimeoutMs: 3_600_000,
    discoveryTimeoutMs: 3_600_000,
    whileRetrying: 'pass',
    schedule: null,
    watch: null,
    sceneMaps: { contentRules: 'warning' },
  };
  const context = { ...contextWith(testClock()), openStorage: async () => storage, signal };
  const request = { dryRun: false, force: false, runId };
  const pipelines = [await publishBundles(context, pipeline, [bundleOf(v2)], request)];
  return {
    run: { dryRun: false, force: false, pipelines, counters: countActions(pipelines), warnings: [] },
  };
}

async function runTo(queue: JobQueue, runId: string): Promise<RunRecord> {
  const admission = await queue.reserve({ pipelineId: 'maps' });
  await admission.accept({ runId, pipelineId: 'maps', staged: null }, digestOf(runId));
  await queue.untilFinished(runId, new AbortController().signal);
  return (await queue.find(runId)) as RunRecord;
}

interface Walked {
  operations: string[];
  wasCancelled: boolean;
  wrong: string[];
}

/** Cancels the first run when its operation `at` begins, or never, and then runs a second one. */
async function walk(t: Test, kind: WorldKind, scenario: Scenario, at: number | null): Promise<Walked> {
  const world = newWorld(kind, t);
  if (scenario.before !== null)
    await publishTo(await world.open(), { files: scenario.before, workflow: scenario.workflow });
  const queue = memoryQueue({
    clock: manualClock(),
    log: silentLog,
    queueSize: 10,
    maxConcurrency: 1,
    retentionMs: 60_000,
    onExpire: async () => undefined,
  });
  t.teardown(() => queue.close(0));
  const operations: string[] = [];
  const count = (name: string): number => {
    const length = operations.push(name);
    if (length === at) void queue.cancel('maps.1');
    return length;
  };
  const watched = { ...newLog(), operations: Object.assign([], { push: count }) };
  await queue.start(async (job, { signal }) => {
    const storage = await world.open();
    const first = job.runId === 'maps.1' ? withFaults(storage, null, watched) : storage;
    return publish(first, scenario, { runId: job.runId, signal });
  });
  const cancelled = await runTo(queue, 'maps.1');
  const wrong = (await lookAt(world)).catalogMismatches.map((what) => `after the cancellation ${what}`);
  if (!isCancelled(cancelled) && cancelled.status !== 'succeeded') wrong.push(`it ended ${cancelled.status}`);
  const next = await runTo(queue, 'maps.2');
  if (next.status !== 'succeeded') wrong.push(`the next run ended ${JSON.stringify(next.destinations)}`);
  const { files, state, catalogMismatches } = await lookAt(world);
  if (state.kind !== 'valid' || state.catalog.pending !== null) wrong.push(`the state is ${state.kind}`);
  wrong.push(...catalogMismatches, ...leftovers(files).map((name) => `"${name}" was left behind`));
  const found = [...files].filter(([name]) => !name.endsWith('.publisher.json'));
  const wanted = Object.entries(scenario.outcome).map(([name, text]) => [`bundle/${name}`, text]);
  if (JSON.stringify(found.sort()) !== JSON.stringify(wanted.sort()))
    wrong.push(`there is ${JSON.stringify(found)}`);
  return { operations, wasCancelled: isCancelled(cancelled), wrong };
}

const cases: Case[] = [];
for (const kind of worldKinds)
  for (const scenario of scenarios)
    t.test(`${kind}: ${scenario.name}, without faults`, async (test) => {
      const { operations, wrong, wasCancelled } = await walk(test, kind, scenario, null);
      test.same(wrong, []);
      test.notOk(wasCancelled);
      const steps = stepsOf(operations);
      for (const [index, operation] of operations.entries())
        cases.push({
          name: `${kind}: ${scenario.name}, cancelled at ${index + 1} ${withoutIds(operation)}`,
          stratum: `${kind}: ${steps[index] as string}`,
          run: async () => (await walk(t, kind, scenario, index + 1)).wrong,
        });
    });

t.test('after a cancellation at any step, the next run publishes the bundle without force', async (t) => {
  t.ok(cases.length > 200, `${cases.length} steps`);
  await walkCases(t, cases, { what: 'cancelled runs' });
});

t.test('a run that is cancelled before it publishes is stopped', async (t) => {
  const [scenario] = scenarios;
  t.ok((await walk(t, 'memory files', scenario, 1)).wasCancelled);
});
