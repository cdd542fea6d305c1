import t from 'tap';
import type { JsonValue } from '../../../src/core/bundle/manifest-json.ts';
import { maxMessageChars, revisionOf } from '../../../src/core/bundle/source-bundle.ts';

const nothing = { message: null, commit: null, branch: null, author: null };

t.test('a revision has the four keys of the metadata, and ignores values that are not text', async (t) => {
  const metadata = { message: 'Fix the title', commit: '1a2b', branch: 'main', author: 'Ada', build: '7' };
  t.same(revisionOf(metadata), { message: 'Fix the title', commit: '1a2b', branch: 'main', author: 'Ada' });
  t.same(revisionOf({ commit: '1a2b', branch: 7, author: ['Ada'] }), { ...nothing, commit: '1a2b' });
  const nothings: (JsonValue | undefined)[] = [
    undefined,
    null,
    'text',
    [],
    {},
    { message: 5 },
    { message: ' \n' },
  ];
  for (const none of nothings) t.equal(revisionOf(none), null, JSON.stringify(none));
});

t.test('texts are shortened to one line, and URLs have no user or password', async (t) => {
  const long = revisionOf({ message: '𝄞'.repeat(maxMessageChars + 1), branch: 'b'.repeat(100_000) });
  t.equal(Array.from(long?.message ?? '').length, maxMessageChars);
  t.match(long?.message, /𝄞…$/u, 'no character is split');
  t.equal(long?.branch?.length, 200);
  const forged = revisionOf({ message: 'a\n\u001b[2Jb\u202ec', author: 'Ada\u0000' });
  t.same(forged, { ...nothing, message: 'a [2Jb c', author: 'Ada' });
  t.equal(
    revisionOf({ message: 'from https://ci:s3cret@git.example.org/x.git and more' })?.message,
    'from https://git.example.org/x.git and more',
  );
});
