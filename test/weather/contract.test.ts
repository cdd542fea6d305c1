import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { getTableColumns, getTableName } from 'drizzle-orm';
import t from 'tap';
import { weatherFamilies } from '../../src/weather/families.ts';
import { createTables } from '../../src/weather/feed/tables/create-tables.ts';
import { openDirectory } from '../../src/weather/feed/tables/open-directory.ts';

t.test('matches the tables of the families with the contract, column by column', async (t) => {
  const target = await openDirectory(join(t.testdir({}), 'database'));
  await createTables(target);
  const rows = await target.query(
    `select table_name, column_name, case when data_type = 'ARRAY' then 'text[]' else data_type end as type, is_nullable
     from information_schema.columns where table_schema = 'weather'`,
    [],
  );
  await target.close();
  const declared = rows.map(
    (row) =>
      `${String(row['table_name'])}.${String(row['column_name'])} ${String(row['type'])}${row['is_nullable'] === 'NO' ? ' not null' : ''}`,
  );
  const tables = new Set(Object.values(weatherFamilies).flatMap((family) => family.tables));
  const known = [...tables].flatMap((table) =>
    Object.values(getTableColumns(table)).map(
      (column) =>
        `${getTableName(table)}.${column.name} ${column.getSQLType()}${column.notNull ? ' not null' : ''}`,
    ),
  );
  t.ok(known.length > 130);
  t.same(known.sort(), declared.sort());
});

t.test('the published SQL is the SQL that the feeder executes', async (t) => {
  const sql = await readFile('src/weather/feed/tables/weather-contract.sql', 'utf8');
  t.equal(await readFile('schemas/weather-contract.sql', 'utf8'), sql, 'run "npm run generate"');
});
