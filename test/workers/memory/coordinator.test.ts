import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { parseConfig } from '../../../src/core/config/load.ts';
import { digestOf } from '../../../src/core/digest.ts';
import { silentLog } from '../../../src/core/log.ts';
import type { Coordinator } from '../../../src/workers/coordinator.ts';
import { createCoordinator, prepareStaging } from '../../../src/workers/memory/coordinator.ts';
import type { RunRecord } from '../../../src/workers/run-record.ts';
import { manualClock, type ManualClock } from '../manual-clock.ts';

async function start(t: Test): Promise<{ coordinator: Coordinator; clock: ManualClock; staging: string }> {
  const root = t.testdir();
  const yaml = `
upload_tokens: [{id: ci, value_env: CI, pipelines: [maps]}]
server: {http: {retention: 1h}, staging: {directory: ./staging}}
pipelines:
  - id: maps
    source: {backend: http_upload}
    destinations: [{id: web, backend: local, path: ./public}]
`;
  const { config } = parseConfig(Buffer.from(yaml), path.join(root, 'waybill.yaml'), { home: root });
  const staging = config.server.staging.directory;
  await prepareStaging(staging);
  const clock = manualClock();
  const workerFile = new URL('../../fixtures/workers/misbehaving.mjs', import.meta.url);
  const coordinator = createCoordinator({
    config,
    env: {},
    clock,
    log: silentLog,
    verbose: () => false,
    notify: () => undefined,
    workerFile,
  });
  t.teardown(() => coordinator.close(0));
  await coordinator.start();
  return { coordinator, clock, staging };
}

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

t.test('a run whose thread broke is failed, and the one behind it succeeds', async (t) => {
  const { coordinator } = await start(t);
  t.match((await run(coordinator, 'maps.1', 'exit')).record, {
    status: 'failed',
    error: { code: 'worker_failed', retryable: true },
  });
  t.match((await run(coordinator, 'maps.2', '.')).record, { status: 'succeeded', error: null });
});

t.test("a staged bundle stays as long as its run's record and goes with it", async (t) => {
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

t.test('what was staged for a run goes when it is cancelled, and its record stays', async (t) => {
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

t.test('closing clears staging', async (t) => {
  const { coordinator, staging } = await start(t);
  await run(coordinator, 'maps.1', '.');
  t.equal(readdirSync(staging).length, 1);
  t.same(await coordinator.close(1_000), { unfinished: [] });
  t.same(readdirSync(staging), []);
});

t.test('a run that has nothing staged expires like any other, and takes nothing with it', async (t) => {
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
