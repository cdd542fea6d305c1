import path from 'node:path';
import t from 'tap';
import { trustedKeys } from '../../../src/core/signing/trusted-keys.ts';

t.test('names a file of keys that cannot be read, and the reason', async (t) => {
  const keysFile = path.join(t.testdir(), 'trusted.pub');
  t.throws(() => trustedKeys({ required: true, keys: null, keysFile }), {
    code: 'signing_key_invalid',
    message: `the keys in ${keysFile} cannot be read: the file does not exist`,
  });
});
