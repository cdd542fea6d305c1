import type { Kinds, Settings } from '../../lib/settings/declare.ts';
import { accepted, parseBaseUrl, resolveDuration } from '../../lib/settings/values.ts';
import { consoleUrlSetting, templateSetting } from '../message/message-settings.ts';
import type { SinkContext, SinkKind } from '../sink.ts';
import type { EmailOptions } from './email-sender.ts';
import { refusedLiteral } from './guarded-lookup.ts';

const tlsModes = ['starttls', 'implicit', 'none'] as const;

interface EmailDocument {
  kind: 'email';
  host: string;
  port?: number | undefined;
  tls: EmailOptions['tls'];
  user?: string | undefined;
  password_env?: string | undefined;
  from: string;
  to: string[];
  subject?: string | undefined;
  console_url?: string | undefined;
  timeout: string;
}

interface EmailSettings extends Omit<EmailOptions, 'login'> {
  kind: 'email';
  /** The login, with the variable of its password; null for none. */
  login: { user: string; passwordEnv: string } | null;
}

const defaultPorts: Readonly<Record<EmailOptions['tls'], number>> = {
  starttls: 587,
  implicit: 465,
  none: 25,
};

export const emailKind: SinkKind<'email', EmailDocument, EmailSettings> = {
  kind: 'email',
  summary: 'An e-mail, sent to an SMTP server.',
  settings,
  fault,
  resolve: ({ tls, port, user, password_env, subject, console_url, timeout, host, from, to }) => ({
    ...{ kind: 'email', host, port: port ?? defaultPorts[tls], tls, from, to },
    login: user === undefined || password_env === undefined ? null : { user, passwordEnv: password_env },
    subject: subject ?? null,
    consoleUrl: console_url === undefined ? null : accepted(parseBaseUrl(console_url)),
    timeoutMs: resolveDuration(timeout),
  }),
  secrets: ({ login }) => (login === null ? [] : [login.passwordEnv]),
  open: async (settings, context) => {
    const options = optionsOf(settings, context);
    const { emailSink } = await import('./email-sender.ts');
    return emailSink(options);
  },
  reach: async (settings, context) => {
    const options = optionsOf(settings, context);
    const { reachMailServer } = await import('./email-sender.ts');
    return reachMailServer(options, context.signal);
  },
};

function optionsOf(settings: EmailSettings, { secrets, neededBy }: SinkContext): EmailOptions {
  const { login } = settings;
  const password = login === null ? null : secrets.require(login.passwordEnv, neededBy);
  return { ...settings, login: login === null || password === null ? null : { user: login.user, password } };
}

function fault({
  host,
  tls,
  user,
  password_env,
}: EmailDocument): { reason: string; expected: string } | null {
  if ((user === undefined) !== (password_env === undefined))
    return { reason: 'only one of user and password_env is set', expected: 'both or neither' };
  if (user !== undefined && tls === 'none')
    return { reason: 'tls: none would send the password unencrypted', expected: 'starttls or implicit' };
  const refused = refusedLiteral(host, []);
  return refused === null ? null : { reason: `the mail server is ${refused}`, expected: 'another host' };
}

function settings(kinds: Kinds): Settings {
  const address = kinds.matching(
    /^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,187}[A-Za-z0-9])?$/,
    'an e-mail address such as ops@example.org',
    'e-mail address',
  );
  return {
    host: kinds
      .host()
      .required()
      .description('Name or address of the SMTP server.')
      .example('smtp.example.org'),
    port: kinds
      .integer(1, 65_535)
      .description('Port of the server. Default: 587 with starttls, 465 with implicit, 25 with none.')
      .example(587),
    tls: kinds
      .choice(...tlsModes)
      .default('starttls')
      .description(
        'Encryption of the connection. starttls: upgraded before the login; a server that does not offer this gets no mail. implicit: TLS from the start. none: unencrypted, without a login.',
      ),
    user: kinds.text('a user name on one line', 'text').description('User of the login.').example('waybill'),
    password_env: kinds
      .environmentName()
      .description('Environment variable, or file in secrets.directory, that holds the password of user.')
      .example('WAYBILL_SMTP_PASSWORD'),
    from: address.required().description('Sender of the messages.').example('waybill@example.org'),
    to: kinds
      .list(address, { min: 1, expected: 'a list of e-mail addresses, at least one', isUnique: true })
      .required()
      .description('Recipients of the messages.')
      .example(['ops@example.org']),
    subject: templateSetting(kinds, 'Subject of the messages'),
    console_url: consoleUrlSetting(kinds),
    timeout: kinds
      .duration({ atLeast: '100ms', atMost: '60s' })
      .default('30s')
      .description('Longest time that one try may take; there are up to four. Mail servers may answer late.'),
  };
}
