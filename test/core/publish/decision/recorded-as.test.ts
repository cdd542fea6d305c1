import t from 'tap';
import type { OutputRecord } from '../../../../src/core/catalog/catalog.ts';
import { digestOf } from '../../../../src/core/digest.ts';
import type { RelativePath } from '../../../../src/core/paths.ts';
import { isRecordedAs } from '../../../../src/core/publish/decision/recorded-as.ts';
import { bytesBody } from '../../../../src/core/storage/body.ts';
import { otherOwner, owner } from '../../../faults/world.ts';

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

t.test('an output is recorded as planned only if every single thing of it is', async (t) => {
  t.ok(isRecordedAs(record, planned));
  t.ok(
    isRecordedAs({ ...record, updatedAt: '2026-11-21T00:00:00.000Z' }, planned),
    'its time is not compared',
  );
  t.notOk(isRecordedAs(undefined, planned));
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
  for (const [what, differing] of others) t.notOk(isRecordedAs({ ...record, ...differing }, planned), what);
});
