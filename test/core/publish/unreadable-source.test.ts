import t from 'tap';
import type { PipelineConfig } from '../../../src/core/config/config.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { publishPipeline } from '../../../src/core/publish/publish.ts';
import { countActions } from '../../../src/core/publish/results/result.ts';
import { describeLocation, type StorageLocation } from '../../../src/core/storage/backends.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { contextWith, destinationOf, put, snapshot, testClock } from '../../faults/world.ts';
import { memoryStorage } from '../../support/memory-storage.ts';

const pipeline: PipelineConfig = {
  id: 'maps',
  source: { backend: 'local', path: '/source' },
  destinations: [
    { ...destinationOf('additive', 'web'), location: { backend: 'local', path: '/web' } },
    {
      ...destinationOf('additive', 'root'),
      location: { backend: 'local', path: '/root' },
      mapping: 'fixed',
    },
  ],
  sourceId: '/source',
  maxWaiting: null,
  retryForMs: null,
  runTimeoutMs: 3_600_000,
  discoveryTimeoutMs: 3_600_000,
  whileRetrying: 'pass',
  schedule: null,
  watch: null,
  sceneMaps: { contentRules: 'warning' },
};

async function sourceOf(bundles: string[]): Promise<Storage> {
  const source = memoryStorage({ flavour: 'files' });
  for (const [index, name] of bundles.entries()) {
    await put(source, `${name}/a.txt`, name);
    const manifest = { schema_version: 1, created: `2026-11-2${9 - index}T00:00:00Z`, files: ['a.txt'] };
    await put(source, `${name}/manifest.json`, JSON.stringify(manifest));
  }
  return source;
}

const unreadable = new WaybillError('storage_transient', 'the source went away');

t.test('an unreadable bundle fails only the destinations that selected it', async (t) => {
  const source = await sourceOf(['a', 'b']);
  const places: Record<string, Storage> = {
    '/source': {
      ...source,
      async *list(directory, options) {
        if (directory === 'b' && options.recursive) throw unreadable;
        yield* source.list(directory, options);
      },
    },
    '/web': memoryStorage({ flavour: 'files' }),
    '/root': memoryStorage({ flavour: 'files' }),
  };
  const context = {
    ...contextWith(testClock()),
    openStorage: async (location: StorageLocation) => places[describeLocation(location)] as Storage,
  };
  const result = await publishPipeline(context, pipeline, { dryRun: false, force: false });
  t.match(result, {
    status: 'failed',
    bundles: 2,
    invalidBundles: { length: 0 },
    error: null,
    destinations: [
      { destinationId: 'web', status: 'failed', error: { code: 'storage_transient' } },
      { destinationId: 'root', status: 'ok', actions: [{ bundle: 'a', action: 'publish_new' }] },
    ],
  });
  t.match(countActions([result]), { publish_new: 1, failed_destinations: 1 });
});

t.test('a source that cannot be opened fails every destination, and none is changed', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  const context = {
    ...contextWith(testClock()),
    openStorage: async (location: StorageLocation) => {
      if (describeLocation(location) === '/source') throw unreadable;
      return web;
    },
  };
  const events: string[] = [];
  const notify = ({ type }: { type: string }): void => void events.push(type);
  const result = await publishPipeline({ ...context, notify }, pipeline, { dryRun: false, force: false });
  t.match(result, {
    status: 'failed',
    error: { code: 'storage_transient' },
    destinations: [
      {
        destinationId: 'web',
        location: '/web',
        status: 'failed',
        actions: [{ action: 'error', bundle: null, destinationPath: null, error: result.error }],
        error: result.error,
      },
      {
        destinationId: 'root',
        location: '/root',
        status: 'failed',
        actions: [{ action: 'error', bundle: null, destinationPath: '.', error: result.error }],
        error: result.error,
      },
    ],
  });
  t.equal(countActions([result]).failed_destinations, 2);
  t.same(events, ['bundle.publish_failed'], 'one failure, reported once');
  t.equal((await snapshot(web)).size, 0);
});

t.test('a destination stopped between two bundles fails, and reports it once', async (t) => {
  const source = await sourceOf(['a', 'b']);
  const web = memoryStorage({ flavour: 'files' });
  const stop = new AbortController();
  const events: string[] = [];
  const context = {
    ...contextWith(testClock()),
    openStorage: async (location: StorageLocation) =>
      describeLocation(location) === '/source' ? source : web,
    notify: ({ type }: { type: string }): void => void events.push(type),
  };
  const toWeb = { ...pipeline, destinations: pipeline.destinations.slice(0, 1) };
  const request = { dryRun: false, force: false };
  const result = await publishPipeline({ ...context, signal: stop.signal }, toWeb, {
    ...request,
    onProgress: ({ type }) => {
      if (type === 'done') stop.abort(new WaybillError('aborted', 'stopped by SIGTERM'));
    },
  });
  t.match(result, {
    status: 'failed',
    destinations: [
      {
        status: 'failed',
        actions: [
          { bundle: 'a', action: 'publish_new', error: null },
          { bundle: null, action: 'error', error: { code: 'aborted' } },
        ],
        error: { code: 'aborted' },
      },
    ],
  });
  t.equal(result.destinations[0]?.actions.length, 2);
  t.same(events, ['bundle.published', 'bundle.publish_failed']);
  const next = await publishPipeline(context, toWeb, request);
  t.match(next, {
    status: 'ok',
    destinations: [{ actions: [{ action: 'skip_same' }, { action: 'publish_new' }] }],
  });
});

t.test('a source that does not answer ends the run, and is closed', async (t) => {
  let isClosed = false;
  const web = memoryStorage({ flavour: 'files' });
  const silent: Storage = {
    ...(await sourceOf(['a'])),
    async *list() {
      yield* [];
      await new Promise(() => undefined);
    },
    close: async () => void (isClosed = true),
  };
  const context = {
    ...contextWith(testClock()),
    openStorage: async (location: StorageLocation) =>
      describeLocation(location) === '/source' ? silent : web,
  };
  const request = { dryRun: false, force: false };
  const result = await publishPipeline(context, { ...pipeline, discoveryTimeoutMs: 20 }, request);
  t.match(result, {
    status: 'failed',
    error: {
      code: 'discovery_timeout',
      retryable: false,
      message: 'the source of pipeline "maps" was not read within 20ms (discovery_timeout)',
    },
    destinations: [{ error: { code: 'discovery_timeout' } }, { error: { code: 'discovery_timeout' } }],
  });
  t.ok(isClosed);
  const stopped = AbortSignal.abort(new WaybillError('aborted', 'stopped by SIGTERM'));
  const aborted = await publishPipeline({ ...context, signal: stopped }, pipeline, request);
  t.match(aborted.error, { code: 'aborted' }, 'a stop does, too');
});
