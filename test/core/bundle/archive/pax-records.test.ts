import t from 'tap';
import { readPaxRecords } from '../../../../src/core/bundle/archive/tar-writer.ts';

t.test('reads records by their lengths, with any values', async (t) => {
  const records = readPaxRecords(Buffer.from('12 path=a=b\n8 k=\n\nx\n'));
  t.equal(String(records.get('path')), 'a=b');
  t.equal(String(records.get('k')), '\n\nx');
  t.equal(readPaxRecords(Buffer.alloc(0)).size, 0);
});

t.test('a wrong length throws malformed_archive', async (t) => {
  for (const body of [
    '11 path=a=b\n',
    '13 path=a=b\n',
    '012 path=a=b',
    'x path=a\n',
    '5 ab\n',
    '5 ab\n6 a=1\n',
    '08 a=12\n',
    'x8 a=12\n',
    '8xa=12\n ',
    '1 a=1\n',
    '2 \n',
    '3 a',
    '999999999 a=b\n',
  ])
    t.throws(() => readPaxRecords(Buffer.from(body)), { code: 'malformed_archive' }, body);
});

t.test('reads consecutive records, and uses the last one of a key', async (t) => {
  const records = readPaxRecords(Buffer.from('6 a=1\n6 b=2\n6 a=3\n'));
  t.same(
    [...records].map(([key, value]) => [key, String(value)]),
    [
      ['a', '3'],
      ['b', '2'],
    ],
  );
  const value = 'x'.repeat(987);
  t.equal(String(readPaxRecords(Buffer.from(`994 a=${value}\n`)).get('a')), value);
});
