import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { Worker } from 'node:worker_threads';
import t, { type Test } from 'tap';
import { stageUpload } from '../../../src/core/bundle/stage-upload.ts';
import type { Holder } from '../../../src/core/catalog/catalog.ts';
import { isKnownDead, newHolder } from '../../../src/core/catalog/lease/this-holder.ts';
import { parseConfig } from '../../../src/core/config/load-config.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { prepareStaging } from '../../../src/workers/coordinator/single-host.ts';
import type { JobResult, PublishJob } from '../../../src/workers/queue/job.ts';
import { workerPool } from '../../../src/workers/threads/pool.ts';
import { bundleTar, inChunks } from '../../fixtures/tar.ts';

// Threads take seconds to start on a busy machine. This is still less than a wait for a stale lease.
t.setTimeout(0);

// Node continues the microtasks of a thread that threw, and a small bundle is published within one turn of
// the event loop. This many files take more than one turn.
const files = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`file-${index + 100}.txt`, 'x']));

for (const death of ['exit', 'throw', 'memory', 'hang'])
  t.test(
    `after a thread dies during publication (${death}), the next run finishes immediately`,
    async (t) => {
      const { publish, public: site } = await start(t);
      const bundle = `${death}-session`;
      await t.rejects(publish(bundle), { code: 'worker_failed' });
      t.ok(existsSync(path.join(site, bundle, '.publisher.lock')), 'it left its lease');
      t.match(JSON.parse(readFileSync(path.join(site, bundle, '.publisher.json'), 'utf8')), {
        pending: { action: 'publish_new' },
      });

      // A contender waits 120 s for a lease whose holder is not known to be dead, which is longer than a
      // test may take.
      const { run } = await publish(bundle);
      t.match(run.counters, { upsert_additive: 1, failed_destinations: 0 }, JSON.stringify(run));
      t.same(readdirSync(path.join(site, bundle)).sort(), ['.publisher.json', ...Object.keys(files)]);
      t.match((await publish(bundle)).run.counters, { skip_same: 1 });
    },
  );

t.test('a holder is dead once its thread is, and not before, even if the process lives', async (t) => {
  const source = new URL('../../../src/core/catalog/lease/this-holder.ts', import.meta.url);
  const worker = new Worker(
    `import { register } from 'tsx/esm/api';
     import { parentPort } from 'node:worker_threads';
     register();
     const { newHolder } = await import(${JSON.stringify(source.href)});
     parentPort.postMessage(newHolder());
     setInterval(() => undefined, 1_000);`,
    { eval: true },
  );
  t.teardown(() => worker.terminate());
  const [holder] = (await once(worker, 'message')) as [Holder];
  t.notOk(isKnownDead(holder));
  t.notOk(isKnownDead({ ...holder, thread: null }), 'a holder from before threads had IDs');
  t.notOk(isKnownDead({ ...holder, host: 'elsewhere' }));
  const mine = newHolder();
  t.not(holder.thread, mine.thread);
  await worker.terminate();
  t.ok(isKnownDead(holder));
  t.notOk(isKnownDead({ ...holder, thread: null }), 'then only the process counts');
  t.notOk(isKnownDead({ ...holder, host: 'elsewhere' }), 'nothing is known about another host');
  t.notOk(isKnownDead(mine));
});

async function start(t: Test): Promise<{ publish: (bundle: string) => Promise<JobResult>; public: string }> {
  const root = t.testdir({});
  const yaml = `
upload_tokens: [{id: ci, value_env: CI, pipelines: [maps]}]
server: {staging: {directory: ./staging}}
pipelines:
  - id: maps
    source: {backend: http_upload}
    destinations: [{id: web, backend: local, path: ./public}]
`;
  const { config } = parseConfig(Buffer.from(yaml), path.join(root, 'waybill.yaml'), { home: root });
  const staging = config.server.staging.directory;
  await prepareStaging(staging);
  const pool = workerPool({
    clock: systemClock,
    log: silentLog,
    file: new URL('../../fixtures/workers/dying-publisher-from-source.mjs', import.meta.url),
    threads: 1,
    data: { env: {} },
    configOf: () => config,
    env: {},
    graceMs: 60_000,
    // Long enough for a thread to load all its modules on a busy machine.
    silenceMs: 10_000,
    limits: { maxOldGenerationSizeMb: 128 },
    notify: () => undefined,
  });
  t.teardown(() => pool.close());
  let runs = 0;
  return {
    public: path.join(root, 'public'),
    publish: async (bundlePath) => {
      runs += 1;
      const directory = path.join(staging, `bundle-${runs}`);
      await stageUpload({
        input: inChunks(bundleTar(files, { name: bundlePath })),
        directory,
        limits: { maxUploadSize: 2 ** 20, maxFiles: 1000 },
        signal: new AbortController().signal,
      });
      const job: PublishJob = { runId: `maps.${runs}`, pipelineId: 'maps', staged: directory, bundlePath };
      return pool.process(job, { signal: new AbortController().signal, onProgress: () => undefined });
    },
  };
}
