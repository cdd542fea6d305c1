import t from 'tap';
import { planView } from '../../../../src/api/console/views/plan-view.ts';
import type { RunResult } from '../../../../src/core/publish/results/result.ts';

type Planned = RunResult['pipelines'][number]['destinations'][number]['actions'][number];

const now = new Date('2026-11-20T02:00:00Z');

function publication(bundle: string, more: object = {}): Planned {
  return {
    ...{ bundle, destinationPath: bundle, action: 'upsert_additive', error: null, warnings: [] },
    reason: { code: 'outputs_differ', message: '1 of 2 planned outputs differ from their records' },
    changes: [{ path: 'a.txt', fate: 'change', why: 'content_differs' }],
    outputs: [{ path: 'a.txt', size: 5, digest: 'sha256:1' }],
    ...more,
  } as never;
}

/** The view of a plan with these publications at each destination. */
function viewOf(
  places: Readonly<Record<string, readonly Planned[]>>,
  options = {},
): ReturnType<typeof planView> {
  const destinations = Object.entries(places).map(([destinationId, actions]) => ({
    ...{ destinationId, actions, location: '/srv/www', orphans: [], warnings: [], error: null },
  }));
  const pipeline = { pipelineId: 'library', destinations, error: null, invalidBundles: [], warnings: [] };
  return planView({ pipelines: [pipeline], warnings: [] } as never, now, options);
}

const added = publication('b', {
  ...{ action: 'publish_new', reason: { code: 'destination_empty', message: 'the destination is empty' } },
  changes: [{ path: 'b.txt', fate: 'add', why: 'not_recorded' }],
});

t.test('sums up what a run would change, and where', (t) => {
  const plan = viewOf({ web: [publication('a'), added], site: [publication('a')] });
  t.match(plan, { headline: 'A run would change 3 files at web and site', changes: '2 changed, 1 new' });
  t.match(plan, { hasChanges: true, isFailing: false });
  t.same(
    plan.places.map(({ ids, rows }) => [ids, rows.map(({ mark, reason }) => [mark.label, reason])]),
    [
      [
        ['web'],
        [
          ['update', null],
          ['publish', 'First publication here'],
        ],
      ],
      [['site'], [['update', null]]],
    ],
  );
  t.end();
});

t.test('destinations with the same changes share an entry', (t) => {
  const plan = viewOf({ web: [added], site: [added] });
  t.same(
    plan.places.map(({ ids, rows }) => [ids, rows.length]),
    [[['web', 'site'], 1]],
  );
  t.equal(plan.headline, 'A run would change 1 file at each of web and site');
  t.equal(plan.changes, '1 new');
  t.end();
});

t.test('destinations with the same unchanged bundles share a row', (t) => {
  const same = publication('a', { action: 'skip_same', changes: [] });
  const other = publication('b', { action: 'skip_same', changes: [] });
  const plan = viewOf({ web: [same], site: [same], mirror: [same, other] });
  t.same(
    plan.unchanged.map(({ ids, bundles }) => [ids, bundles]),
    [
      [['web', 'site'], ['a']],
      [['mirror'], ['a', 'b']],
    ],
  );
  t.end();
});

t.test('failures come first, and unchanged files are not listed as changes', (t) => {
  const error = {
    code: 'unmanaged_content',
    message: 'in the way',
    hint: null,
    retryable: false,
    findings: [],
  };
  const kept = publication('a', { changes: [{ path: 'a.txt', fate: 'refresh', why: 'source_differs' }] });
  const plan = viewOf({ web: [kept, publication('c', { error, changes: [], action: 'fail_unmanaged' })] });
  t.equal(plan.headline, '1 publication would fail. A run would change no file, but its records, at web');
  t.match(plan, { changes: null, isFailing: true });
  t.same(
    plan.failures.map(({ destinationId, title }) => [destinationId, title]),
    [['web', 'Files in the way at web']],
  );
  t.same(
    plan.places[0]?.rows.map(({ bundle, changes }) => [bundle, changes]),
    [['a', []]],
  );
  t.end();
});

t.test('a forced plan is a command, unless the bundle is an upload', (t) => {
  const hint = 'move the files away; --force deletes them, and --force --dry-run lists it first';
  const error = { code: 'unmanaged_content', message: 'in the way', hint, retryable: false, findings: [] };
  const failing = { web: [publication('a', { error, changes: [], action: 'fail_unmanaged' })] };
  const commandOf = (options: object): string | null | undefined =>
    viewOf(failing, options).failures[0]?.command;
  t.equal(
    commandOf({ isOfSource: true }),
    'waybill run --config waybill.yml --pipeline library --destination web --force --dry-run',
  );
  t.equal(commandOf({}), null);
  t.end();
});

t.test('a warning names its destination', (t) => {
  const warning = (message: string): object => ({ code: 'some', file: null, message });
  const destination = {
    destinationId: 'web',
    location: '/srv/www',
    actions: [],
    orphans: [],
    warnings: [warning('here')],
    error: null,
  };
  const pipeline = {
    ...{ pipelineId: 'library', destinations: [destination], error: null, invalidBundles: [] },
    warnings: [warning('everywhere')],
  };
  t.same(planView({ pipelines: [pipeline], warnings: [] } as never, now).warnings, [
    { destinationId: null, message: 'Everywhere.' },
    { destinationId: 'web', message: 'Here.' },
  ]);
  t.end();
});
