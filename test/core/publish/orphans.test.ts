import t from 'tap';
import type { DestinationConfig, PipelineConfig } from '../../../src/core/config/config.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import type { Occurrence } from '../../../src/core/notify/event.ts';
import { isProtected, protectedPaths } from '../../../src/core/publish/orphans.ts';
import { publishPipeline } from '../../../src/core/publish/publish.ts';
import type { PublishRequest } from '../../../src/core/publish/publish-request.ts';
import type { DestinationResult, PipelineResult } from '../../../src/core/publish/results/result.ts';
import type { DecidedOrphan } from '../../../src/core/publish/unpublish/unpublication.ts';
import type { OpenOptions } from '../../../src/core/storage/backend.ts';
import { describeLocation, type StorageLocation } from '../../../src/core/storage/backends.ts';
import { readAll } from '../../../src/core/storage/body.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { delegate } from '../../../src/core/storage/wrappers/delegate.ts';
import { type FaultLog, withFaults } from '../../faults/with-faults.ts';
import {
  contextWith,
  destinationOf,
  newWorld,
  otherOwner,
  publishTo,
  put,
  snapshot,
  testClock,
  worldKinds,
} from '../../faults/world.ts';
import { memoryStorage } from '../../support/memory-storage.ts';

/** A source in memory, and the destinations of a pipeline. */
class Stand {
  readonly source = memoryStorage({ flavour: 'files' });
  readonly events: Occurrence[] = [];
  /** Stub destinations: `/source`, `/web`, `/twin`. */
  readonly places: Record<string, Storage>;
  readonly #destinations: DestinationConfig[];
  /** The mode in which each place was opened, and the places that were closed. */
  readonly opened: [string, OpenOptions][] = [];
  readonly closed: string[] = [];

  constructor(web: Storage, settings: Partial<DestinationConfig>, others: string[] = []) {
    this.places = { '/source': this.source, '/web': web };
    this.#destinations = [{ ...at('web'), ...settings }, ...others.map(at)];
    for (const id of others) this.places[`/${id}`] = memoryStorage({ flavour: 'files' });
  }

  async add(...names: string[]): Promise<void> {
    for (const name of names) {
      await put(this.source, `${name}/a.txt`, name);
      await put(this.source, `${name}/d/b.txt`, 'b');
      const manifest = { schema_version: 1, created: '2026-11-20T00:00:00Z', files: ['a.txt', 'd/b.txt'] };
      await put(this.source, `${name}/manifest.json`, JSON.stringify(manifest));
    }
  }

  async drop(...names: string[]): Promise<void> {
    for (const name of names)
      for (const file of ['manifest.json', 'a.txt', 'd/b.txt'])
        await this.source.remove(listedKey(`${name}/${file}`));
  }

  async run(
    request: Partial<PublishRequest> = {},
    sourceId = '/source',
    signal?: AbortSignal,
  ): Promise<PipelineResult> {
    const pipeline: PipelineConfig = {
      id: 'maps',
      source: { backend: 'local', path: '/source' },
      sourceId,
      destinations: this.#destinations,
      maxWaiting: null,
      retryForMs: null,
      runTimeoutMs: 3_600_000,
      discoveryTimeoutMs: 3_600_000,
      whileRetrying: 'pass',
      schedule: null,
      watch: null,
      sceneMaps: { contentRules: 'warning' },
    };
    this.events.length = 0;
    this.opened.length = 0;
    this.closed.length = 0;
    const context = {
      ...contextWith(testClock()),
      openStorage: async (location: StorageLocation, options: OpenOptions) => {
        const place = describeLocation(location);
        this.opened.push([place, options]);
        const storage = this.places[place] as Storage;
        return delegate(storage, { close: async () => void this.closed.push(place) });
      },
      notify: (occurrence: Occurrence) => void this.events.push(occurrence),
      ...(signal !== undefined && { signal }),
    };
    return publishPipeline(context, pipeline, { dryRun: false, force: false, ...request });
  }
}

function at(id: string): DestinationConfig {
  return { ...destinationOf('additive', id), location: { backend: 'local', path: `/${id}` } };
}

function orphansOf({ destinations }: PipelineResult): DestinationResult['orphans'] {
  return destinations[0]?.orphans ?? [];
}

const gone = {
  destinationPath: 'old/x',
  bundle: { path: 'old/x', created: '2026-11-20T00:00:00.000Z' },
  outputs: ['a.txt', 'd/b.txt'],
  bytes: 6,
  error: null,
};

for (const kind of worldKinds)
  t.test(`${kind}: removes bundles that are missing from the source, as the dry run listed`, async (t) => {
    const web = await newWorld(kind, t).open();
    const stand = new Stand(web, { orphans: 'remove' });
    await stand.add('new', 'old/x');
    t.match(await stand.run(), { status: 'ok', destinations: [{ orphans: { length: 0 } }] });
    await publishTo(web, { files: { 'theirs.txt': 't' }, as: otherOwner });
    await put(web, 'old/x/mine.txt', 'unmanaged');
    await stand.drop('old/x');
    const before = await snapshot(web);
    const planned = await stand.run({ dryRun: true });
    t.same(await snapshot(web), before, 'a dry run changes nothing');
    t.same(orphansOf(planned), [{ ...gone, action: 'unpublish' }]);
    t.same(stand.events, []);
    const done = await stand.run({ runId: 'r1' });
    t.equal(done.status, 'ok');
    t.same(orphansOf(done), orphansOf(planned));
    t.same(
      [...(await snapshot(web)).keys()],
      [...before.keys()].filter((key) => !key.startsWith('old/') || key === 'old/x/mine.txt'),
    );
    t.match(stand.events, [
      {
        type: 'bundle.unpublished',
        data: { destination_path: 'old/x', run_id: 'r1', reason: 'orphan', counts: { outputs_removed: 2 } },
      },
    ]);
    t.same(orphansOf(await stand.run()), [], 'it is no longer an orphan');
  });

t.test('report names orphans and removes none; keep does not search for them', async (t) => {
  for (const orphans of ['report', 'keep'] as const) {
    const web = memoryStorage({ flavour: 'files' });
    const stand = new Stand(web, { orphans });
    await stand.add('new', 'old/x');
    await stand.run();
    await stand.drop('old/x');
    const before = await snapshot(web);
    const result = await stand.run();
    t.equal(result.status, 'ok');
    t.same(orphansOf(result), orphans === 'keep' ? [] : [{ ...gone, action: 'keep' }]);
    t.same(await snapshot(web), before);
    t.same(stand.events, []);
  }
});

t.test('each requested destination follows its own setting', async (t) => {
  const stand = new Stand(memoryStorage({ flavour: 'files' }), { orphans: 'report' }, ['twin']);
  await stand.add('new', 'old/x');
  await stand.run();
  await stand.drop('old/x');
  const orphansByDestination = async (request: Partial<PublishRequest>): Promise<unknown[]> =>
    (await stand.run(request)).destinations.map(({ destinationId, orphans }) => [
      destinationId,
      ...orphans.map(({ action }) => action),
    ]);
  t.same(await orphansByDestination({}), [['web', 'keep'], ['twin']]);
  t.same(await orphansByDestination({ destinationIds: ['twin'] }), [['twin']]);
  t.same(await orphansByDestination({ destinationIds: ['web'] }), [['web', 'keep']]);
  t.same(await orphansByDestination({ destinationIds: [] }), []);
});

t.test('a published bundle that is now invalid is not an orphan', async (t) => {
  const stand = new Stand(memoryStorage({ flavour: 'files' }), { orphans: 'report' });
  await stand.add('new', 'old/x');
  await stand.run();
  await put(stand.source, 'old/x/manifest.json', '{');
  const result = await stand.run();
  t.match(result.invalidBundles, [{ bundle: 'old/x' }]);
  t.same(orphansOf(result), []);
});

t.test('a bundle of another source, pipeline or path is not an orphan', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  const stand = new Stand(web, { orphans: 'remove' });
  await publishTo(web, { files: { 'theirs.txt': 't' }, as: otherOwner });
  await stand.add('new', 'old/x');
  await stand.run({}, 'elsewhere');
  await stand.drop('old/x');
  const result = await stand.run();
  t.match(result, { status: 'ok', destinations: [{ orphans: { length: 0 } }] });
  t.ok((await snapshot(web)).has('old/x/a.txt'));
  t.same(
    orphansOf(await stand.run({}, 'elsewhere')),
    [{ ...gone, action: 'unpublish' }],
    'only from that source',
  );
});

t.test('protects invalid bundles, and directories that discovery skipped or did not search', (t) => {
  const held = protectedPaths({
    candidates: [{ path: 'a' }],
    invalid: [{ path: 'b/c' }],
    warnings: [
      {
        severity: 'warning',
        code: 'link_skipped',
        message: 'm',
        file: 'l',
        pointer: null,
        line: null,
        column: null,
      },
    ],
  });
  for (const path of ['a', 'a/b', 'b/c', 'b/c/d/e', 'l', 'l/m']) t.ok(isProtected(held, path), path);
  for (const path of ['b', 'ab', 'b/cd', '.']) t.notOk(isProtected(held, path), path);
  t.ok(isProtected(new Set(['.']), 'anything/below'));
  t.end();
});

t.test('removes nothing anywhere if a bundle or a destination of the pipeline failed', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  const stand = new Stand(web, { orphans: 'remove' }, ['twin']);
  await stand.add('new', 'old/x');
  await stand.run();
  await stand.drop('old/x');
  const kept = { orphans: [{ ...gone, action: 'keep' }], warnings: [{ code: 'orphans_not_removed' }] };
  await put(stand.source, 'bad/manifest.json', '{');
  t.match(await stand.run(), { status: 'failed', destinations: [kept, {}] });
  await stand.source.remove(listedKey('bad/manifest.json'));
  await stand.add('newer');
  await put(stand.places['/twin'] as Storage, 'newer/in-the-way.txt', 'unmanaged');
  t.match(await stand.run(), { status: 'failed', destinations: [kept, { status: 'failed' }] });
  t.ok((await snapshot(web)).has('old/x/a.txt'));
});

t.test('an empty source removes nothing, unless removals are allowed', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  const stand = new Stand(web, { orphans: 'remove' });
  t.match(await stand.run(), { status: 'ok' }, 'nothing to remove');
  await stand.add('new', 'old/x');
  await stand.run();
  await stand.drop('new', 'old/x');
  const before = await snapshot(web);
  const refused = {
    status: 'failed',
    destinations: [{ orphans: [], error: { code: 'too_many_removals', message: /has no bundles/ } }],
  };
  t.match(await stand.run({ dryRun: true }), refused);
  t.match(await stand.run(), refused);
  t.same(await snapshot(web), before);
  t.match(await stand.run({ allowRemovals: true }), {
    status: 'ok',
    destinations: [{ orphans: [{ destinationPath: 'new' }, { destinationPath: 'old/x' }] }],
  });
  t.same([...(await snapshot(web)).keys()], []);
});

t.test('checks the second listing of the source: it may be empty or have the bundle again', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  const stand = new Stand(web, { orphans: 'remove' });
  await stand.add('new', 'old/x');
  await stand.run();
  await stand.drop('old/x');
  /** Acts between the publications and the removals. */
  const meanwhile = (act: () => Promise<void>): void => {
    stand.places['/web'] = {
      ...web,
      async *list(directory, options) {
        if (directory === '' && options.recursive) await act();
        yield* web.list(directory, options);
      },
    };
  };
  meanwhile(async () => stand.drop('new'));
  t.match(await stand.run(), {
    destinations: [{ error: { code: 'too_many_removals' }, orphans: { length: 0 } }],
  });
  await stand.add('new');
  meanwhile(async () => stand.add('old/x'));
  t.match(await stand.run(), { status: 'ok', destinations: [{ orphans: { length: 0 } }] });
  t.ok((await snapshot(web)).has('old/x/a.txt'));
});

t.test('limits.max_removed counts over the whole destination', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  const stand = new Stand(web, { orphans: 'remove', limits: { maxRemoved: { percent: 50 } } });
  await stand.add('a', 'b', 'c');
  await stand.run();
  await publishTo(web, { files: { 'theirs.txt': 't' }, as: otherOwner });
  await stand.drop('b', 'c');
  const message = /orphans of the destination: 4 of 6 published outputs .* 50%, which is 3/;
  for (const dryRun of [true, false])
    t.match(await stand.run({ dryRun }), {
      status: 'failed',
      destinations: [{ orphans: { length: 0 }, error: { code: 'too_many_removals', message } }],
    });
  await stand.add('c');
  t.match(
    orphansOf(await stand.run()),
    [{ destinationPath: 'b', action: 'unpublish' }],
    'a whole bundle path',
  );
  await stand.drop('c');
  await stand.add('d');
  await stand.run({ allowRemovals: true });
  t.notOk((await snapshot(web)).has('c/a.txt'));
});

t.test('keeps a bundle path that another publisher changed in the meantime', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  const stand = new Stand(web, { orphans: 'remove' });
  await stand.add('new', 'bundle', 'old/x');
  await stand.run();
  await stand.drop('bundle', 'old/x');
  let listings = 0;
  stand.places['/source'] = {
    ...stand.source,
    async *list(directory, options) {
      if (directory === '' && (listings += 1) === 2) await publishTo(web, { files: { 'late.txt': 'l' } });
      yield* stand.source.list(directory, options);
    },
  };
  const result = await stand.run();
  t.match(result, { status: 'failed', destinations: [{ status: 'failed', error: null }] });
  t.match(orphansOf(result), [
    { destinationPath: 'bundle', action: 'error', error: { code: 'destination_busy', retryable: true } },
    { destinationPath: 'old/x', action: 'unpublish' },
  ]);
  t.ok((await snapshot(web)).has('bundle/late.txt'));
});

t.test('a bundle path published again in the meantime is not an orphan', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  const stand = new Stand(web, { orphans: 'remove' });
  await stand.add('new', 'old/x');
  await stand.run();
  await stand.drop('old/x');
  const state = listedKey('old/x/.publisher.json');
  const catalog = JSON.parse((await readAll(web, state, 1 << 20)).toString()) as { updated_at: string };
  let listings = 0;
  stand.places['/source'] = {
    ...stand.source,
    async *list(directory, options) {
      // The same generation and bundle: only the time differs.
      if (directory === '' && (listings += 1) === 2)
        await put(web, state, JSON.stringify({ ...catalog, updated_at: '2026-11-24T00:00:00.000Z' }));
      yield* stand.source.list(directory, options);
    },
  };
  t.match(orphansOf(await stand.run()), [
    { destinationPath: 'old/x', action: 'error', error: { code: 'destination_busy' } },
  ]);
  t.ok((await snapshot(web)).has('old/x/a.txt'));
});

t.test('reports each decision about an orphan before removing it, and can be refused', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  const stand = new Stand(web, { orphans: 'remove' });
  await stand.add('new', 'old/x');
  await stand.run();
  await stand.drop('old/x');
  const before = await snapshot(web);
  const reported: DecidedOrphan[] = [];
  const onOrphan = (decided: DecidedOrphan): void => void reported.push(decided);
  await stand.run({ dryRun: true, onOrphan });
  t.match(reported, [
    {
      work: { destinationPath: 'old/x', removes: ['a.txt', 'd/b.txt'] },
      stored: { state: { kind: 'valid' } },
    },
  ]);
  const refusal = new WaybillError('plan_stale', 'not as planned');
  for (const refusedAt of [1, 2]) {
    let asked = 0;
    const refusing = (): void => {
      asked += 1;
      if (asked === refusedAt) throw refusal;
    };
    t.match(await stand.run({ onOrphan: refusing }), {
      status: 'failed',
      destinations: [{ orphans: [{ ...gone, action: 'error', error: { code: 'plan_stale' } }] }],
    });
    t.equal(asked, refusedAt, refusedAt === 1 ? 'without the lease' : 'and under it');
    t.same(await snapshot(web), before, 'it is unchanged');
  }
  await stand.run({ onOrphan });
  t.equal(reported.length, 3);
  t.notOk((await snapshot(web)).has('old/x/a.txt'));
});

t.test('a failed removal is undone and reported, and the next run repeats it', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  const stand = new Stand(web, { orphans: 'remove' });
  await stand.add('new', 'old/x', 'old/y');
  await stand.run();
  await stand.drop('old/x', 'old/y');
  const before = await snapshot(web);
  stand.places['/web'] = {
    ...web,
    async remove(key) {
      if (key === 'old/x/d/b.txt') throw new Error('refused');
      return web.remove(key);
    },
  };
  const result = await stand.run();
  t.match(orphansOf(result), [
    { destinationPath: 'old/x', action: 'error' },
    { destinationPath: 'old/y', action: 'unpublish' },
  ]);
  t.equal(result.status, 'failed');
  t.equal((await snapshot(web)).get('old/x/a.txt'), before.get('old/x/a.txt'));
  stand.places['/web'] = web;
  t.match(orphansOf(await stand.run()), [{ destinationPath: 'old/x', action: 'unpublish' }]);
});

t.test('the next run finishes the removal of an orphan after a kill', async (t) => {
  const operations: string[] = [];
  for (const wanted of [(): boolean => false, isRemoval, isCommit]) {
    const web = memoryStorage({ flavour: 'files' });
    const stand = new Stand(web, { orphans: 'remove' });
    await stand.add('new', 'old/x');
    await stand.run();
    await stand.drop('old/x');
    const log: FaultLog = { operations: [], fired: false, mutations: 0 };
    const index = operations.findIndex(wanted);
    const crash = { kind: 'crash', at: index + 1, code: 'storage_transient' } as const;
    stand.places['/web'] = withFaults(web, index < 0 ? null : crash, log);
    await stand.run();
    if (index < 0) operations.push(...log.operations);
    t.equal(log.fired, index >= 0);
    stand.places['/web'] = web;
    t.match(await stand.run(), { status: 'ok', destinations: [{ error: null }] });
    t.same(
      [...(await snapshot(web)).keys()].filter((key) => key.startsWith('old/')),
      [],
      operations[index] ?? 'without a fault',
    );
  }
});

function isRemoval(operation: string): boolean {
  return operation === 'remove old/x/d/b.txt';
}

function isCommit(operation: string): boolean {
  return operation === 'remove old/x/.publisher.json';
}

t.test('opens a destination for writing only if something may be removed', async (t) => {
  const openedFor = async (orphans: 'report' | 'remove', dryRun: boolean): Promise<unknown> => {
    const stand = new Stand(memoryStorage({ flavour: 'files' }), { orphans });
    await stand.add('new', 'old/x');
    await stand.run();
    await stand.drop('old/x');
    await stand.run({ dryRun });
    t.same(stand.closed.sort(), ['/source', '/web', '/web'], 'and closed');
    return stand.opened.at(-1);
  };
  t.same(await openedFor('report', false), ['/web', { readOnly: true, dryRun: false }]);
  t.same(await openedFor('report', true), ['/web', { readOnly: true, dryRun: true }]);
  t.same(await openedFor('remove', false), ['/web', { readOnly: false, dryRun: false }]);
  t.same(await openedFor('remove', true), ['/web', { readOnly: true, dryRun: true }]);
});

t.test('a failed destination or a stopped run does not search for orphans', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  const stand = new Stand(web, { orphans: 'remove' });
  await stand.add('new', 'old/x');
  await stand.run();
  await stand.drop('old/x');
  const stop = new AbortController();
  const stopped = await stand.run(
    { onProgress: ({ type }) => type === 'done' && stop.abort(new Error('SIGTERM')) },
    '/source',
    stop.signal,
  );
  t.match(stopped, { status: 'ok', destinations: [{ orphans: { length: 0 }, error: null }] });
  t.equal(stand.opened.length, 2, 'source and destination, once each');
  let opened = 0;
  Object.defineProperty(stand.places, '/web', {
    get: () => {
      opened += 1;
      throw new WaybillError('storage_denied', 'no');
    },
  });
  t.match(await stand.run(), {
    destinations: [{ orphans: { length: 0 }, error: { code: 'storage_denied' } }],
  });
  t.equal(opened, 1);
  t.ok((await snapshot(web)).has('old/x/a.txt'));
});

t.test('a stop between two orphans leaves the second one', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  const stand = new Stand(web, { orphans: 'remove' });
  await stand.add('new', 'old/x', 'old/y');
  await stand.run();
  await stand.drop('old/x', 'old/y');
  const stop = new AbortController();
  stand.places['/web'] = {
    ...web,
    async remove(key, options) {
      await web.remove(key, options);
      if (key === 'old/x/.publisher.json') stop.abort(new Error('SIGTERM'));
    },
  };
  const result = await stand.run({}, '/source', stop.signal);
  t.match(orphansOf(result), [{ destinationPath: 'old/x', action: 'unpublish', error: null }]);
  t.equal(orphansOf(result).length, 1);
  t.ok((await snapshot(web)).has('old/y/a.txt'));
});

t.test('an orphan that another process removed is not reported', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  const stand = new Stand(web, { orphans: 'remove' });
  await stand.add('new', 'old/x', 'old/y');
  await stand.run();
  await stand.drop('old/x', 'old/y');
  const onOrphan = ({ work }: DecidedOrphan): void => {
    if (work.destinationPath === 'old/x') removeAll();
  };
  const removeAll = (): void => {
    for (const file of ['a.txt', 'd/b.txt', '.publisher.json']) void web.remove(listedKey(`old/y/${file}`));
  };
  const left = orphansOf(await stand.run({ onOrphan }));
  t.match(left, [{ destinationPath: 'old/x', error: null }]);
  t.equal(left.length, 1);
  t.equal(orphansOf(await stand.run()).length, 0);
});

t.test('counts catalogs of existing bundles only for a percentage limit', async (t) => {
  for (const [orphans, maxRemoved, counts] of [
    ['remove', { percent: 100 }, true],
    ['remove', null, false],
    ['report', { percent: 100 }, false],
  ] as const) {
    const web = memoryStorage({ flavour: 'files' });
    const stand = new Stand(web, { orphans, limits: { maxRemoved } });
    await stand.add('new', 'old/x');
    await stand.run();
    await stand.drop('old/x');
    let read = 0;
    stand.places['/web'] = {
      ...web,
      read(key) {
        if (key === 'new/.publisher.json') read += 1;
        return web.read(key);
      },
    };
    t.match(orphansOf(await stand.run()), [{ destinationPath: 'old/x' }]);
    t.equal(read, counts ? 2 : 1, `${orphans} ${JSON.stringify(maxRemoved)}`);
  }
});

t.test('the refusal to remove everything names the number of orphans', async (t) => {
  for (const [names, what] of [
    [['a'], '"a" is an orphan; none was removed'],
    [['a', 'b', 'c'], '"a" and 2 more are orphans; none was removed'],
  ] as const) {
    const stand = new Stand(memoryStorage({ flavour: 'files' }), { orphans: 'remove' });
    await stand.add(...names);
    await stand.run();
    await stand.drop(...names);
    const message = `the source has no bundles, so ${what}`;
    t.match(await stand.run(), { destinations: [{ error: { code: 'too_many_removals', message } }] });
    await put(stand.source, 'bad/manifest.json', '{');
    t.match(
      await stand.run(),
      { destinations: [{ error: null, warnings: [{ severity: 'warning', code: 'orphans_not_removed' }] }] },
      'an invalid bundle is protected',
    );
  }
});

t.test('an orphan whose catalog does not record its bundle still counts as an orphan', async (t) => {
  const web = memoryStorage({ flavour: 'files' });
  const stand = new Stand(web, { orphans: 'report' });
  await stand.add('new', 'old/x');
  await stand.run();
  await stand.drop('old/x');
  const catalog = JSON.parse((await snapshot(web)).get('old/x/.publisher.json') ?? '') as {
    bundles?: unknown;
  };
  delete catalog.bundles;
  await put(web, 'old/x/.publisher.json', JSON.stringify(catalog));
  await put(web, 'broken/.publisher.json', 'nonsense');
  await publishTo(web, { files: { 'theirs.txt': 't' }, as: otherOwner });
  t.same(orphansOf(await stand.run()), [{ ...gone, bundle: null, action: 'keep' }], 'and nothing else is');
});

t.test('if orphans are only reported, a failure elsewhere changes nothing', async (t) => {
  const stand = new Stand(memoryStorage({ flavour: 'files' }), { orphans: 'report' });
  await stand.add('new', 'old/x');
  await stand.run();
  await stand.drop('old/x');
  await put(stand.source, 'bad/manifest.json', '{');
  const { destinations } = await stand.run();
  t.match(destinations, [{ orphans: [{ ...gone, action: 'keep' }] }]);
  t.same(destinations[0]?.warnings, []);
});
