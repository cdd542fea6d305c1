import fc from 'fast-check';
import t from 'tap';
import type { DestinationConfig, PipelineConfig } from '../../src/core/config/config.ts';
import type { CoreContext } from '../../src/core/context.ts';
import { publishPipeline } from '../../src/core/publish/publish.ts';
import type { PipelineResult } from '../../src/core/publish/results/result.ts';
import { listedKey } from '../../src/core/storage/key.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import { type MemoryDisk, memoryStorage } from '../support/memory-storage.ts';
import { howMany } from '../support/sampling.ts';
import { aroundOperations, scheduled } from './interleaved.ts';
import { contextWith, destinationOf, newWorld, put, snapshot, testClock, type World } from './world.ts';

/**
 * Concurrent runs of one `fixed` destination. The source gets a newer bundle during a run, which must not
 * overwrite it with the older one. If the newer bundle is removed from the source, the older one is
 * published.
 */

const rounds = howMany(200, 20);
const kinds = ['memory files', 'memory objects', 'local'] as const;

const location = { backend: 'local', path: '/source' } as const;

async function addBundle(source: Storage, name: string, created: string): Promise<void> {
  await put(source, `${name}/which.txt`, name);
  await put(source, `${name}/${name}.txt`, name);
  const files = ['which.txt', `${name}.txt`];
  await put(source, `${name}/manifest.json`, JSON.stringify({ created, files }));
}

async function run(
  source: Storage,
  destination: Storage,
  settings: Partial<DestinationConfig> & { dryRun?: boolean } = {},
  more: Partial<CoreContext> = {},
): Promise<PipelineResult> {
  const { dryRun = false, ...overrides } = settings;
  const pipeline: PipelineConfig = {
    id: 'maps',
    source: location,
    sourceId: location.path,
    maxWaiting: null,
    retryForMs: null,
    runTimeoutMs: 3_600_000,
    discoveryTimeoutMs: 3_600_000,
    whileRetrying: 'pass',
    schedule: null,
    watch: null,
    sceneMaps: { contentRules: 'warning' },
    destinations: [{ ...destinationOf('replacement'), mapping: 'fixed', ...overrides }],
  };
  const openStorage: CoreContext['openStorage'] = async ({ backend, ...place }) =>
    'path' in place && place.path === location.path && backend === 'local' ? source : destination;
  const context = { ...contextWith(testClock()), openStorage, ...more };
  return publishPipeline(context, pipeline, { dryRun, force: false });
}

const which = async (world: World): Promise<string | undefined> =>
  (await snapshot(await world.open())).get('which.txt');

const oldest = '2026-11-20T00:00:00.0000001Z';
const newer = '2026-11-20T00:00:00.0000002Z';

for (const kind of kinds) {
  t.test(`${kind}: a run that was overtaken by a newer bundle publishes the newer one`, async (t) => {
    for (const created of [newer, oldest]) {
      const world = newWorld(kind, t);
      const disk: MemoryDisk = new Map();
      const source = memoryStorage({ disk, flavour: 'files' });
      await addBundle(source, 'b', oldest);
      let overtaken: PipelineResult | undefined;
      // Its time is the same, but its path comes first in the order.
      const name = created === newer ? 'c' : 'a';
      const slow = aroundOperations(
        source,
        async (label) => {
          if (overtaken !== undefined || !label.includes('b/which.txt')) return;
          overtaken = {} as PipelineResult;
          await addBundle(source, name, created);
          overtaken = await run(memoryStorage({ disk, flavour: 'files' }), await world.open());
        },
        async () => undefined,
      );
      const { destinations, status } = await run(slow, await world.open());
      t.match(overtaken, {
        status: 'ok',
        destinations: [{ actions: [{ action: 'publish_new', bundle: name }] }],
      });
      t.equal(status, 'ok');
      t.match(destinations[0]?.actions, [{ bundle: name, action: 'skip_same', error: null }]);
      t.match(destinations[0]?.warnings, [
        { code: 'fixed_bundle_selected', message: new RegExp(`"${name}"`) },
      ]);
      t.equal(await which(world), name);
    }
  });

  t.test(`${kind}: removing the newest bundle from the source publishes the previous one`, async (t) => {
    const world = newWorld(kind, t);
    const source = memoryStorage({ flavour: 'files' });
    await addBundle(source, 'b1', oldest);
    await addBundle(source, 'b2', newer);
    await run(source, await world.open());
    t.equal(await which(world), 'b2');
    for (const file of ['manifest.json', 'which.txt', 'b2.txt']) await source.remove(listedKey(`b2/${file}`));
    const dry = await run(source, await world.open(), { dryRun: true });
    t.match(dry.destinations[0]?.actions, [{ bundle: 'b1', action: 'replace_catalog', error: null }]);
    const refused = await run(source, await world.open(), { stale: 'refuse' });
    t.match(refused.destinations[0]?.actions, [{ bundle: 'b1', error: { code: 'stale_bundle' } }]);
    t.equal(await which(world), 'b2');
    const back = await run(source, await world.open());
    t.match(back.destinations[0]?.actions, [{ bundle: 'b1', action: 'replace_catalog', error: null }]);
    t.equal(await which(world), 'b1');
    t.match((await run(source, await world.open())).destinations[0]?.actions, [{ action: 'skip_same' }]);
  });

  t.test(
    `${kind}: two runs during the arrival of a newer bundle, ${rounds} times, publish the newer one`,
    async (t) => {
      let runs = 0;
      await fc.assert(
        fc.asyncProperty(fc.scheduler(), fc.nat(60), async (scheduler, delay) => {
          const world = newWorld(kind, t);
          const disk: MemoryDisk = new Map();
          const source = (): Storage => memoryStorage({ disk, flavour: 'files' });
          await addBundle(source(), 'b1', oldest);
          const second = async (): Promise<PipelineResult> => {
            for (let turn = 0; turn < delay; turn += 1) await scheduler.schedule(Promise.resolve(), 'later');
            await addBundle(source(), 'b2', newer);
            return run(scheduled(source(), scheduler), scheduled(await world.open(), scheduler));
          };
          const results = await scheduler.waitFor(
            Promise.all([
              run(scheduled(source(), scheduler), scheduled(await world.open(), scheduler)),
              second(),
            ]),
          );
          for (const { destinations } of results)
            for (const { actions, error } of destinations) {
              runs += 1;
              const failure = error ?? actions[0]?.error ?? null;
              // Timeouts are real here, because time passes only by waiting.
              if (failure !== null && failure.code !== 'destination_busy' && failure.code !== 'lease_lost')
                throw new Error(`${failure.code}: ${failure.message}`);
            }
          const found = await which(world);
          const isSecondDone = results[1].status === 'ok';
          if (isSecondDone && found !== 'b2') throw new Error(`back to ${String(found)}`);
        }),
        { numRuns: rounds },
      );
      t.ok(runs >= 2 * rounds, `${runs} runs`);
    },
  );
}
