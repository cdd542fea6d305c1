import { readFileSync, writeFileSync } from 'node:fs';
import t from 'tap';
import type { CatalogState } from '../../../src/core/catalog/catalog.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import type { RelativePath } from '../../../src/core/lib/paths.ts';
import { decide } from '../../../src/core/publish/decision/decide.ts';
import { isSettledByState } from '../../../src/core/publish/decision/records.ts';
import {
  changesDestination,
  type DecisionInput,
  type Fate,
  type Observation,
  type Plan,
  type PlannedOutput,
} from '../../../src/core/publish/plan.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import { otherOwner, owner } from '../../faults/world.ts';
import { bundle, catalog, intent, output, record, unseen } from '../../support/decisions.ts';

/**
 * The specification's decision table as a golden file: one named case for each row, and one for each
 * condition that turns a row into another. `UPDATE_GOLDEN=1` rewrites the file; review the difference before
 * you commit it.
 */

const golden = new URL('golden/decision-table.txt', import.meta.url);
const stranger = otherOwner;

interface Case {
  name: string;
  state: CatalogState;
  planned?: PlannedOutput[];
  workflow?: DecisionInput['workflow'];
  force?: boolean;
  observed?: Partial<Omit<Observation, 'state'>>;
}

const absent: CatalogState = { kind: 'absent' };
const invalid: CatalogState = { kind: 'invalid', reason: 'outputs is not an array' };
const future: CatalogState = { kind: 'future', version: 5 };
const a = output('a');
const ownA = record('a');
const v3: CatalogState = {
  kind: 'legacy',
  version: 3,
  records: [
    {
      path: 'a' as RelativePath,
      v3: { owner, digest: digestOf('a'), size: 1, updatedAt: '2026-01-01T00:00:00Z' },
    },
    {
      path: 'old' as RelativePath,
      v3: { owner, digest: digestOf('old'), size: 1, updatedAt: '2026-01-01T00:00:00Z' },
    },
    {
      path: 'theirs' as RelativePath,
      v3: { owner: stranger, digest: digestOf('t'), size: 1, updatedAt: '2026-01-01T00:00:00Z' },
    },
  ],
};

const rows: Record<string, Case[]> = {
  'No valid state and no destination content': [
    { name: 'additive', state: absent },
    { name: 'replacement', state: absent, workflow: 'replacement' },
    { name: 'force changes nothing', state: absent, force: true },
    { name: 'only managed bundle paths below', state: absent, observed: { nested: ['b'] } },
  ],
  'No valid state, destination content exists, no --force': [
    { name: 'content', state: absent, observed: { contentPresent: true } },
    {
      name: 'content, replacement',
      state: absent,
      workflow: 'replacement',
      observed: { contentPresent: true },
    },
  ],
  'Planned output path exists in storage but is not recorded in valid state, no --force': [
    { name: 'one path', state: catalog([]), observed: { unrecorded: ['a' as RelativePath] } },
    {
      name: 'two paths',
      state: catalog([record('z')]),
      planned: [a, output('b')],
      observed: { unrecorded: ['a', 'b'] as RelativePath[] },
    },
    {
      name: 'a link where it needs a directory',
      state: catalog([record('z')]),
      planned: [a, output('d/e/f')],
      observed: { obstacles: new Map([['d/e', 'link']]) },
    },
    {
      name: 'a directory with foreign content where it was published',
      state: catalog([ownA]),
      planned: [output('a', { digest: digestOf('new') })],
      observed: { obstacles: new Map([['a', 'directory']]) },
    },
    { name: 'recorded by another owner', state: catalog([record('a', { owner: stranger })]) },
    {
      name: 'announced by the interrupted attempt of another owner',
      state: catalog([], intent({ owner: stranger, outputs: [record('a', { owner: stranger })] })),
    },
    {
      name: 'inside a managed bundle path, nothing published yet',
      state: absent,
      planned: [output('b/a')],
      observed: { nested: ['b'] },
    },
    {
      name: 'inside a managed bundle path',
      state: catalog([]),
      planned: [output('b/a')],
      observed: { nested: ['b'] },
    },
    { name: 'below a file that stays', state: catalog([record('a')]), planned: [output('a/b')] },
    { name: 'a directory of a file that stays', state: catalog([record('a/b')]), planned: [a] },
  ],
  'Valid state, workflow additive, planned outputs differ from record': [
    { name: 'nothing recorded', state: catalog([]) },
    { name: 'kind', state: catalog([record('a', { kind: 'scene_map' })]) },
    { name: 'digest', state: catalog([record('a', { digest: digestOf('other') })]) },
    { name: 'size', state: catalog([record('a', { size: 2 })]) },
    {
      name: 'source identity',
      state: catalog([record('a', { source: { backend: 'local', id: '/other', path: 'bundle' } })]),
    },
    {
      name: 'source path',
      state: catalog([record('a', { source: { backend: 'local', id: '/source', path: 'moved' } })]),
    },
    {
      name: 'content type',
      state: catalog([
        record('a', { generated: { contentType: 'text/html', cacheControl: null, generator: null } }),
      ]),
    },
    {
      name: 'cache control',
      state: catalog([
        record('a', { generated: { contentType: 'text/plain', cacheControl: 'no-store', generator: null } }),
      ]),
    },
    {
      name: 'generator',
      state: catalog([
        record('a', {
          generated: {
            contentType: 'text/plain',
            cacheControl: null,
            generator: { name: 'index', version: 1, inputs: digestOf('i') },
          },
        }),
      ]),
    },
    { name: 'url', state: catalog([record('a', { url: 'https://example.org/a' })]) },
    {
      name: 'headers, where the storage keeps them with the bytes',
      state: catalog([
        record('a', { generated: { contentType: 'text/plain', cacheControl: 'no-store', generator: null } }),
      ]),
      observed: { keepsHeaders: true },
    },
    ...(['missing', 'size_differs', 'not_a_file'] as const).map((damage): Case => ({
      name: `files with the recorded digest are kept, and one of them is found to be: ${damage}`,
      state: catalog([record('a', { digest: digestOf('other') }), record('b'), record('c')]),
      planned: [a, output('b'), output('c')],
      observed: { damaged: new Map([['c', damage]]) },
    })),
    {
      name: 'all paths announced by an interrupted attempt are written again, recorded or not',
      state: catalog(
        [ownA, record('b'), record('c')],
        intent({ outputs: [record('b'), record('d')], removes: [listedKey('c')] }),
      ),
      planned: [a, output('b'), output('c'), output('d')],
    },
    { name: 'unrelated outputs stay', state: catalog([record('b'), record('c', { owner: stranger })]) },
    {
      name: 'an interrupted attempt, though all is recorded',
      state: catalog([ownA], intent({ outputs: [ownA] })),
    },
    { name: 'an interrupted attempt of another owner', state: catalog([ownA], intent({ owner: stranger })) },
    {
      name: 'an interrupted forced replacement had files to remove',
      state: catalog([], intent({ action: 'force_replace', outputs: [ownA], removes: [listedKey('junk')] })),
    },
    {
      name: 'an interrupted prune decides again',
      state: catalog([ownA, record('b')], intent({ action: 'prune', removes: [listedKey('b')] })),
    },
    { name: 'force changes nothing where nothing is in the way', state: catalog([]), force: true },
  ],
  'Valid state, workflow replacement': [
    { name: 'an omitted output goes', state: catalog([ownA, record('b')]), workflow: 'replacement' },
    {
      name: 'another owner stays',
      state: catalog([record('b', { owner: stranger })]),
      workflow: 'replacement',
    },
    {
      name: 'a file becomes a directory',
      state: catalog([ownA]),
      planned: [output('a/b')],
      workflow: 'replacement',
    },
    {
      name: 'announced by our interrupted attempt and omitted now',
      state: catalog([ownA], intent({ outputs: [record('b')] })),
      workflow: 'replacement',
    },
  ],
  'Valid state and planned outputs match recorded metadata': [
    { name: 'additive', state: catalog([ownA]) },
    { name: 'additive, with more recorded', state: catalog([ownA, record('b')]) },
    {
      name: 'replacement',
      state: catalog([ownA, record('b', { owner: stranger })]),
      workflow: 'replacement',
    },
    { name: 'force changes nothing', state: catalog([ownA]), force: true },
  ],
  'Invalid state or unsupported future state, no --force': [
    { name: 'invalid', state: invalid, observed: { contentPresent: true } },
    { name: 'future', state: future },
  ],
  'Unmanaged content, path collision, invalid or unsupported state, with --force': [
    { name: 'unmanaged content', state: absent, force: true, observed: { contentPresent: true } },
    {
      name: 'unmanaged content, everything that is there listed',
      state: absent,
      planned: [a, output('b')],
      force: true,
      observed: { contentPresent: true, contents: ['b', 'deep/x', 'y'].map(listedKey) },
    },
    {
      name: 'path collision',
      state: catalog([]),
      force: true,
      observed: { unrecorded: ['a' as RelativePath] },
    },
    {
      name: 'path collision: nothing is kept, recorded or not',
      state: catalog([ownA, record('b')]),
      planned: [a, output('c')],
      force: true,
      observed: { unrecorded: ['c' as RelativePath], contents: ['a', 'b', 'c'].map(listedKey) },
    },
    {
      name: 'a pipe where a path needs a directory',
      state: catalog([ownA]),
      planned: [a, output('d/e')],
      force: true,
      observed: { obstacles: new Map([['d', 'other']]), contents: ['a', 'd'].map(listedKey) },
    },
    { name: 'path of another owner', state: catalog([record('a', { owner: stranger })]), force: true },
    { name: 'invalid', state: invalid, force: true },
    { name: 'future', state: future, force: true },
    {
      name: 'would delete another managed bundle path',
      state: invalid,
      force: true,
      observed: { nested: ['b'] },
    },
  ],
  'Superseded legacy state': [
    { name: 'v1', state: { kind: 'legacy', version: 1, records: [] } },
    { name: 'v2', state: { kind: 'legacy', version: 2, records: [{ path: 'a' as RelativePath, v3: null }] } },
    { name: 'v3, records of the same owner are carried over', state: v3 },
    { name: 'v3, replacement', state: v3, workflow: 'replacement' },
    {
      name: 'never skip_same',
      state: v3,
      planned: [output('a', { source: { backend: 'local', id: 'legacy', path: 'bundle' } })],
    },
  ],
  'Setup, planning or execution failure for a destination': [
    { name: 'a replacement by nothing', state: catalog([ownA]), planned: [], workflow: 'replacement' },
  ],
};

t.test('matches the decision table', async (t) => {
  const text = Object.entries(rows)
    .map(([row, cases]) => `${row}\n${cases.map(describe).join('')}`)
    .join('\n');
  if (process.env['UPDATE_GOLDEN']) writeFileSync(golden, text);
  t.equal(text, readFileSync(golden, 'utf8'));
});

t.test('the table has every label and every reason', async (t) => {
  const text = readFileSync(golden, 'utf8');
  for (const label of [
    'publish_new',
    'upsert_additive',
    'replace_catalog',
    'skip_same',
    'force_replace',
    'fail_unmanaged',
    'fail_conflict',
    'error',
  ])
    t.match(text, new RegExp(`→ ${label}\\b`));
  for (const reason of [
    'destination_empty',
    'outputs_differ',
    'outputs_omitted',
    'attempt_interrupted',
    'legacy_state',
    'all_recorded',
    'content_unmanaged',
    'path_unrecorded',
    'path_of_other_owner',
    'path_in_nested_bundle',
    'path_blocked',
    'path_obstructed',
    'state_invalid',
    'state_unsupported',
  ])
    t.match(text, new RegExp(`\\(${reason}\\)`));
});

t.test('the table has every fate and every reason for it', async (t) => {
  const text = readFileSync(golden, 'utf8');
  for (const fate of [
    'add a (not_recorded)',
    'add c (missing)',
    'add d (interrupted)',
    'change a (content_differs)',
    'change a (headers_differ)',
    'change c (size_differs)',
    'change c (not_a_file)',
    'change b (interrupted)',
    'change a (legacy_state)',
    'change b (forced)',
    'keep b (same)',
    'refresh a (headers_differ)',
    'refresh a (kind_differs)',
    'refresh a (generator_differs)',
    'refresh a (source_differs)',
    'refresh a (url_differs)',
    'remove b (omitted)',
    'remove junk (interrupted)',
    'remove y (cleared)',
  ])
    t.ok(text.includes(fate), fate);
});

t.test('every planned output has one fate, and kept ones are neither written nor removed', async (t) => {
  for (const { name, ...one } of Object.values(rows).flat()) {
    const { state, planned = [a], workflow = 'additive', force = false, observed = {} } = one;
    const seen = { ...unseen, state, ...observed };
    let plan: Plan;
    try {
      plan = decide({ owner, bundle, workflow, force, destinationPath: 'bundle', planned, observed: seen });
    } catch {
      continue;
    }
    const { changes, writes, kept, removes } = plan;
    const of = (...fates: Fate[]): string[] =>
      changes.filter(({ fate }) => fates.includes(fate)).map(({ path }) => path);
    t.same(
      of('add', 'change'),
      writes.map(({ path }) => path),
      name,
    );
    t.same(
      of('keep', 'refresh'),
      kept.map(({ path }) => path),
      name,
    );
    t.same(of('remove'), removes, name);
    t.equal(new Set(changes.map(({ path }) => path)).size, changes.length, name);
    if (changesDestination(plan.action)) t.equal(writes.length + kept.length, planned.length, name);
  }
});

t.test('if the state decides, observing files would not change the decision', async (t) => {
  const settled = Object.values(rows)
    .flat()
    .map(({ state, planned = [a], workflow = 'additive', force = false, observed = unseen }) => ({
      ...{ owner, bundle, workflow, force, destinationPath: 'bundle', planned },
      observed: { ...unseen, ...observed, state },
    }))
    .filter((input) => isSettledByState(input, input.observed.state));
  t.ok(settled.length > 2, `${settled.length} cases`);
  for (const input of settled) {
    const looked = decide(input);
    t.equal(looked.action, 'skip_same');
    t.same(decide({ ...input, observed: { ...input.observed, isSettled: true } }), looked);
  }
});

function describe({
  name,
  state,
  planned = [a],
  workflow = 'additive',
  force = false,
  observed = {},
}: Case): string {
  const input: DecisionInput = {
    owner,
    workflow,
    force,
    bundle,
    destinationPath: 'bundle',
    planned,
    observed: { ...unseen, state, ...observed },
  };
  const head = `  ${name}\n`;
  try {
    const plan = decide(input);
    const effects = [
      ...plan.changes.map(({ path, fate, why }) => `${fate} ${path} (${why})`),
      ...plan.untouched.map(({ path }) => `leave ${path}`),
      ...(plan.clears ? ['clear all else'] : []),
    ];
    const tail = effects.length === 0 ? 'nothing is written' : effects.join(', ');
    return `${head}    → ${plan.action} (${plan.reason.code}): ${plan.reason.message}\n      ${tail}\n`;
  } catch (error) {
    if (!(error instanceof WaybillError)) throw error;
    return `${head}    → error (${error.code}): ${error.message}\n`;
  }
}
