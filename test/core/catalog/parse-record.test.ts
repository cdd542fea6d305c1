import t from 'tap';
import { recordParser } from '../../../src/core/catalog/parse.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import { sourceBackends } from '../../../src/core/storage/backends.ts';

const owner = { pipeline_id: 'maps', destination_id: 'web' };
const source = { backend: 'local', id: '/source', path: '.' };
const generated = { content_type: 'text/html', cache_control: 'no-cache' };
const generator = { name: 'pages', version: 1, inputs: digestOf('') };
const record = {
  path: 'a',
  owner,
  source,
  kind: 'file',
  digest: digestOf('a'),
  size: 1,
  updated_at: '2026-11-20T00:00:00Z',
  generated,
  url: null,
};
const textOf = (value: object): string => JSON.stringify(value);

t.test('equal values of records are shared, and different ones are not', async (t) => {
  const parse = recordParser(sourceBackends);
  const first = parse(record);
  const again = parse(JSON.parse(textOf(record)));
  for (const name of ['owner', 'source', 'generated'] as const) t.equal(again[name], first[name], name);
  for (const [name, changed] of [
    ['owner', { ...owner, pipeline_id: 'other' }],
    ['owner', { ...owner, destination_id: 'other' }],
    ['source', { ...source, backend: 's3' }],
    ['source', { ...source, id: '/other' }],
    ['source', { ...source, path: 'other' }],
    ['generated', { ...generated, content_type: 'text/plain' }],
    ['generated', { ...generated, cache_control: 'no-store' }],
    ['generated', { ...generated, generator }],
    ['generated', {}],
  ] as const) {
    const other = parse({ ...record, [name]: changed });
    t.same(other, recordParser(sourceBackends)({ ...record, [name]: changed }), textOf(changed));
    t.not(other[name], first[name], textOf(changed));
  }
});

t.test('metadata of generated outputs is never shared', async (t) => {
  const parse = recordParser(sourceBackends);
  const [one, two] = ['a', 'b'].map((text) =>
    parse({ ...record, generated: { ...generated, generator: { ...generator, inputs: digestOf(text) } } }),
  );
  t.same(one?.generated.generator, { ...generator, inputs: digestOf('a') });
  t.same(two?.generated.generator, { ...generator, inputs: digestOf('b') });
  t.equal(parse(record).generated.generator, null);
});

t.test('the last eight sources are shared', async (t) => {
  const parse = recordParser(sourceBackends);
  const read = (id: number) => parse({ ...record, source: { ...source, id: `/${id}` } }).source;
  const known = [1, 2, 3, 4, 5, 6, 7, 8, 9].map(read);
  for (let id = 2; id <= 9; id += 1) t.equal(read(id), known[id - 1], `source ${id}`);
  t.not(read(1), known[0], 'but no more');
});
