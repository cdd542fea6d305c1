import { readFileSync } from 'node:fs';
import t from 'tap';
import {
  keptRows,
  matrices,
  type MatrixName,
  type MatrixRow,
  matrixTable,
  withMatrices,
} from '../scripts/matrices/matrices.ts';

const names = Object.keys(matrices) as MatrixName[];

t.test('a table has a column for every value in its rows', async (t) => {
  const rows: MatrixRow[] = [
    { subject: 'a', version: '1.0', found: { reads: 'yes', 'a|b': 'no' } },
    { subject: 'long', version: '2', found: { writes: 'über' } },
  ];
  t.equal(
    matrixTable('node-releases', rows),
    [
      '| Node.js | tried with | reads | a\\|b | writes |',
      '| ------- | ---------- | ----- | ---- | ------ |',
      '| a       | 1.0        | yes   | no   | –      |',
      '| long    | 2          | –     | –    | über   |',
    ].join('\n'),
  );
});

t.test('a page shows only stored results, and no manual edits', async (t) => {
  for (const name of names.filter((each) => keptRows(each).length > 0)) {
    const { page } = matrices[name];
    const text = readFileSync(page, 'utf8');
    t.match(text, matrixTable(name, keptRows(name)), name);
    const begin = `<!-- matrix ${name} -->\n`;
    t.equal(withMatrices(page, text.replace(begin, `${begin}\n| edited |\n`)), text);
    t.throws(() => withMatrices(page, text.replace(begin, '')), { message: /lacks the lines/ });
  }
});
