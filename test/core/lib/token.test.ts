import t from 'tap';
import { isMistyped, newToken } from '../../../src/core/lib/token.ts';

t.test('a new token has a prefix, 160 random bits and a checksum', async (t) => {
  const tokens = Array.from({ length: 50 }, newToken);
  for (const token of tokens) t.match(token, /^wb_[a-z2-7]{39}$/);
  t.equal(new Set(tokens).size, 50);
  for (const token of tokens) t.notOk(isMistyped(token));
});

t.test('a changed, exchanged or missing character is a typing mistake', async (t) => {
  const token = newToken();
  for (let at = 3; at < token.length; at += 1) {
    const other = token[at] === 'a' ? 'b' : 'a';
    t.ok(isMistyped(token.slice(0, at) + other + token.slice(at + 1)), `character ${at}`);
  }
  t.ok(isMistyped(token.slice(0, -1)));
  t.ok(isMistyped(`${token}a`));
  t.ok(isMistyped(token.toUpperCase().replace('WB_', 'wb_')));
});

t.test('a token without the prefix is not checked', async (t) => {
  for (const text of ['', 'a', 'wb', 'a-token-of-the-operator', 'sha256:00']) t.notOk(isMistyped(text), text);
});
