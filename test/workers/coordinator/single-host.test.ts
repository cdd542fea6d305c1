import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import type { Config } from '../../../src/core/config/config.ts';
import { parseConfig } from '../../../src/core/config/load-config.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { type Log, silentLog } from '../../../src/core/lib/log.ts';
import { Coordinator, type CoordinatorOptions } from '../../../src/workers/coordinator/coordinator.ts';
import { prepareStaging, singleHost } from '../../../src/workers/coordinator/single-host.ts';
import type { RunRecord } from '../../../src/workers/queue/run-record.ts';
import { type ManualClock, manualClock } from '../manual-clock.ts';

interface Started {
  coordinator: Coordinator;
  clock: ManualClock;
  staging: string;
  /** The same configuration with other pipelines. */
  configured: (pipelines: string) => Config;
}

async function start(
  t: Test,
  {
    worker = 'misbehaving',
    log = silentLog,
    requireAnswers,
  }: { worker?: string; log?: Log; requireAnswers?: () => void } = {},
): Promise<Started> {
  const root = t.testdir();
  const configured = (pipelines: string): Config => {
    const yaml = `
upload_tokens: []
server: {retry_for: 0s, http: {retention: 1h}, staging: {directory: ./staging}}
pipelines:${pipelines}`;
    return parseConfig(Buffer.from(yaml), path.join(root, 'waybill.yaml'), { home: root }).config;
  };
  const config = configured(pipelineTo('maps', 'web'));
  const staging = config.server.staging.directory;
  await prepareStaging(staging);
  const clock = manualClock();
  const workerFile = new URL(`../../fixtures/workers/${worker}.mjs`, import.meta.url);
  const options: CoordinatorOptions = {
    config,
    env: {},
    clock,
    log,
    verbose: () => true,
    notify: () => undefined,
    workerFile,
    requireAnswers,
  };
  const coordinator = await Coordinator.open(options, (common) => singleHost(options, common));
  t.teardown(() => coordinator.close(0));
  await coordinator.start();
  return { coordinator, clock, staging, configured };
}

const pipelineTo = (id: string, destination: string): string =>
  `\n  - {id: ${id}, source: {backend: http_upload}, destinations: [{id: ${destination}, backend: local, path: ./${destination}}]}`;

async function run(
  { queue, staging }: Coordinator,
  runId: string,
  bundlePath: string,
): Promise<{ staged: string; record: RunRecord }> {
  const staged = await staging.create();
  const admission = await queue.reserve({ pipelineId: 'maps' });
  await admission.accept({ runId, pipelineId: 'maps', staged, bundlePath }, digestOf(runId));
  for (;;) {
    const record = await queue.find(runId);
    if (record?.finished_at != null) return { staged, record };
    await new Promise((resolve) => setImmediate(resolve));
  }
}

t.test('a run whose thread crashed fails, and the next one succeeds', async (t) => {
  const { coordinator } = await start(t);
  t.match((await run(coordinator, 'maps.1', 'exit')).record, {
    status: 'failed',
    error: { code: 'worker_failed', retryable: true },
  });
  t.match((await run(coordinator, 'maps.2', '.')).record, { status: 'succeeded', error: null });
});

t.test("a staged bundle is kept as long as its run's record", async (t) => {
  const { coordinator, clock } = await start(t);
  const { staged } = await run(coordinator, 'maps.1', '.');
  await clock.advance(3_599_999);
  t.ok(existsSync(staged));
  t.match(await coordinator.queue.find('maps.1'), { status: 'succeeded' });
  await clock.advance(1);
  t.equal(await coordinator.queue.find('maps.1'), undefined);
  while (existsSync(staged)) await new Promise((resolve) => setImmediate(resolve));
  t.notOk(existsSync(staged));
});

t.test('removes the staged files of a cancelled run, and keeps its record', async (t) => {
  const { coordinator, staging } = await start(t);
  const { queue } = coordinator;
  const staged = await coordinator.staging.create();
  const admission = await queue.reserve({ pipelineId: 'maps' });
  await admission.accept({ runId: 'maps.1', pipelineId: 'maps', staged, bundlePath: 'wait' }, digestOf('{}'));
  for (;;) {
    const record = await queue.find('maps.1');
    if (record?.status === 'running' && record.progress?.outputs_done === 1) break;
    await new Promise((resolve) => setImmediate(resolve));
  }
  t.match(await queue.cancel('maps.1'), { outcome: 'stopping' });
  await queue.untilFinished('maps.1', new AbortController().signal);
  t.match(await queue.find('maps.1'), {
    status: 'failed',
    error: { code: 'cancelled', message: 'the run was cancelled' },
  });
  while (existsSync(staged)) await new Promise((resolve) => setImmediate(resolve));
  t.same(readdirSync(staging), []);
});

t.test('close clears staging', async (t) => {
  const { coordinator, staging } = await start(t);
  await run(coordinator, 'maps.1', '.');
  t.equal(readdirSync(staging).length, 1);
  t.same(await coordinator.close(1_000), { unfinished: [] });
  t.same(readdirSync(staging), []);
});

t.test('a run without staged files expires like any other, and deletes nothing else', async (t) => {
  const { coordinator, clock, staging } = await start(t);
  const kept = await coordinator.staging.create();
  const admission = await coordinator.queue.reserve({ pipelineId: 'maps' });
  await admission.accept({ runId: 'maps.1', pipelineId: 'maps', staged: null }, digestOf('{}'));
  while ((await coordinator.queue.find('maps.1'))?.finished_at == null)
    await new Promise((resolve) => setImmediate(resolve));
  await clock.advance(3_600_001);
  t.equal(await coordinator.queue.find('maps.1'), undefined);
  t.same(readdirSync(staging), [path.basename(kept)]);
});

t.test('a run keeps the settings of its start', async (t) => {
  const began: [unknown, unknown][] = [];
  const debug = (fields: object): void => {
    const { run_id: runId, pipelines } = fields as { run_id: string; pipelines: unknown };
    began.push([runId, pipelines]);
  };
  const { coordinator, configured } = await start(t, {
    worker: 'well-behaved',
    log: { ...silentLog, debug },
  });
  const { queue, staging } = coordinator;
  const accept = async (runId: string, bundlePath: string, pipelineId = 'maps'): Promise<void> => {
    const staged = await staging.create();
    const admission = await queue.reserve({ pipelineId });
    await admission.accept({ runId, pipelineId, staged, bundlePath }, digestOf(runId));
  };
  const untilBegun = async (runs: number): Promise<void> => {
    while (began.length < runs) await new Promise((resolve) => setImmediate(resolve));
  };
  await accept('maps.1', 'wait');
  await untilBegun(1);
  await accept('maps.2', 'wait');
  await coordinator.adopt(configured(pipelineTo('maps', 'mirror') + pipelineTo('docs', 'shelf')));
  t.match(await queue.find('maps.1'), { status: 'running' }, 'it is not aborted');
  await queue.cancel('maps.1');
  await untilBegun(2);
  await accept('docs.1', '.', 'docs');
  await untilBegun(3);
  await accept('maps.3', '.');
  await coordinator.adopt(configured(pipelineTo('docs', 'shelf')));
  await queue.cancel('maps.2');
  await untilBegun(4);
  await queue.untilFinished('maps.3', new AbortController().signal);
  t.match(
    await queue.find('maps.3'),
    { status: 'succeeded' },
    'although its pipeline is no longer configured',
  );
  t.same(began, [
    ['maps.1', [['maps', 'web']]],
    ['maps.2', [['maps', 'mirror']]],
    ['docs.1', [['docs', 'shelf']]],
    ['maps.3', [['maps', 'mirror']]],
  ]);
});

t.test('the staging check fails while uploads are rejected because the disk does not answer', async (t) => {
  let isUnresponsive = true;
  const { coordinator, clock } = await start(t, {
    requireAnswers: () => {
      if (isUnresponsive) throw new WaybillError('staging_unavailable', 'the disk has not answered');
    },
  });
  const failing = async (): Promise<string[]> => {
    const outcomes = await Promise.allSettled(coordinator.checks.map((check) => check.check()));
    return outcomes.flatMap(({ status }, at) =>
      status === 'rejected' ? [coordinator.checks[at]?.name ?? ''] : [],
    );
  };
  t.same(await failing(), ['staging']);
  isUnresponsive = false;
  await clock.advance(2_000);
  t.same(await failing(), []);
});
