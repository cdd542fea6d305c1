import { createHash } from 'node:crypto';
import t from 'tap';
import { authenticate, resolveTokens, type Token } from '../../../src/api/http/auth.ts';
import { scopes } from '../../../src/core/config/schema/schema.ts';
import { loadSecrets } from '../../../src/core/lib/secrets.ts';

const secretsOf = (env: Record<string, string>) => loadSecrets({ directory: null, env });
const unlimited = { scopes: [...scopes], expiresAt: null };
const ci = { id: 'ci', valueEnv: 'CI', pipelines: ['maps'], ...unlimited };
const cron = { id: 'cron', valueEnv: 'CRON', pipelines: ['docs'], ...unlimited };
const of = (tokens: Token[]) => ({ tokens, publishers: { open: () => null } });
const at = (time: string) => ({ now: () => new Date(time) });
const clock = at('2026-11-20T00:00:00Z');

t.test('finds a token by its value at any position of the list', async (t) => {
  const tokens = resolveTokens([ci, cron], await secretsOf({ CI: 'aaa', CRON: 'b.b-b_b~b+b/b==' }));
  t.equal(authenticate('Bearer aaa', of(tokens), clock).id, 'ci');
  t.equal(authenticate('bearer   b.b-b_b~b+b/b==', of(tokens), clock).id, 'cron');
});

t.test('a token may be configured as the SHA-256 of its value, in any case', async (t) => {
  const digest = createHash('sha256').update('aaa').digest('hex');
  for (const CI of [`sha256:${digest}`, `SHA256:${digest.toUpperCase()}`]) {
    const tokens = resolveTokens([ci], await secretsOf({ CI }));
    t.equal(authenticate('Bearer aaa', of(tokens), clock).id, 'ci');
    for (const guess of [digest, `sha256:${digest}`])
      t.throws(() => authenticate(`Bearer ${guess}`, of(tokens), clock), { code: 'unauthorized' });
  }
  for (const CI of [
    'sha256:',
    'sha256:abc',
    `sha256:${digest}0`,
    `sha512:${digest}`,
    `sha256:${'g'.repeat(64)}`,
  ])
    t.throws(
      () => resolveTokens([ci], { ...secretless, require: () => CI }),
      { code: 'secrets_invalid' },
      CI,
    );
  const both = await secretsOf({ CI: 'aaa', CRON: `sha256:${digest}` });
  t.throws(() => resolveTokens([ci, cron], both), { code: 'secrets_invalid', message: /the same value/ });
});

t.test('gives an expired token its own error code, only for a client that presents its value', async (t) => {
  const limited = { ...ci, expiresAt: new Date('2026-11-20T00:00:00Z') };
  const tokens = resolveTokens([limited], await secretsOf({ CI: 'aaa' }));
  t.equal(authenticate('Bearer aaa', of(tokens), at('2026-11-19T23:59:59.999Z')).id, 'ci');
  t.throws(() => authenticate('Bearer aaa', of(tokens), clock), { code: 'token_expired', message: /"ci"/ });
  t.throws(() => authenticate('Bearer aab', of(tokens), clock), { code: 'unauthorized' });
});

t.test('any other token is unauthorized, and the answer never repeats it', async (t) => {
  const tokens = resolveTokens([ci], await secretsOf({ CI: 'aaa' }));
  for (const header of [
    undefined,
    '',
    'aaa',
    'Bearer',
    'Bearer ',
    'Bearer aa',
    'Bearer aaaa',
    'Bearer aaa bbb',
    'Basic aaa',
    'Bearer AAA',
  ]) {
    t.throws(() => authenticate(header, of(tokens), clock), { code: 'unauthorized' }, String(header));
  }
  t.throws(() => authenticate('Bearer guess', of([]), clock), {
    code: 'unauthorized',
    message: /^(?!.*guess)/,
  });
});

t.test('a missing, malformed or duplicate token stops the daemon from starting', async (t) => {
  t.throws(() => resolveTokens([ci], { ...secretless, ...{} }), { code: 'secrets_invalid' });
  const unsendable = await secretsOf({ CI: 'two words' });
  t.throws(() => resolveTokens([ci], unsendable), { code: 'secrets_invalid', message: /CI/ });
  t.throws(() => resolveTokens([ci], unsendable), { message: /^(?!.*two words)/ });
  const same = await secretsOf({ CI: 'aaa', CRON: 'aaa' });
  t.throws(() => resolveTokens([ci, cron], same), {
    code: 'secrets_invalid',
    message: /"ci" \(CI\) and "cron" \(CRON\)/,
  });
});

const secretless = await secretsOf({});
