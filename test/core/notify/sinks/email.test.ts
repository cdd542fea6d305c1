import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import t, { type Test } from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { deliver, type DeliveryResult } from '../../../../src/core/notify/deliver.ts';
import { type Event, eventOf, type Occurrence } from '../../../../src/core/notify/event.ts';
import { newEventId } from '../../../../src/core/notify/event-id.ts';
import { type EmailOptions, emailSink, reachMailServer } from '../../../../src/core/notify/sinks/email.ts';
import { testOccurrence } from '../../../../src/core/publish/results/occurrences.ts';
import { startSmtp } from '../../../services/smtp/smtp.ts';
import { failure } from '../messages.ts';
import { deadPort, impatientClock } from '../receiver.ts';

const never = new AbortController().signal;

const options = (port: number, more: Partial<EmailOptions> = {}): EmailOptions => ({
  ...{ host: '127.0.0.1', port, tls: 'none', login: null, from: 'waybill@example.org' },
  ...{ to: ['ops@example.org'], subject: null, consoleUrl: null, timeoutMs: 60_000 },
  ...more,
});

async function send(
  given: EmailOptions,
  occurrence: Occurrence = testOccurrence('mail'),
): Promise<DeliveryResult & { event: Event }> {
  const clock = impatientClock();
  const sink = emailSink(given);
  const event = eventOf(occurrence, newEventId(), new Date('2026-11-20T02:04:34.334Z'));
  const delivery = await deliver(sink, event, { clock, signal: never, stopping: never });
  await sink.close();
  return { ...delivery, event };
}

t.test('a failure is one message with the cause, the fix and the link to the console', async (t) => {
  const server = await startSmtp(t, { tls: 'none' });
  const to = ['ops@example.org', 'dev@example.org'];
  const sent = options(server.port, { to, consoleUrl: 'https://publish.example.org/waybill/' });
  const { delivered, event } = await send(sent, failure('talk'));
  t.ok(delivered);
  const mail = await server.next();
  t.match(mail, { from: 'waybill@example.org', to, tls: false });
  const { headers, body } = mail;
  for (const header of [
    'From: waybill <waybill@example.org>',
    'To: ops@example.org, dev@example.org',
    'Subject: [waybill] Failed to publish "talk" to maps/web',
    'Auto-Submitted: auto-generated',
    `Message-ID: <${event.id}@example.org>`,
    'Date: Fri, 20 Nov 2026 02:04:34 +0000',
  ])
    t.ok(headers.includes(header), `${header} in ${headers.join('\n')}`);
  for (const line of [
    'Failed to publish "talk" to maps/web.',
    'Pipeline:    maps',
    'Cause:       there is content that waybill does not manage (unmanaged_content)',
    'Next step:   check the existing files',
    'Time:        2026-11-20 02:04:34 UTC',
    'Console:     https://publish.example.org/waybill/console/runs/maps.run1',
  ])
    t.ok(body.split('\n').includes(line), `${line} in ${body}`);
});

t.test('a name adds no header and no recipient', async (t) => {
  const server = await startSmtp(t, { tls: 'none' });
  const name = 'a\r\nBcc: evil@example.org\r\n\r\nHello\u2028<b>\u202Eé\ud800';
  t.match(await send(options(server.port, { subject: '{{bundle}} {{ outcome }}' }), failure(name)), {
    delivered: true,
  });
  const mail = await server.next();
  const { headers, body } = mail;
  t.same(mail.to, ['ops@example.org']);
  t.notOk(headers.some((header) => /^bcc/i.test(header)));
  t.notMatch(body, /^(?:Bcc|Hello)/m);
  t.notMatch(body, /[\u2028\u202e]/);
  t.equal(headers.filter((header) => header.startsWith('Subject:')).length, 1);
});

t.test('a server that answers 4xx gets the message again, with the same id', async (t) => {
  for (const step of ['greeting', 'MAIL', 'RCPT', 'DATA', 'end of DATA'] as const) {
    const server = await startScripted(t, (attempt, at) =>
      attempt === 1 && at === step ? '421 4.7.0 try again later' : null,
    );
    t.match(await send(options(server.port)), { delivered: true, tries: 2 }, step);
  }
});

t.test("5xx is not retried, and the record has the server's text on one line", async (t) => {
  for (const step of ['greeting', 'MAIL', 'RCPT', 'DATA', 'end of DATA'] as const) {
    const words = '550-5.7.1 we do not\r\n550 5.7.1 like\u0007 you';
    const server = await startScripted(t, (_, at) => (at === step ? words : null));
    const { delivered, tries, reason } = await send(options(server.port));
    t.match({ delivered, tries }, { delivered: false, tries: 1 }, step);
    t.match(reason, /^the mail server answered 550-5\.7\.1 we do not 550 5\.7\.1 like\uFFFD you$/, step);
  }
});

t.test('a recipient that the server rejects is reported, and the others get the message', async (t) => {
  const rejected = { 'gone@example.org': '550 5.1.1 no such user' };
  const server = await startSmtp(t, { tls: 'none', rejected });
  const to = ['ops@example.org', 'gone@example.org'];
  t.match(await send(options(server.port, { to })), {
    delivered: false,
    tries: 1,
    reason: 'the mail server rejected 1 of 2 recipients: 550 5.1.1 no such user',
  });
  t.same((await server.next()).to, ['ops@example.org']);
});

t.test('a server that is silent at any step is abandoned after the timeout', async (t) => {
  for (const step of steps) {
    const server = await startScripted(t, (_, at) => (at === step ? '' : null));
    const sink = emailSink({ ...optionsFor(step, server.port), timeoutMs: 100 });
    const answer = await deliver(sink, eventOf(testOccurrence('m'), newEventId(), new Date()), {
      ...{ clock: systemClock, signal: never, stopping: AbortSignal.abort() },
    });
    t.match(answer, { delivered: false, isTemporary: true }, step);
    await server.closed();
  }
});

t.test('an unreachable server, or one that disconnects, is retried', async (t) => {
  t.match(await send(options(await deadPort())), { delivered: false, tries: 4, reason: /\(ECONNREFUSED\)/ });
  for (const step of steps) {
    const server = await startScripted(t, (_, at) => (at === step ? 'hang up' : null));
    t.match(
      await send(optionsFor(step, server.port)),
      { delivered: false, tries: 4, isTemporary: true },
      step,
    );
  }
});

t.test('reports a server without TLS', async (t) => {
  const server = await startScripted(t, () => null);
  t.match(await send(options(server.port, { tls: 'implicit' })), {
    delivered: false,
    tries: 1,
    reason: 'the mail server does not offer TLS as configured (ERR_SSL_WRONG_VERSION_NUMBER)',
  });
});

t.test('a server without STARTTLS gets no message and no password', async (t) => {
  const server = await startSmtp(t, { tls: 'none' });
  const login = { user: 'u', password: 'p' };
  const reason = /^the mail server answered 454 /;
  t.match(await send(options(server.port, { tls: 'starttls', login })), { delivered: false, reason });
  t.equal(server.waiting(), 0);
});

t.test('the address policy of webhooks applies', async (t) => {
  t.match(await send(options(25, { host: '169.254.169.254' })), {
    delivered: false,
    tries: 1,
    reason: 'the mail server is a link-local address, which is refused',
  });
});

t.test('a probe connects but sends nothing', async (t) => {
  const server = await startSmtp(t, { tls: 'none' });
  t.match(await reachMailServer(options(server.port), never), /^connected; nothing was sent/);
  const error = { code: 'unreachable', message: /^127\.0\.0\.1:\d+: .*ECONNREFUSED/ };
  await t.rejects(reachMailServer(options(await deadPort()), never), error);
});

const steps = ['greeting', 'EHLO', 'STARTTLS', 'AUTH', 'MAIL', 'RCPT', 'DATA', 'end of DATA'] as const;

/** Settings with which the client reaches this step. */
function optionsFor(step: Step, port: number): EmailOptions {
  const login = step === 'AUTH' ? { user: 'u', password: 'p' } : null;
  return options(port, { login, tls: step === 'STARTTLS' ? 'starttls' : 'none' });
}

type Step = 'greeting' | 'EHLO' | 'STARTTLS' | 'AUTH' | 'MAIL' | 'RCPT' | 'DATA' | 'end of DATA' | 'QUIT';

/**
 * An SMTP server with these answers: null for the default one, an empty text for none, and `hang up` to
 * close the connection. `attempt` counts connections from 1.
 */
async function startScripted(
  t: Test,
  answer: (attempt: number, step: Step) => string | null,
): Promise<{ port: number; closed: () => Promise<void> }> {
  let attempt = 0;
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket)).on('error', () => undefined);
    attempt += 1;
    const number = attempt;
    const reply = (step: Step, usual: string): void => {
      const text = answer(number, step) ?? usual;
      if (text === 'hang up') socket.destroy();
      else if (text !== '') socket.write(`${text}\r\n`);
      if (text.startsWith('421') || step === 'QUIT') socket.end();
    };
    let isData = false;
    reply('greeting', '220 scripted');
    createInterface({ input: socket }).on('line', (line) => {
      if (isData) {
        if (line !== '.') return;
        isData = false;
        reply('end of DATA', '250 accepted');
        return;
      }
      const verb = line.slice(0, 4).toUpperCase();
      if (verb === 'EHLO') reply('EHLO', '250-scripted\r\n250 AUTH PLAIN');
      if (verb === 'STAR') reply('STARTTLS', '220 go ahead');
      if (verb === 'AUTH') reply('AUTH', '235 welcome');
      if (verb === 'MAIL') reply('MAIL', '250 OK');
      if (verb === 'RCPT') reply('RCPT', '250 OK');
      if (verb === 'QUIT') reply('QUIT', '221 bye');
      if (verb !== 'DATA') return;
      isData = (answer(number, 'DATA') ?? '354').startsWith('354');
      reply('DATA', '354 go on');
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, 'close');
  });
  const closed = async (): Promise<void> => {
    await Promise.all([...sockets].map(async (socket) => once(socket, 'close')));
  };
  return { port: (server.address() as AddressInfo).port, closed };
}
