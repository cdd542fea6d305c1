import { Registry } from 'prom-client';
import t from 'tap';
import { definer } from '../../../src/api/metrics/definer.ts';
import { RunMetrics } from '../../../src/api/metrics/run-metrics.ts';
import { errorRecord, WaybillError } from '../../../src/core/lib/errors.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { delegate } from '../../../src/core/storage/wrappers/delegate.ts';
import { type FinishedSpan, recordingTracer } from '../../../src/core/tracing/span.ts';
import { put, snapshot, testClock } from '../../faults/world.ts';
import { newer, oldest, type Settings, Stand } from './stand.ts';

/** One pipeline from a source to a destination, both in memory, and its visible results. */

/** A storage with a callback before a file is read for the first time. */
function beforeReading(storage: Storage, name: string, happens: () => Promise<void>): Storage {
  let isDone = false;
  return delegate(storage, {
    async *read(key) {
      if (!isDone && key === name) {
        isDone = true;
        await happens();
      }
      yield* storage.read(key);
    },
  });
}

/** Another run of the same pipeline, which publishes a bundle that was just added to the source. */
async function overtake({ web }: Stand, source: Storage, name: string, created: string): Promise<void> {
  const other = Object.assign(new Stand(), { source, web });
  await other.add(name, { 'which.txt': name }, created);
  t.match(await other.run({ mapping: 'fixed' }), { status: 'ok' });
}

const nothing = { bundles: 0, invalidBundles: [], destinations: [], warnings: [], error: null };

t.test('an upload pipeline is skipped with a warning, and opens nothing', async (t) => {
  const stand = new Stand();
  const result = await stand.run({ source: { backend: 'http_upload' } as never });
  const { warnings } = result;
  t.same(result, { pipelineId: 'maps', status: 'skipped', ...nothing, warnings });
  t.match(warnings, [{ severity: 'warning', code: 'upload_pipeline_skipped', message: /"maps"/ }]);
  t.equal(warnings.length, 1);
  t.same([stand.opened, stand.events], [[], []]);
});

t.test('an empty source is a success with a warning, and no destination is opened', async (t) => {
  const stand = new Stand();
  const result = await stand.run();
  t.match(result.warnings, [{ severity: 'warning', code: 'no_bundles' }]);
  t.same(result, {
    ...nothing,
    ...{ pipelineId: 'maps', status: 'ok', warnings: result.warnings },
    destinations: [
      {
        ...{ destinationId: 'web', location: '/destination', status: 'ok', actions: [], orphans: [] },
        ...{ warnings: [], error: null },
      },
    ],
  });
  t.same(stand.opened, [['/source', { readOnly: true, mustExist: true, dryRun: false }]]);
  t.same(stand.closed, ['/source']);
});

t.test('opens source and destination with the needed access, and closes them', async (t) => {
  for (const dryRun of [true, false]) {
    const stand = new Stand();
    await stand.add('a', { 'a.txt': 'a' });
    const result = await stand.run({ request: { dryRun } });
    t.match(result, { status: 'ok', bundles: 1 });
    t.same(result.warnings, []);
    t.same(stand.opened, [
      ['/source', { readOnly: true, mustExist: true, dryRun }],
      ['/destination', { readOnly: dryRun, dryRun, maxRate: null }],
    ]);
    t.same(stand.closed, ['/destination', '/source']);
    t.equal((await snapshot(stand.web)).size, dryRun ? 0 : 2);
    t.same(
      stand.events.map(({ type }) => type),
      dryRun ? [] : ['bundle.published'],
    );
  }
});

t.test('an unreadable source fails every destination and is reported once', async (t) => {
  const away = new WaybillError('storage_permanent', 'the disk is disconnected', { hint: 'mount it' });
  for (const dryRun of [true, false]) {
    const stand = new Stand();
    stand.opening = (place) => {
      if (place === '/source') throw away;
    };
    const result = await stand.run({ request: { dryRun, runId: 'r1' } });
    const error = errorRecord(away);
    t.match(result, { pipelineId: 'maps', status: 'failed', bundles: 0, error });
    t.match(result.destinations, [
      {
        ...{ destinationId: 'web', location: '/destination', status: 'failed', error },
        actions: [{ action: 'error', bundle: null, destinationPath: null, error }],
      },
    ]);
    t.equal(result.destinations[0]?.actions.length, 1);
    const expected = { data: { pipeline_id: 'maps', destination_id: null, run_id: 'r1' } };
    t.match(stand.events, dryRun ? { length: 0 } : [expected]);
    t.equal(stand.events.length, dryRun ? 0 : 1);
  }
});

t.test('works without a notifier', async (t) => {
  const stand = new Stand();
  stand.opening = (place) => {
    if (place === '/source') throw new WaybillError('storage_permanent', 'the disk is disconnected');
  };
  t.match(await stand.run({ context: { notify: undefined } }), { status: 'failed' });
});

t.test('has one span per destination, which ends with its outcome', async (t) => {
  const stand = new Stand();
  await stand.add('a', { 'a.txt': 'a' });
  const spans: FinishedSpan[] = [];
  const report = (span: FinishedSpan): void => void spans.push(span);
  const tracer = recordingTracer({ clock: testClock(), report, samples: () => true });
  await stand.run({ context: { tracer } });
  t.match(spans, [{ name: 'destination', attributes: { 'waybill.action': 'publish_new' } }]);
  t.equal(spans.length, 1);
});

t.test('an unreadable state fails the bundle without a plan', async (t) => {
  const stand = new Stand();
  await stand.add('a', { 'a.txt': 'a' });
  const read = async function* (): AsyncGenerator<Uint8Array> {
    yield Buffer.alloc(0);
    throw new Error('a defect');
  };
  stand.web = delegate(stand.web, { read });
  const { destinations } = await stand.run();
  t.match(destinations, [{ actions: [{ action: 'error', error: { code: 'internal_error' } }] }]);
  t.same(destinations[0]?.actions[0]?.outputs, []);
});

t.test('warnings of the selection are in the result', async (t) => {
  const stand = new Stand();
  await stand.add('a', { 'a.txt': 'a' });
  await stand.add('b', { 'b.txt': 'b' });
  const { destinations } = await stand.run({ mapping: 'fixed' });
  t.match(destinations[0]?.warnings, [{ code: 'fixed_bundle_selected' }]);
  t.equal(destinations[0]?.warnings.length, 1);
});

t.test('an invalid bundle is counted, skipped and reported', async (t) => {
  const stand = new Stand();
  await stand.add('a', { 'a.txt': 'a' });
  await put(stand.source, 'b/manifest.json', '{');
  const result = await stand.run();
  t.match(result, {
    ...{ status: 'failed', bundles: 2, error: null, warnings: { length: 0 } },
    invalidBundles: [{ bundle: 'b', error: { code: 'invalid_bundle' } }],
    destinations: [{ status: 'ok', actions: [{ bundle: 'a', action: 'publish_new' }] }],
  });
  t.match(stand.events, [
    { type: 'bundle.published', data: { bundle: { path: 'a' }, run_id: null } },
    { type: 'bundle.publish_failed', data: { bundle: { path: 'b' }, run_id: null } },
  ]);
  t.equal(stand.events.length, 2);
});

t.test('progress: the plan once, then bytes and outputs, then the result', async (t) => {
  const stand = new Stand();
  await stand.add('a', { 'a.txt': 'abc', 'b.txt': 'de' });
  const { destinations } = await stand.run();
  const at = { destinationId: 'web' };
  t.same(stand.progress, [
    { ...at, type: 'planned', destinationPath: 'a', action: 'publish_new', outputs: 2, bytes: 5 },
    { ...at, type: 'bytes', count: 3 },
    { ...at, type: 'output', path: 'a.txt' },
    { ...at, type: 'bytes', count: 2 },
    { ...at, type: 'output', path: 'b.txt' },
    { ...at, type: 'done', result: destinations[0]?.actions[0] },
  ]);
  t.match(await stand.run(), {
    destinations: [{ actions: [{ action: 'skip_same', outputsKept: 2, bytesKept: 5, outputsWritten: 0 }] }],
  });
  t.match(stand.progress, [{ type: 'planned', action: 'skip_same', outputs: 0 }, { type: 'done' }]);
  t.equal(stand.progress.length, 2);
});

t.test('passes decisions to the callback before it acts, and stops on an objection', async (t) => {
  const stand = new Stand();
  await stand.add('a', { 'a.txt': 'abc' });
  const decided: string[] = [];
  await stand.run({
    request: {
      onDecided: ({ plan, planned, stored }) => {
        decided.push(`${plan.action} of ${planned.length}, state ${stored.state.kind}`);
        if (decided.length === 2) throw new WaybillError('plan_stale', 'objection');
      },
    },
  });
  t.same(decided, ['publish_new of 1, state absent', 'publish_new of 1, state absent']);
  t.match(stand.progress.at(-1), { result: { action: 'error', error: { code: 'plan_stale' } } });
  t.same([...(await snapshot(stand.web)).keys()], []);
});

t.test('a dry run reports obstacles', async (t) => {
  const stand = new Stand();
  await stand.add('a', { 'a.txt': 'a' });
  const obstacle = new WaybillError('storage_denied', 'in the way');
  const asked: { bytes: number | null }[] = [];
  const { web } = stand;
  stand.web = delegate(web, {
    obstacleTo: async (change) => {
      asked.push(change);
      return obstacle;
    },
  });
  for (const dryRun of [true, false]) {
    const { destinations } = await stand.run({ request: { dryRun } });
    t.match(destinations, [
      { status: 'failed', actions: [{ action: 'error', error: { code: obstacle.code } }] },
    ]);
  }
  t.same(
    asked.map(({ bytes }) => bytes),
    [1, 1],
  );
  await put(web, 'a/.publisher.tmp/left/behind', 'x');
  await stand.run({ request: { dryRun: true } });
  t.same(asked.at(-1)?.bytes, null, 'files of a dead attempt are swept before the next begins');
  await stand.run();
  t.same(asked.at(-1)?.bytes, 1, 'under the lease');
});

for (const [created, name] of [
  [newer, 'c'],
  [oldest, 'a'],
] as const)
  t.test(
    `fixed: overtaken by "${name}" during its checks, a run selects again and publishes that`,
    async (t) => {
      const stand = new Stand();
      const real = stand.source;
      await stand.add('b', { 'which.txt': 'b' });
      stand.source = beforeReading(real, 'b/which.txt', async () => overtake(stand, real, name, created));
      const { destinations } = await stand.run({ mapping: 'fixed' });
      t.match(destinations, [{ status: 'ok', actions: [{ bundle: name, action: 'skip_same' }] }]);
      t.match(destinations[0]?.warnings, [
        { code: 'fixed_bundle_selected', message: new RegExp(`"${name}"`) },
      ]);
      t.equal(destinations[0]?.warnings.length, 1, "the first selection's index is replaced");
      t.equal((await snapshot(stand.web)).get('which.txt'), name);
      t.match(stand.events, { length: 0 }, 'the other run has notified');
      t.equal(stand.progress.filter(({ type }) => type === 'planned').length, 1);
    },
  );

t.test('fixed: a bundle selected again is reported with its own name', async (t) => {
  const stand = new Stand();
  const real = stand.source;
  await stand.add('b', { 'which.txt': 'b' });
  stand.source = beforeReading(real, 'b/which.txt', async () => {
    await overtake(stand, real, 'c', newer);
    await stand.add('d', { 'which.txt': 'd' }, '2026-11-22T00:00:00.000Z');
  });
  const { destinations } = await stand.run({ mapping: 'fixed' });
  t.match(destinations, [{ status: 'ok', actions: [{ bundle: 'd', action: 'replace_catalog' }] }]);
  t.match(stand.events, [{ type: 'bundle.published', data: { bundle: { path: 'd' } } }]);
  t.equal(stand.events.length, 1);
});

t.test('fixed: fails after ten selections that were overtaken', async (t) => {
  const stand = new Stand();
  await stand.add('b', { 'which.txt': 'b' });
  t.match(await stand.run({ mapping: 'fixed' }), { status: 'ok' });
  await stand.add('b', { 'which.txt': 'B' });
  const inner = stand.web;
  let overtaken = 0;
  stand.web = delegate(inner, {
    async write(key, body, options) {
      // The next lease holder finds a newer published bundle.
      if (key === '.publisher.lock' && overtaken < 100) {
        overtaken += 1;
        const state = (await snapshot(inner)).get('.publisher.json') ?? '';
        const next = state
          .replace(/"generation": \d+/, `"generation": ${overtaken + 1}`)
          .replace(/"created":"[^"]+"/, '"created":"2026-12-01T00:00:00.000Z"');
        await put(inner, '.publisher.json', next);
      }
      return inner.write(key, body, options);
    },
  });
  const { destinations } = await stand.run({ mapping: 'fixed' });
  t.match(destinations, [{ actions: [{ action: 'error', error: { code: 'destination_busy' } }] }]);
  t.equal(overtaken, 10);
  t.equal((await snapshot(inner)).get('which.txt'), 'b');
});

t.test('fixed: an error during a new selection fails the bundle', async (t) => {
  const spoil: [string, (source: Storage) => Promise<unknown>, object][] = [
    [
      'the source has become empty',
      async (source) => {
        for (const file of ['b/manifest.json', 'c/manifest.json', 'c/which.txt'])
          await source.remove(listedKey(file));
      },
      { code: 'bundle_not_found', message: 'the source no longer has a bundle', hint: null },
    ],
    [
      'a bundle has become invalid',
      async (source) => put(source, 'd/manifest.json', '{'),
      { code: 'invalid_bundle', hint: 'fix or remove that bundle' },
    ],
    [
      'the newest has a file too few',
      async (source) => source.remove(listedKey('c/which.txt')),
      {
        code: 'invalid_bundle',
        hint: /fix the bundle/,
        findings: [{ severity: 'error', file: 'which.txt' }],
      },
    ],
  ];
  for (const [what, happens, error] of spoil) {
    const stand = new Stand();
    const real = stand.source;
    await stand.add('b', { 'which.txt': 'b' });
    stand.source = beforeReading(real, 'b/which.txt', async () => {
      await overtake(stand, real, 'c', newer);
      await happens(real);
    });
    const { destinations } = await stand.run({ mapping: 'fixed' });
    t.match(destinations, [{ status: 'failed', actions: [{ bundle: 'b', action: 'error', error }] }], what);
    t.equal((await snapshot(stand.web)).get('which.txt'), 'c', what);
  }
});

t.test('preserve_relative: an older bundle replaces a newer one, without a new selection', async (t) => {
  const stand = new Stand();
  await stand.add('b', { 'which.txt': 'new' }, newer);
  await stand.run();
  await stand.add('b', { 'which.txt': 'old' }, oldest);
  t.match(await stand.run(), {
    destinations: [{ status: 'ok', actions: [{ action: 'replace_catalog' }] }],
  });
  t.equal((await snapshot(stand.web)).get('b/which.txt'), 'old');
  t.equal(stand.opened.filter(([place]) => place === '/source').length, 2);
});

t.test('preserve_relative: several older bundles each replace their own path', async (t) => {
  const stand = new Stand();
  for (const name of ['a', 'b']) await stand.add(name, { 'which.txt': 'new' }, newer);
  await stand.run();
  for (const name of ['a', 'b']) await stand.add(name, { 'which.txt': name });
  await stand.run();
  const files = await snapshot(stand.web);
  t.same([files.get('a/which.txt'), files.get('b/which.txt')], ['a', 'b']);
});

t.test('warns of a bundle whose `created` is in the future, and counts it', async (t) => {
  const stand = new Stand();
  await stand.add('soon', { 'a.txt': '1' }, '2026-11-20T00:04:00.000Z');
  await stand.add('next-year', { 'a.txt': '1' }, '2027-11-20T00:00:00.000Z');
  const logged: string[] = [];
  const log = { ...silentLog, warn: (_fields: object, message: string) => void logged.push(message) };
  const run = await stand.run({ context: { log } });
  const warnings = run.destinations[0]?.warnings ?? [];
  t.match(warnings, [{ code: 'created_in_future', message: /^target=next-year: .*2027-11-20/ }]);
  t.same(logged, [warnings[0]?.message]);
  const registry = new Registry();
  new RunMetrics(definer(registry)).finished({
    ...{ pipelineId: 'maps', seconds: 1, succeeded: true, cancelled: false },
    result: { run: { pipelines: [run] } } as never,
  });
  t.match(await registry.metrics(), /waybill_future_bundles_total\{pipeline="maps",destination="web"\} 1/);
});

t.test('warns of the replacement of the destination root, with what it replaces', async (t) => {
  const stand = new Stand();
  await stand.add('b', { 'a.txt': '1' });
  const warned = async (settings: Settings): Promise<unknown[]> => {
    const { destinations } = await stand.run({ mapping: 'fixed', ...settings });
    const found = destinations[0]?.warnings ?? [];
    return found
      .filter(({ code }) => code !== 'fixed_bundle_selected')
      .map(({ severity, code, message }) => [severity, code, message]);
  };
  const replaced = (what: string): unknown[] => [
    ['warning', 'destination_root_replaced', `target=.: ${what} (/destination)`],
  ];
  t.same(await warned({}), [], 'publish_new');
  await stand.add('b', { 'a.txt': '2' });
  t.same(await warned({ workflow: 'additive' }), [], 'upsert_additive');
  await stand.add('b', { 'a.txt': '3' });
  const outputs = 'the content that this pipeline published at the destination root';
  t.same(await warned({ request: { dryRun: true } }), replaced(`${outputs} would be replaced`));
  t.same(await warned({}), replaced(`${outputs} was replaced`));
  await put(stand.web, '.publisher.json', '{');
  const all = 'everything below the destination root';
  t.same(await warned({ request: { force: true } }), replaced(`${all} was replaced`));
  await put(stand.web, '.publisher.json', '{');
  await stand.add('b', { 'a.txt': '4' });
  const below = await stand.run({ request: { force: true }, mapping: 'preserve_relative' });
  t.same(below.destinations[0]?.warnings, []);
});

t.test('a run stopped between two bundles reports the skipped one and keeps the first', async (t) => {
  for (const [reason, code] of [
    [new WaybillError('cancelled', 'by a person'), 'cancelled'],
    [new Error('SIGTERM'), 'aborted'],
  ] as const) {
    const stand = new Stand();
    await stand.add('a', { 'a.txt': 'a' });
    await stand.add('b', { 'b.txt': 'b' });
    const stop = new AbortController();
    const result = await stand.run({
      signal: stop.signal,
      request: { onProgress: ({ type }) => type === 'done' && stop.abort(reason) },
    });
    const [web] = result.destinations;
    t.match(web, {
      status: 'failed',
      actions: [
        { bundle: 'a', action: 'publish_new', error: null },
        { bundle: null, action: 'error', error: { code } },
      ],
      error: { code },
    });
    t.equal(web?.actions.length, 2);
    t.equal(web?.error?.hint, code === 'aborted' ? 'run again to finish it' : null);
    t.ok((await snapshot(stand.web)).has('a/a.txt'));
    t.notOk((await snapshot(stand.web)).has('b/b.txt'));
  }
});

t.test('a stop after the last bundle changes nothing', async (t) => {
  const stand = new Stand();
  await stand.add('a', { 'a.txt': 'a' });
  const stop = new AbortController();
  const result = await stand.run({
    signal: stop.signal,
    request: { onProgress: ({ type }) => type === 'done' && stop.abort(new Error('SIGTERM')) },
  });
  t.match(result, { status: 'ok', destinations: [{ status: 'ok', error: null }] });
});

t.test('a stop within a bundle aborts that bundle and skips the rest', async (t) => {
  for (const moment of ['planned', 'bytes']) {
    const stand = new Stand();
    await stand.add('a', { 'a.txt': 'a', 'more.txt': 'm' });
    await stand.add('b', { 'b.txt': 'b' });
    const stop = new AbortController();
    const reason = new Error('SIGTERM');
    const result = await stand.run({
      signal: stop.signal,
      request: { onProgress: ({ type }) => type === moment && stop.abort(reason) },
    });
    const [web] = result.destinations;
    t.match(web?.actions, [
      { bundle: 'a', action: 'error', error: { code: 'aborted', hint: 'run again to finish it' } },
    ]);
    t.equal(web?.actions.length, 1);
    t.equal(web?.error, null, 'reported once');
    t.same([...(await snapshot(stand.web)).keys()], []);
  }
});

t.test('a stopped publication that fails for another reason reports that reason', async (t) => {
  const stand = new Stand();
  await stand.add('a', { 'a.txt': 'a' });
  const stop = new AbortController();
  stand.web = delegate(stand.web, {
    write: async () => {
      stop.abort(new Error('SIGTERM'));
      throw new WaybillError('storage_denied', 'no');
    },
  });
  const { destinations } = await stand.run({ signal: stop.signal });
  t.match(destinations[0]?.actions, [{ error: { code: 'storage_denied' } }]);
  for (const isStopped of [false, true]) {
    const stopping = new AbortController();
    stand.web = delegate(stand.web, {
      write: async () => {
        if (isStopped) stopping.abort(new Error('SIGTERM'));
        throw new Error('a defect');
      },
    });
    const { destinations } = await stand.run({ signal: stopping.signal });
    t.match(destinations[0]?.actions, [{ error: { code: 'internal_error' } }]);
  }
});
