import t from 'tap';
import { barFormat } from '../../../src/cli/output/progress.ts';
import { hangingIndent, widthOf, wrapLines } from '../../../src/cli/output/terminal.ts';

const rows = [
  '    + target=docs/handbook  replace_catalog  12 files, 72.5 KiB, 1 removed, release 20261126T103320Z-287dcce7',
  'error  the destination "ftp://example.org/www" is not understood: "ftp:" is not supported',
  '  → 20261126T103320Z-a1e0357f  32 files  95 B  docs  since 2026-11-26 11:33 CET  current, a rollback goes here',
  'published 1, unchanged 1, failed 0 in 0.4 s (72.5 KiB)  publish_new=1 skip_same=1',
];

t.test('no line is wider than the terminal, and no word is broken or lost', async (t) => {
  for (const width of [60, 80, 120])
    for (const row of rows) {
      const lines = wrapLines(row, width, hangingIndent(width)).split('\n');
      for (const line of lines) t.ok(line.length <= width, `${width}: ${line}`);
      t.same(lines.join(' ').split(/ +/), row.split(/ +/), 'the same words in the same order');
    }
  t.equal(wrapLines(rows.join('\n'), Infinity), rows.join('\n'), 'a file or a pipe gets unwrapped lines');
});

t.test('continuation lines are indented to the text after a sign or a label', async (t) => {
  const below = (line: string): string[] => wrapLines(line, 24, hangingIndent(24)).split('\n');
  t.same(below('next   name a directory of yours'), ['next   name a directory', '       of yours']);
  t.same(below('  + one two three four five six'), ['  + one two three four', '    five six']);
  t.same(below('published 12, unchanged 4, failed 0'), ['published 12, unchanged', '  4, failed 0']);
});

t.test('a line breaks between columns if one of them fits', async (t) => {
  const row = '2026-11-26 11:33 CET  succeeded  site.1  web replace_catalog';
  t.same(wrapLines(row, 48, hangingIndent(48)).split('\n'), [
    '2026-11-26 11:33 CET  succeeded  site.1',
    '  web replace_catalog',
  ]);
});

t.test('colors have no width, and a word wider than the terminal stays whole', async (t) => {
  t.equal(widthOf('\u001b[32mdone\u001b[39m'), 4);
  t.equal(wrapLines('\u001b[32mdone\u001b[39m it', 7), '\u001b[32mdone\u001b[39m it');
  t.same(wrapLines('a sha256:0123456789abcdef b', 10).split('\n'), ['a', 'sha256:0123456789abcdef', 'b']);
  t.equal(
    wrapLines('  + docs/a-long-path', 10, hangingIndent(10)),
    '  + docs/a-long-path',
    'next to its sign',
  );
});

t.test('a progress bar fits the terminal, and omits parts that do not fit', async (t) => {
  const values = { name: 'a pipeline of 20 ch  ', percentage: '100', done: '1023.9 MiB', all: '1023.9 MiB' };
  const shown = { ...values, rate: '1023.9 MiB/s', left: '59m 59s left' };
  for (const width of [60, 80, 120]) {
    const { format, barsize } = barFormat(1, width);
    const line = Object.entries({ ...shown, bar: '#'.repeat(barsize) }).reduce(
      (text, [name, value]) => text.replace(`{${name}}`, value),
      format,
    );
    t.ok(line.length <= width, `${width}: ${line}`);
    t.notMatch(line, /\{/);
  }
});
