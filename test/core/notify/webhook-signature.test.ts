import { randomBytes } from 'node:crypto';
import { Webhook } from 'standardwebhooks';
import t from 'tap';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { parseSigningSecret, signedHeaders } from '../../../src/core/notify/webhook-signature.ts';

const secret = (bytes = 32): string => `whsec_${randomBytes(bytes).toString('base64')}`;
const body = '{"type":"bundle.published","data":{"path":"größe/☃"}}';

t.test('the standardwebhooks package verifies the signature', async (t) => {
  for (const bytes of [24, 25, 26, 32, 64]) {
    const value = secret(bytes);
    const { keys, isPlain } = parseSigningSecret(value, 'S');
    t.notOk(isPlain);
    const headers = signedHeaders(keys, { id: 'msg_1', at: new Date(), body });
    t.same(new Webhook(value).verify(body, headers), JSON.parse(body));
    t.throws(() => new Webhook(value).verify(body.replace('☃', '☂'), headers), 'another body');
    t.throws(() => new Webhook(value).verify(body, { ...headers, 'webhook-id': 'msg_2' }), 'another id');
    t.throws(() => new Webhook(secret()).verify(body, headers), 'another secret');
  }
});

t.test('matches the example of the specification', async (t) => {
  const value = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
  const at = new Date(1_614_265_330_000);
  const headers = signedHeaders(parseSigningSecret(value, 'S').keys, {
    id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    at,
    body: '{"test": 2432232314}',
  });
  t.same(headers, {
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  });
});

t.test('during a rotation, receivers with either secret can verify', async (t) => {
  const [old, fresh] = [secret(), secret()];
  const { keys } = parseSigningSecret(`${fresh} ${old}\n`, 'S');
  const headers = signedHeaders(keys, { id: 'msg_1', at: new Date(), body });
  for (const one of [old, fresh]) t.ok(new Webhook(one).verify(body, headers));
});

t.test('uses the bytes of a plain secret, and distinguishes it from an encoded one', async (t) => {
  const plain = 'correct horse battery staple';
  const { keys, isPlain } = parseSigningSecret(plain, 'S');
  t.ok(isPlain);
  const headers = signedHeaders(keys, { id: 'msg_1', at: new Date(), body });
  t.ok(new Webhook(plain, { format: 'raw' }).verify(body, headers));
});

t.test('a malformed secret is rejected by the name of its variable, without its value', async (t) => {
  const cases = {
    'too short': secret(23),
    'too long': secret(65),
    'no base64': 'whsec_!!!!canary-value-that-is-not-base64',
    empty: 'whsec_',
    'short and plain': 'canary',
    mixed: `${secret()} canary-canary-canary-canary`,
  };
  for (const [name, value] of Object.entries(cases)) {
    try {
      parseSigningSecret(value, 'HOOK_SECRET');
      t.fail(name);
    } catch (error) {
      t.ok(error instanceof WaybillError && error.code === 'secrets_invalid', name);
      t.match(String(error), /HOOK_SECRET/);
      t.notOk(`${String(error)}${(error as WaybillError).hint ?? ''}`.includes(value.slice(6, 20) || '\0'));
    }
  }
});
