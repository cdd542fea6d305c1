import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Test } from 'tap';
import { ensureInstalled } from '../debian.ts';
import { endService, spawnService } from '../service-process.ts';

export interface Mail {
  from: string;
  to: string[];
  /** Whether it was received over TLS. */
  tls: boolean;
  /** The user that logged in. */
  user: string | null;
  /** As displayed by a mail program. */
  headers: string[];
  body: string;
}

export interface SmtpService {
  port: number;
  /** The first message that was not returned yet, once it has arrived. */
  next(): Promise<Mail>;
  /** The number of messages that were not returned yet. */
  waiting(): number;
}

interface SmtpSettings {
  tls: 'starttls' | 'implicit' | 'none';
  /** Files with a certificate and its key. */
  certificate?: string;
  key?: string;
  /** The user and password that every client must log in with. */
  login?: [user: string, password: string];
  /** The responses to RCPT, by address. Other addresses are accepted. */
  rejected?: Record<string, string>;
}

/** Debian's aiosmtpd on a free loopback port. */
export async function startSmtp(t: Pick<Test, 'teardown'>, settings: SmtpSettings): Promise<SmtpService> {
  await ensureInstalled('smtp');
  const program = path.join(import.meta.dirname, 'smtpd.py');
  // Debian's Python, which has the package. Another one may come earlier in the PATH.
  const child = spawnService('/usr/bin/python3', [program, JSON.stringify(settings)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(async () => endService(child));
  if (child.stdout === null) throw new Error('no output of the SMTP server');
  const mails: Mail[] = [];
  const lines = createInterface({ input: child.stdout });
  const [port] = (await Promise.race([
    once(lines, 'line'),
    once(child, 'exit').then(() => Promise.reject(new Error('the SMTP server ended'))),
  ])) as [string];
  lines.on('line', (line) => mails.push(JSON.parse(line) as Mail));
  const next = async (): Promise<Mail> => {
    for (;;) {
      const mail = mails.shift();
      if (mail !== undefined) return mail;
      await once(lines, 'line');
    }
  };
  return { port: Number(port), next, waiting: () => mails.length };
}
