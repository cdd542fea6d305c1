import { readFile } from 'node:fs/promises';
import t from 'tap';
import { findingCodes } from '../../../src/core/scene-map/report.ts';

t.test('the documentation has each finding code with its severity and rule', async (t) => {
  const text = await readFile('docs/scene-map.md', 'utf8');
  const rows = [...text.matchAll(/^\| `(\w+)` +\| (error|warning) +\| (.*?) +\|$/gm)].map(
    ([, code, severity, about]) => [code, severity, about],
  );
  t.same(
    rows,
    Object.entries(findingCodes).map(([code, { severity, about }]) => [code, severity, about]),
  );
});
