import t from 'tap';
import { authenticate, resolveTokens } from '../../src/api/http/auth.ts';
import { loadSecrets } from '../../src/core/secrets.ts';

const secretsOf = (env: Record<string, string>) => loadSecrets({ directory: null, env });
const ci = { id: 'ci', valueEnv: 'CI', pipelines: ['maps'] };
const cron = { id: 'cron', valueEnv: 'CRON', pipelines: ['docs'] };

t.test('a token is found by its value, whichever place it has', async (t) => {
  const tokens = resolveTokens([ci, cron], await secretsOf({ CI: 'aaa', CRON: 'b.b-b_b~b+b/b==' }));
  t.equal(authenticate('Bearer aaa', tokens).id, 'ci');
  t.equal(authenticate('bearer   b.b-b_b~b+b/b==', tokens).id, 'cron');
});

t.test('anything else is unauthorized, and the answer never repeats it', async (t) => {
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
    t.throws(() => authenticate(header, tokens), { code: 'unauthorized' }, String(header));
  }
  t.throws(() => authenticate('Bearer guess', []), { code: 'unauthorized', message: /^(?!.*guess)/ });
});

t.test(
  "a token that is missing, cannot be sent, or is another one's too stops the daemon from starting",
  async (t) => {
    t.throws(() => resolveTokens([ci], { ...secretless, ...{} }), { code: 'secrets_invalid' });
    const unsendable = await secretsOf({ CI: 'two words' });
    t.throws(() => resolveTokens([ci], unsendable), { code: 'secrets_invalid', message: /CI/ });
    t.throws(() => resolveTokens([ci], unsendable), { message: /^(?!.*two words)/ });
    const same = await secretsOf({ CI: 'aaa', CRON: 'aaa' });
    t.throws(() => resolveTokens([ci, cron], same), {
      code: 'secrets_invalid',
      message: /"ci" \(CI\) and "cron" \(CRON\)/,
    });
  },
);

const secretless = await secretsOf({});
