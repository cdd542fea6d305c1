import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { LookupFunction } from 'node:net';
import net from 'node:net';
import { Webhook } from 'standardwebhooks';
import t, { type Test } from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { parseRetryAfter } from '../../../../src/core/lib/retry.ts';
import { deliver, type DeliveryResult } from '../../../../src/core/notify/deliver.ts';
import { type Event, eventOf } from '../../../../src/core/notify/event.ts';
import { newEventId } from '../../../../src/core/notify/event-id.ts';
import { type WebhookOptions, webhookSink } from '../../../../src/core/notify/sinks/post.ts';
import { parseSigningSecret } from '../../../../src/core/notify/webhook-signature.ts';
import { testOccurrence } from '../../../../src/core/publish/results/occurrences.ts';
import { ensureInstalled } from '../../../services/debian.ts';
import { deadPort, impatientClock, startReceiver } from '../receiver.ts';

const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const { keys } = parseSigningSecret(secret, 'S');
const never = new AbortController().signal;

async function send(
  url: string,
  settings: Partial<WebhookOptions> = {},
): Promise<DeliveryResult & { event: Event; pauses: number[] }> {
  const clock = impatientClock();
  const sink = webhookSink({ url, keys, timeoutMs: 5_000, allowAddresses: [], clock, ...settings });
  const event = eventOf(testOccurrence('hook'), newEventId(), clock.now());
  try {
    const delivery = await deliver(sink, event, {
      clock,
      signal: never,
      stopping: never,
      random: () => 0.999,
    });
    return { ...delivery, event, pauses: clock.pauses };
  } finally {
    await sink.close();
  }
}

const status = (t: Test, code: (attempt: number) => number, headers: Record<string, string> = {}) =>
  startReceiver(t, (response, attempt) => void response.writeHead(code(attempt), headers).end('{"ok":0}'));

t.test('an event is one signed POST', async (t) => {
  const receiver = await startReceiver(t);
  const { delivered, tries, event } = await send(`${receiver.url}?channel=ops`);
  t.match({ delivered, tries }, { delivered: true, tries: 1 });
  const [one] = receiver.received;
  t.match(one, {
    method: 'POST',
    path: '/hook?channel=ops',
    headers: { 'content-type': 'application/json' },
  });
  t.same(one?.event, event);
  t.equal(one?.headers['webhook-id'], event.id);
  t.same(new Webhook(secret).verify(one?.body ?? '', one?.headers as Record<string, string>), event);
});

t.test('retries after 500 with the same id and a new signature', async (t) => {
  const receiver = await status(t, (attempt) => (attempt === 1 ? 500 : 200));
  t.match(await send(receiver.url), { delivered: true, tries: 2, pauses: [499] });
  t.equal(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size, 1);
  for (const { body, headers } of receiver.received)
    t.ok(new Webhook(secret).verify(body, headers as Record<string, string>));
});

t.test('makes four attempts, with increasing pauses', async (t) => {
  const receiver = await status(t, () => 503);
  t.match(await send(receiver.url), {
    delivered: false,
    tries: 4,
    reason: /^http:\/\/127.0.0.1:\d+ answered 503$/,
    pauses: [499, 999, 1998],
  });
  t.equal(receiver.received.length, 4);
});

for (const code of [400, 401, 404, 422])
  t.test(`${code} is not retried`, async (t) => {
    const receiver = await status(t, () => code);
    t.match(await send(receiver.url), { delivered: false, tries: 1, gone: false });
    t.equal(receiver.received.length, 1);
  });

for (const code of [408, 429, 503])
  t.test(`${code} is retried, not before Retry-After`, async (t) => {
    const receiver = await startReceiver(
      t,
      (response, attempt) =>
        void response.writeHead(attempt === 1 ? code : 204, { 'retry-after': '7' }).end(),
    );
    t.match(await send(receiver.url), { delivered: true, tries: 2, pauses: [7_000] });
  });

t.test('does not wait for a receiver that requests an hour', async (t) => {
  const receiver = await status(t, () => 429, { 'retry-after': '3600' });
  t.match(await send(receiver.url), {
    delivered: false,
    tries: 1,
    reason: /asked to wait 3600 s/,
    pauses: { length: 0 },
  });
});

t.test('Retry-After is seconds or a date, and invalid values are ignored', async (t) => {
  const now = new Date('2026-11-20T00:00:00Z');
  t.equal(parseRetryAfter('0', now), 0);
  t.equal(parseRetryAfter('120', now), 120_000);
  t.equal(parseRetryAfter('Fri, 20 Nov 2026 00:00:30 GMT', now), 30_000);
  t.equal(parseRetryAfter('Fri, 20 Nov 2020 00:00:30 GMT', now), 0);
  for (const value of [undefined, '', 'soon', '99999999999999999999'])
    t.equal(parseRetryAfter(value, now), undefined, String(value));
});

t.test('410 disables the receiver', async (t) => {
  const receiver = await status(t, () => 410);
  t.match(await send(receiver.url), { delivered: false, tries: 1, gone: true, reason: /is gone/ });
});

t.test('a receiver that does not answer is abandoned after a timeout and retried', async (t) => {
  const receiver = await startReceiver(t, (response: ServerResponse, attempt) => {
    if (attempt === 3) response.end();
  });
  t.match(await send(receiver.url, { timeoutMs: 2_000 }), { delivered: true, tries: 3 });
  const hung = await startReceiver(t, () => undefined);
  t.match(await send(hung.url, { timeoutMs: 100 }), {
    delivered: false,
    tries: 4,
    reason: 'no answer within 100 ms',
  });
});

t.test('a response with an endless body counts by its status', async (t) => {
  const receiver = await startReceiver(t, (response) => {
    response.writeHead(200).write('a');
    const timer = setInterval(() => response.write('a'), 10);
    response.on('close', () => clearInterval(timer));
  });
  t.match(await send(receiver.url), { delivered: true, tries: 1 });
  const flood = await startReceiver(t, (response) => {
    response.writeHead(200);
    const pour = (): void => {
      while (!response.destroyed && response.write(Buffer.alloc(65_536)));
    };
    response.on('drain', pour).on('error', () => undefined);
    pour();
  });
  t.match(await send(flood.url), { delivered: true, tries: 1 });
});

t.test('reports a refused connection, a cut connection and a response that is not HTTP', async (t) => {
  t.match(await send(`http://127.0.0.1:${await deadPort()}/`), {
    delivered: false,
    tries: 4,
    reason: 'the receiver cannot be reached (ECONNREFUSED)',
  });
  const cut = await startReceiver(t, (response) => response.socket?.destroy());
  t.match(await send(cut.url), { delivered: false, tries: 4, reason: /cannot be reached/ });
  const server = net.createServer((socket) => void socket.on('error', () => undefined).end('SSH-2.0-x\r\n'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as net.AddressInfo;
  t.match(await send(`http://127.0.0.1:${port}/`), { delivered: false, tries: 4 });
});

t.test('does not follow redirects, to metadata or elsewhere', async (t) => {
  const elsewhere = await startReceiver(t);
  for (const [code, location] of [
    [302, 'http://169.254.169.254/latest/meta-data/'],
    [307, elsewhere.url],
    [308, `${elsewhere.url}?secret=canary`],
  ] as const) {
    const receiver = await status(t, () => code, { location });
    const { delivered, tries, reason } = await send(receiver.url);
    t.match(
      { delivered, tries, reason },
      { delivered: false, tries: 1, reason: /a redirect to .* not followed/ },
    );
    t.notMatch(reason, /canary|latest/);
  }
  t.equal(elsewhere.received.length, 0);
});

t.test('checks the resolved address, not the name', async (t) => {
  const receiver = await startReceiver(t);
  const { port } = new URL(receiver.url);
  const looked: string[] = [];
  const answering = (...answers: string[][]): LookupFunction => {
    let index = 0;
    return (hostname, _options, callback) => {
      looked.push(hostname);
      const addresses = answers[Math.min(index, answers.length - 1)] ?? [];
      index += 1;
      callback(
        null,
        addresses.map((address) => ({ address, family: net.isIP(address) })),
      );
    };
  };
  const url = `http://receiver.test:${port}/hook`;
  t.match(await send(url, { lookup: answering(['127.0.0.1']) }), { delivered: true });
  for (const addresses of [
    ['169.254.169.254'],
    ['fd00:ec2::254'],
    ['::ffff:169.254.169.254'],
    ['127.0.0.1', '169.254.169.254'],
    ['0.0.0.0'],
  ])
    t.match(
      await send(url, { lookup: answering(addresses) }),
      { delivered: false, tries: 1, reason: /is refused \(allow_addresses can allow it\)/ },
      addresses.join(),
    );
  t.equal(receiver.received.length, 1, 'nothing was sent there');

  // A name that resolves to other addresses on the second attempt.
  const rebinding = await status(t, () => 500, { connection: 'close' });
  t.match(
    await send(`http://receiver.test:${new URL(rebinding.url).port}/`, {
      lookup: answering(['127.0.0.1'], ['169.254.169.254']),
    }),
    { delivered: false, tries: 2, reason: /metadata|link-local/ },
  );
  t.equal(rebinding.received.length, 1);
  t.match(
    await send(url, { lookup: answering(['0.0.0.0']), allowAddresses: ['0.0.0.0'] }),
    { delivered: true },
    'connects to allowed names',
  );
  t.ok(looked.every((name) => name === 'receiver.test'));
});

t.test('checks an address in the URL in every spelling', async (t) => {
  for (const host of [
    '169.254.169.254',
    '2852039166',
    '0xA9FEA9FE',
    '0251.0376.0251.0376',
    '169.254.43518',
    '[::ffff:169.254.169.254]',
    '[fe80::1]',
    '0',
    '0.0.0.0',
  ])
    t.match(
      await send(`http://${host}/`, { timeoutMs: 1_000 }),
      { delivered: false, tries: 1, reason: /is refused/ },
      host,
    );
});

t.test('rejects an untrusted certificate without a retry', async (t) => {
  await ensureInstalled('openssl');
  const { execFileSync } = await import('node:child_process');
  const { readFileSync } = await import('node:fs');
  const https = await import('node:https');
  const directory = t.testdir();
  execFileSync(
    'openssl',
    [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:P-256',
      '-nodes',
      '-days',
      '2',
      '-subj',
      '/CN=localhost',
      '-keyout',
      `${directory}/key`,
      '-out',
      `${directory}/cert`,
    ],
    { stdio: 'ignore' },
  );
  let requests = 0;
  const server = https.createServer(
    { key: readFileSync(`${directory}/key`), cert: readFileSync(`${directory}/cert`) },
    (_request, response) => {
      requests += 1;
      response.end();
    },
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as net.AddressInfo;
  t.match(await send(`https://127.0.0.1:${port}/`), {
    delivered: false,
    tries: 1,
    reason: /certificate was rejected/,
  });
  t.equal(requests, 0);
});

t.test('reuses connections, and leaves none open', async (t) => {
  let connections = 0;
  const server = createServer((request, response) => {
    request.resume().on('end', () => response.end('thanks'));
  });
  server.on('connection', () => (connections += 1)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const clock = systemClock;
  const url = `http://127.0.0.1:${(server.address() as net.AddressInfo).port}/`;
  const sink = webhookSink({ url, keys, timeoutMs: 5_000, allowAddresses: [], clock });
  for (let index = 0; index < 20; index += 1) {
    const event = eventOf(testOccurrence('hook'), newEventId(), clock.now());
    t.match(await deliver(sink, event, { clock, signal: never, stopping: never }), { delivered: true });
  }
  t.ok(connections < 20, `${connections} connections`);
  await sink.close();
  server.close();
  await once(server, 'close');
});
