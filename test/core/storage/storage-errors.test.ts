import t from 'tap';
import { localFailure } from '../../../src/core/storage/storage-errors.ts';

const failureOf = (code: string): ReturnType<typeof localFailure> =>
  localFailure(
    { label: 'local storage "web"' },
    'page.html',
    Object.assign(new Error(`${code}: no`), { code }),
  );

t.test('an unreachable mount is retried', async (t) => {
  for (const code of [
    'EIO',
    'ENODEV',
    'ENOTCONN',
    'EHOSTDOWN',
    'EHOSTUNREACH',
    'ENETUNREACH',
    'ESTALE',
    'ETIMEDOUT',
  ])
    t.match(failureOf(code), { code: 'storage_transient', message: /page\.html/ }, code);
});

t.test('a rejected operation is not retried', async (t) => {
  t.match(failureOf('EACCES'), { code: 'storage_denied' });
  t.match(failureOf('EROFS'), { code: 'storage_denied' });
  t.match(failureOf('ENAMETOOLONG'), { code: 'storage_permanent' });
});
