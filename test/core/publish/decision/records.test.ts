import t from 'tap';
import type { OutputRecord } from '../../../../src/core/catalog/catalog.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import type { RelativePath } from '../../../../src/core/lib/paths.ts';
import {
  isSettledByState,
  matchesRecord,
  recordedIn,
  reusableOutputs,
} from '../../../../src/core/publish/decision/records.ts';
import { bytesBody } from '../../../../src/core/storage/body.ts';
import { listedKey } from '../../../../src/core/storage/key.ts';
import { otherOwner, owner } from '../../../faults/world.ts';
import * as made from '../../../support/decisions.ts';

const generator = { name: 'index', version: 1, inputs: digestOf('inputs') };
const record: OutputRecord = {
  path: 'a.txt' as RelativePath,
  owner,
  source: { backend: 'local', id: '/source', path: 'bundle' },
  kind: 'file',
  digest: digestOf('a'),
  size: 1,
  updatedAt: '2026-11-20T00:00:00.000Z',
  generated: { contentType: 'text/plain', cacheControl: 'no-cache', generator },
  url: 'https://maps.example.org/a.txt',
};
const planned = { ...record, body: bytesBody('a') };

t.test('an output is recorded as planned only if all of its properties match', async (t) => {
  t.ok(matchesRecord(record, planned));
  t.ok(
    matchesRecord({ ...record, updatedAt: '2026-11-21T00:00:00.000Z' }, planned),
    'its time is not compared',
  );
  t.notOk(matchesRecord(undefined, planned));
  const { source, generated } = record;
  const others: [what: string, differing: Partial<OutputRecord>][] = [
    ['owner', { owner: otherOwner }],
    ['backend of the source', { source: { ...source, backend: 's3' } }],
    ['id of the source', { source: { ...source, id: '/other' } }],
    ['path of the source', { source: { ...source, path: 'other' } }],
    ['kind', { kind: 'map' }],
    ['digest', { digest: digestOf('b') }],
    ['size', { size: 2 }],
    ['content type', { generated: { ...generated, contentType: null } }],
    ['Cache-Control', { generated: { ...generated, cacheControl: null } }],
    ['no generator', { generated: { ...generated, generator: null } }],
    ['name of the generator', { generated: { ...generated, generator: { ...generator, name: 'x' } } }],
    ['version of the generator', { generated: { ...generated, generator: { ...generator, version: 2 } } }],
    [
      'inputs of the generator',
      { generated: { ...generated, generator: { ...generator, inputs: digestOf('x') } } },
    ],
    ['URL', { url: null }],
  ];
  for (const [what, differing] of others) t.notOk(matchesRecord({ ...record, ...differing }, planned), what);
});

t.test('the state decides if nothing must be written or removed', async (t) => {
  const { catalog, intent } = made;
  const planning = { owner, planned: [made.output('a')] };
  const settles = (workflow: 'additive' | 'replacement', ...of: Parameters<typeof catalog>): boolean =>
    isSettledByState({ ...planning, workflow }, catalog(...of));
  const a = made.record('a');
  const more = [a, made.record('b')];
  const theirs = [a, made.record('b', { owner: otherOwner })];
  for (const workflow of ['additive', 'replacement'] as const) {
    t.equal(settles(workflow, [a]), true);
    t.equal(settles(workflow, theirs), true, 'outputs of another owner stay');
    t.equal(settles(workflow, [made.record('a', { size: 2 })]), false);
    t.equal(settles(workflow, []), false);
    t.equal(settles(workflow, [a], intent()), false, 'not while an attempt is unfinished');
    t.equal(isSettledByState({ ...planning, workflow }, { kind: 'absent' }), false);
  }
  t.equal(settles('additive', more), true);
  t.equal(settles('replacement', more), false, 'a replacement must remove the other one');
});

t.test('a record confirms the bytes of an output, and its headers if the storage keeps them', async (t) => {
  const { source, generated } = record;
  const cases: [what: string, differing: Partial<OutputRecord>, vouches: boolean, withHeaders: boolean][] = [
    ['the same', {}, true, true],
    ['what only the catalog says', { source: { ...source, id: '/other' }, kind: 'x', url: null }, true, true],
    ['how it was generated', { generated: { ...generated, generator: null } }, true, true],
    ['content type', { generated: { ...generated, contentType: null } }, true, false],
    ['Cache-Control', { generated: { ...generated, cacheControl: null } }, true, false],
    ['digest', { digest: digestOf('b') }, false, false],
    ['size', { size: 2 }, false, false],
    ['owner', { owner: otherOwner }, false, false],
    ['path', { path: 'other' as RelativePath }, false, false],
  ];
  for (const [what, differing, vouches, withHeaders] of cases) {
    const { catalog } = made.catalog([{ ...record, ...differing }]);
    t.same(reusableOutputs([planned], catalog, { keepsHeaders: false }), vouches ? [planned] : [], what);
    t.same(reusableOutputs([planned], catalog, { keepsHeaders: true }), withHeaders ? [planned] : [], what);
  }
  for (const pending of [
    made.intent({ outputs: [record] }),
    made.intent({ removes: [listedKey(record.path)] }),
  ]) {
    const { catalog } = made.catalog([record], pending);
    t.same(reusableOutputs([planned], catalog, { keepsHeaders: false }), [], 'not if it was announced');
  }
});

t.test('recorded paths are those of the state and those that an unfinished attempt announced', async (t) => {
  const recorded = (...of: Parameters<typeof made.catalog>): string[] => {
    const paths = recordedIn(made.catalog(...of));
    return ['a', 'b', 'c', 'd'].filter((path) => paths.has(path));
  };
  t.same(recorded([made.record('a')]), ['a']);
  const pending = made.intent({ outputs: [made.record('b')], removes: [listedKey('c')] });
  t.same(recorded([made.record('a')], pending), ['a', 'b', 'c']);
});
