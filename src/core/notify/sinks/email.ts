import { connect, isIP, type Socket } from 'node:net';
import type SMTPConnection from 'nodemailer/lib/smtp-connection';
import { WaybillError } from '../../lib/errors.ts';
import { onAbort } from '../../lib/on-abort.ts';
import {
  choice,
  duration,
  environmentName,
  host,
  integer,
  list,
  matching,
  text,
} from '../../lib/settings/kinds.ts';
import type { ResolvedBy } from '../../lib/settings/setting.ts';
import type { Event } from '../event.ts';
import { fillTemplate, type Message, messageOf, oneLine, shortened } from '../message.ts';
import {
  consoleUrlSetting,
  notifierSettings,
  type Sink,
  type SinkContext,
  sinkKind,
  type SinkRefusal,
  templateSetting,
} from '../sink.ts';
import { AddressError, certificateFault, codeOf, guardLookup, refusedIpHost } from './guarded-lookup.ts';

const address = matching(
  /^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,187}[A-Za-z0-9])?$/,
  'an e-mail address such as ops@example.org',
  'e-mail address',
);

const settings = notifierSettings(
  'email',
  'An e-mail, sent to an SMTP server.',
  {
    host: host('with port')
      .required()
      .description('Name or address of the SMTP server.')
      .example('smtp.example.org'),
    port: integer(1, 65_535)
      .description('Port. Default: 587 with starttls, 465 with implicit, 25 with none.')
      .example(587),
    tls: choice('starttls', 'implicit', 'none')
      .default('starttls')
      .description(
        'Encryption. starttls: required before the login. implicit: TLS from the start. none: unencrypted, without a login.',
      ),
    user: text('a user name on one line', 'text').description('User of the login.').example('waybill'),
    password_env: environmentName()
      .description('Environment variable, or file in secrets.directory, that holds the password of user.')
      .example('WAYBILL_SMTP_PASSWORD'),
    from: address.required().description('Sender of the messages.').example('waybill@example.org'),
    to: list(address, { min: 1, expected: 'a list of e-mail addresses, at least one', isUnique: true })
      .required()
      .description('Recipients of the messages.')
      .example(['ops@example.org']),
    subject: templateSetting('Subject of the messages'),
    console_url: consoleUrlSetting,
    timeout: duration({ atLeast: '100ms', atMost: '60s' })
      .default('30s')
      .description('Time limit for one attempt. An event gets up to four.'),
  },
  ({ host, tls, user, password_env }) => {
    if ((user === undefined) !== (password_env === undefined))
      return { reason: 'only one of user and password_env is set', expected: 'both or neither' };
    if (user !== undefined && tls === 'none')
      return { reason: 'tls: none would send the password unencrypted', expected: 'starttls or implicit' };
    const refused = refusedIpHost(host, []);
    return refused === null ? null : { reason: `the mail server is ${refused}`, expected: 'another host' };
  },
);

export const emailKind = sinkKind({
  settings,
  secrets: ({ passwordEnv }) => (passwordEnv === null ? [] : [passwordEnv]),
  open: async (config, context) => emailSink(optionsOf(config, context)),
  reach: async (config, context) => reachMailServer(optionsOf(config, context), context.signal),
});

export interface EmailOptions {
  host: string;
  port: number;
  tls: 'starttls' | 'implicit' | 'none';
  login: { user: string; password: string } | null;
  from: string;
  to: string[];
  /** The template for the subject; null for the default one. */
  subject: string | null;
  consoleUrl: string | null;
  timeoutMs: number;
}

const defaultPorts = { starttls: 587, implicit: 465, none: 25 };

function optionsOf(config: ResolvedBy<typeof settings>, { secrets, neededBy }: SinkContext): EmailOptions {
  const { user, passwordEnv, port, tls } = config;
  const login =
    user === null || passwordEnv === null ? null : { user, password: secrets.require(passwordEnv, neededBy) };
  return { ...config, port: port ?? defaultPorts[tls], login };
}

/**
 * Sends each event as an e-mail, over a connection of its own. The mail server's address is subject to the
 * same policy as those of webhooks.
 */
export function emailSink(options: EmailOptions): Sink {
  const { from, to, timeoutMs } = options;
  return {
    // Mail servers do not like many connections, and messages should arrive in order.
    concurrency: 1,
    timeoutMs,
    async send(event, signal) {
      const session = new SmtpSession(options, signal);
      try {
        await session.open();
        const { rejectedErrors = [] } = await session.send({ from, to }, await mailOf(event, options));
        session.quit();
        const [first] = rejectedErrors;
        if (first === undefined) return { ok: true };
        const rejected = `rejected ${rejectedErrors.length} of ${to.length} recipients`;
        return { ok: false, reason: `the mail server ${rejected}: ${smtpResponse(first)}`, retry: false };
      } catch (error) {
        session.close();
        return sendFailure(error, options);
      }
    },
    close: async () => undefined,
  };
}

/** Connects to the mail server, logs in and disconnects. Throws an `unreachable` error if that fails. */
export async function reachMailServer(options: EmailOptions, signal: AbortSignal): Promise<string> {
  const session = new SmtpSession(options, signal);
  try {
    await session.open();
    session.quit();
    const done = options.login === null ? 'connected' : 'connected and logged in';
    return `${done}; nothing was sent (waybill notify test sends an event)`;
  } catch (cause) {
    session.close();
    signal.throwIfAborted();
    throw new WaybillError(
      'unreachable',
      `${options.host}:${options.port}: ${sendFailure(cause, options).reason}`,
      {
        hint: 'correct host, port, tls, user or password; set NODE_EXTRA_CA_CERTS for a private certificate authority',
        cause,
      },
    );
  }
}

interface Sent {
  rejectedErrors?: Error[] | undefined;
}

/**
 * A connection to the mail server. If the signal aborts, it is closed, no matter what response it is waiting
 * for.
 */
class SmtpSession {
  readonly #options: EmailOptions;
  readonly #signal: AbortSignal;
  #socket: Socket | undefined;
  #connection: SMTPConnection | undefined;

  constructor(options: EmailOptions, signal: AbortSignal) {
    this.#options = options;
    this.#signal = signal;
  }

  /** Connects, starts TLS and logs in. */
  async open(): Promise<void> {
    const { host, port, tls, timeoutMs, login } = this.#options;
    const refused = refusedIpHost(host, []);
    if (refused !== null) throw new AddressError(refused);
    // nodemailer would look up the name itself and ignore the policy for addresses.
    const socket = connect({ host, port, lookup: guardLookup([]) });
    this.#socket = socket;
    await this.#step((done) => socket.on('error', done).once('connect', () => done(null)));
    const { default: Connection } = await import('nodemailer/lib/smtp-connection');
    const connection = new Connection({
      host,
      port,
      connection: socket,
      secure: tls === 'implicit',
      requireTLS: tls === 'starttls',
      ignoreTLS: tls === 'none',
      ...(isIP(host) === 0 ? { tls: { servername: host } } : {}),
      connectionTimeout: timeoutMs,
      greetingTimeout: timeoutMs,
      socketTimeout: timeoutMs,
      socketCloseTimeout: 0,
      maxResponseSize: 64 * 1024,
    });
    // Without a listener, an error after the last step would crash the process.
    this.#connection = connection.on('error', () => undefined);
    await this.#step((done) => connection.connect((error) => done(error ?? null)));
    if (login === null) return;
    const { user, password } = login;
    await this.#step((done) => connection.login({ user, pass: password }, (error) => done(error)));
  }

  async send(envelope: { from: string; to: string[] }, mail: Buffer): Promise<Sent> {
    let sent: Sent = {};
    await this.#step((done) =>
      this.#connection?.send(envelope, mail, (error, info) => {
        if (error === null) sent = info;
        done(error);
      }),
    );
    return sent;
  }

  /** Ends the session without waiting for a response. By now, the mail server has accepted the message. */
  quit(): void {
    this.#connection?.quit();
    this.#socket?.unref();
  }

  close(): void {
    this.#connection?.close();
    this.#socket?.destroy();
  }

  /** Waits for the callback. Fails if there is an error on the connection or the signal aborts. */
  async #step(start: (done: (error: Error | null) => void) => unknown): Promise<void> {
    let release = (): void => undefined;
    let fail: (error: Error) => void = () => undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        fail = reject;
        release = onAbort(this.#signal, () => reject(this.#signal.reason as Error));
        this.#connection?.on('error', fail);
        start((error) => (error === null ? resolve() : reject(error)));
      });
    } finally {
      release();
      this.#connection?.off('error', fail);
    }
  }
}

const maxSubjectValueChars = 100;
const maxBodyValueChars = 1_000;

/** Returns the encoded message. nodemailer encodes the headers, so a value cannot add lines to them. */
async function mailOf(event: Event, { from, to, subject, consoleUrl }: EmailOptions): Promise<Buffer> {
  const brief = messageOf(event, { consoleUrl, maxValueChars: maxSubjectValueChars });
  const { default: MailComposer } = await import('nodemailer/lib/mail-composer');
  const composer = new MailComposer({
    from: { name: 'waybill', address: from },
    to,
    subject:
      subject === null ? `[waybill] ${brief.title}` : fillTemplate(subject, brief.fields, (value) => value),
    text: textOf(messageOf(event, { consoleUrl, maxValueChars: maxBodyValueChars }), event),
    date: new Date(event.timestamp),
    // Use the same id for all attempts, so that mail servers can throw away duplicates.
    messageId: `<${event.id}@${from.slice(from.lastIndexOf('@') + 1)}>`,
    headers: { 'Auto-Submitted': 'auto-generated' },
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  return composer.compile().build();
}

function textOf({ title, rows, link }: Message, { id }: Event): string {
  const all = [...rows, ['Event', id] as const, ...(link === null ? [] : [['Console', link] as const])];
  const width = Math.max(...all.map(([label]) => label.length)) + 2;
  return [`${title}.`, '', ...all.map(([label, value]) => `${`${label}:`.padEnd(width)}${value}`), ''].join(
    '\n',
  );
}

/** Turns an error from nodemailer or the connection into the reason for a failure. */
function sendFailure(error: unknown, { login }: EmailOptions): SinkRefusal {
  const fail = (reason: string, retry: boolean): SinkRefusal => ({ ok: false, reason, retry });
  if (!(error instanceof Error)) return fail('the mail server cannot be reached', true);
  if (error instanceof AddressError)
    return fail(`the mail server is ${error.message}, which is refused`, false);
  // If the connection had an error code, nodemailer has put its own in place of it.
  const code = 'originalCode' in error ? String(error.originalCode) : codeOf(error);
  const status = 'responseCode' in error && typeof error.responseCode === 'number' ? error.responseCode : 0;
  const isTransient = status >= 400 && status < 500;
  // The response might contain the credentials that we sent.
  if (code === 'EAUTH' && status > 0)
    return fail(`the mail server rejected the login of "${login?.user ?? ''}" (${status})`, isTransient);
  if (status > 0) return fail(`the mail server answered ${smtpResponse(error)}`, isTransient);
  if (code.startsWith('ERR_SSL_'))
    return fail(`the mail server does not offer TLS as configured (${code})`, false);
  if (certificateFault.test(code))
    return fail(`the certificate of the mail server was rejected (${code})`, false);
  if (code === 'EAUTH') return fail('the mail server offers no login that waybill supports', false);
  return fail(`the mail server cannot be reached (${code})`, true);
}

/** Returns the status and text from the server in one line: `550 5.1.1 no such user`. */
function smtpResponse(error: Error): string {
  const response = 'response' in error && typeof error.response === 'string' ? error.response : '';
  return shortened(oneLine(response.replaceAll(/\s+/g, ' ').trim()), 200);
}
