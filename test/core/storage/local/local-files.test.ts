import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import { storedBody } from '../../../../src/core/storage/body.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import { localStorage } from '../../../../src/core/storage/local/local-storage.ts';

t.test('concurrent copies of small files do not mix their bytes', async (t) => {
  const root = t.testdir({ from: {}, to: {} });
  const texts = Array.from({ length: 200 }, (_, index) => `${index} `.repeat(500 + index));
  for (const [index, text] of texts.entries()) writeFileSync(path.join(root, 'from', `${index}`), text);
  const from = await localStorage(path.join(root, 'from'));
  const to = await localStorage(path.join(root, 'to'));
  const written = await Promise.all(
    texts.map((text, index) =>
      to.write(key(`${index}`), storedBody(from, { key: key(`${index}`), size: text.length }), {
        mode: 'scratch',
      }),
    ),
  );
  t.same(
    written.map(({ digest }) => digest),
    texts.map((text) => digestOf(text)),
  );
  for (const [index, text] of texts.entries())
    if (readFileSync(path.join(root, 'to', `${index}`), 'utf8') !== text) t.fail(`${index} has other bytes`);
});
