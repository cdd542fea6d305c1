import t from 'tap';
import { isRedisUrl } from '../../../../src/core/lib/settings/parse-values.ts';

t.test('the user and password of a Redis URL must be percent-encoded', async (t) => {
  for (const url of ['redis://host', 'rediss://ada:50%25off@host:6379/0', 'redis://:secret@[::1]'])
    t.ok(isRedisUrl(url), url);
  for (const url of ['redis://:50%off@host', 'redis://50%off@host', 'http://host', 'redis:///0', 'host', ''])
    t.notOk(isRedisUrl(url), url);
});
