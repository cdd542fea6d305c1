import t from 'tap';
import { nearest } from '../../../src/core/lib/text.ts';

const known = ['id', 'path', 'host', 'host_key_policy', 'prefix', 'public_base_url', 'workflow'];

t.test('finds the intended word for typing errors', async (t) => {
  for (const [word, meant] of [
    ['pth', 'path'],
    ['paht', 'path'],
    ['Path', 'path'],
    ['host-key-policy', 'host_key_policy'],
    ['hostkeypolicy', 'host_key_policy'],
    ['prefx', 'prefix'],
    ['public_url', 'public_base_url'],
    ['path', 'path'],
  ] as const)
    t.equal(nearest(word, known), meant, word);
});

t.test('finds nothing for an unrelated name', async (t) => {
  for (const word of ['', 'colour', 'x'.repeat(100_000), 'retention'])
    t.equal(nearest(word, known), undefined, word.slice(0, 20));
  t.equal(nearest('path', []), undefined);
});
