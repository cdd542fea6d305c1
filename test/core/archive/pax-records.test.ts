import t from 'tap';
import { readPaxRecords } from '../../../src/core/archive/pax-records.ts';

t.test('records are read by their lengths, whatever their values hold', async (t) => {
  const records = readPaxRecords(Buffer.from('12 path=a=b\n8 k=\n\nx\n'));
  t.equal(String(records.get('path')), 'a=b');
  t.equal(String(records.get('k')), '\n\nx');
  t.equal(readPaxRecords(Buffer.alloc(0)).size, 0);
});

t.test('a length that does not fit throws malformed_archive', async (t) => {
  for (const body of [
    '11 path=a=b\n',
    '13 path=a=b\n',
    '012 path=a=b',
    'x path=a\n',
    '5 ab\n',
    '3 a',
    '999999999 a=b\n',
  ])
    t.throws(() => readPaxRecords(Buffer.from(body)), { code: 'malformed_archive' }, body);
});
