import { readdir } from 'node:fs/promises';
import t from 'tap';
import { wholeNumber } from '../../src/core/lib/parameters.ts';
import { weatherFamilies } from '../../src/weather/families.ts';
import { type Reading, type WeatherFamily, weatherFamily } from '../../src/weather/family.ts';
import { field } from '../../src/weather/fields.ts';

const families: readonly WeatherFamily[] = Object.values(weatherFamilies);

t.test('every family has its template, and every template a family', async (t) => {
  const files = await readdir('templates/weather');
  t.same(files.sort(), families.map(({ template }) => `${template}.txt.tmpl`).sort());
});

t.test('paths and operations are unique, and every family has a table', (t) => {
  t.equal(new Set(families.map(({ endpoint }) => endpoint.path)).size, families.length);
  t.equal(new Set(families.map(({ endpoint }) => endpoint.operationId)).size, families.length);
  for (const { endpoint, tables } of families) {
    t.match(endpoint.path, /^\/[a-z][a-z/-]*(\{[a-z]+\})?$/);
    t.ok(tables.length > 0, endpoint.path);
    t.ok(endpoint.maxAgeSeconds > 0);
  }
  t.end();
});

t.test('parameters are documented, and their examples and defaults are valid', (t) => {
  for (const { endpoint } of families)
    for (const [name, parameter] of Object.entries(endpoint.parameters)) {
      t.match(parameter.description, /^[A-Z`].*\.$/, `${endpoint.path} ${name}`);
      if (typeof parameter.example === 'string') t.not(parameter.parse(parameter.example), undefined);
      const { default: text } = parameter.schema;
      if (text !== undefined) t.equal(JSON.stringify(text), JSON.stringify(parameter.absent));
      t.equal(parameter.parse(''), undefined, 'an empty value is rejected');
    }
  t.end();
});

interface TideData {
  station: string;
  tides: { at: string; heights: number[] }[];
}
const read = (): Promise<Reading<TideData>> => Promise.resolve({ data: null, lastModified: null });
const endpoint = {
  path: '/tides',
  operationId: 'getTides',
  summary: 'Tides',
  parameters: { days: wholeNumber(1, 7, 1, { description: 'Days.' }) },
  maxAgeSeconds: 60,
};
const itemNames = { tides: 'tide', heights: 'height' };
const record = field<TideData>({ type: 'object' });
const complete = { tables: [], endpoint, record, template: 'tides', itemNames, read };

t.test('a missing or mistyped member is a compile error', (t) => {
  weatherFamily(complete);
  const { path, operationId, summary, parameters } = endpoint;
  // @ts-expect-error the template is missing
  weatherFamily({ tables: [], endpoint, record, itemNames, read });
  // @ts-expect-error nothing describes the record
  weatherFamily({ tables: [], endpoint, template: 'tides', itemNames, read });
  // @ts-expect-error no read function
  weatherFamily({ tables: [], endpoint, record, template: 'tides', itemNames });
  // @ts-expect-error the endpoint does not say how long its answers are valid
  weatherFamily({ ...complete, endpoint: { path, operationId, summary, parameters } });
  // @ts-expect-error the inner list has no name for its items
  weatherFamily({ ...complete, itemNames: { tides: 'tide' } });
  // @ts-expect-error no such parameter is declared
  weatherFamily({ ...complete, read: (_source, { hours }) => read(hours) });
  t.pass('checked by the compiler');
  t.end();
});
