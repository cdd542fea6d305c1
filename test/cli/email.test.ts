import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { ensureInstalled } from '../services/debian.ts';
import { startSmtp } from '../services/smtp/smtp.ts';
import { configuration, program, web } from './process.ts';

/** The built program and a mail server with a certificate from a private authority. */

t.test('e-mail over TLS: a private authority, a wrong password, an untrusted certificate', async (t) => {
  await ensureInstalled('openssl');
  const directory = t.testdir({});
  const [certificate, key] = makeCertificate(directory);
  const login: [string, string] = ['waybill', 'right'];
  const starttls = await startSmtp(t, { tls: 'starttls', certificate, key, login });
  const implicit = await startSmtp(t, { tls: 'implicit', certificate, key });
  const mail = (id: string, port: number, more: string): string =>
    `  - {id: ${id}, kind: email, host: localhost, port: ${port}, from: a@example.org, to: [b@example.org], ${more}}\n`;
  const notifiers = [
    mail('starttls', starttls.port, 'user: waybill, password_env: RIGHT'),
    mail('implicit', implicit.port, 'tls: implicit'),
    mail('wrong', starttls.port, 'user: waybill, password_env: WRONG'),
  ];
  writeFileSync(path.join(directory, 'c.yml'), configuration([web], `notifiers:\n${notifiers.join('')}`));
  const test = async (command: string, more: Record<string, string>): Promise<string> => {
    const args = [program, ...command.split(' '), '-c', 'c.yml', '--format', 'json'];
    const env = { PATH: process.env['PATH'] ?? '', RIGHT: 'right', WRONG: 'not-right', ...more };
    const child = spawn(process.execPath, args, {
      cwd: directory,
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let stdout = '';
    child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
    await once(child, 'close');
    return stdout;
  };

  const trusted = await test('notify test', { NODE_EXTRA_CA_CERTS: certificate });
  t.match(JSON.parse(trusted), {
    notifiers: [
      { notifier_id: 'starttls', delivered: true },
      { notifier_id: 'implicit', delivered: true },
      {
        notifier_id: 'wrong',
        delivered: false,
        reason: /^the mail server rejected the login of "waybill" \(535\)$/,
      },
    ],
  });
  t.match(await starttls.next(), {
    tls: true,
    user: 'waybill',
    headers: /Subject: \[waybill\] Test of notifier/,
  });
  t.match(await implicit.next(), { tls: true, user: null });
  t.equal(starttls.waiting(), 0);

  const probed = await test('config check --probe', { NODE_EXTRA_CA_CERTS: certificate });
  t.match(probed, /connected and logged in; nothing was sent/);
  t.notMatch(trusted + probed, 'not-right');

  const reason = 'the certificate of the mail server was rejected (DEPTH_ZERO_SELF_SIGNED_CERT)';
  t.match(JSON.parse(await test('notify test', {})), { notifiers: [{ reason }, { reason }, { reason }] });
  t.equal(starttls.waiting() + implicit.waiting(), 0);
});

/** A certificate for localhost that is its own authority, and its key. */
function makeCertificate(directory: string): [certificate: string, key: string] {
  const files = [path.join(directory, 'certificate.pem'), path.join(directory, 'key.pem')] as const;
  const names = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'];
  execFileSync('openssl', ['req', '-x509', ...curve, ...names, '-out', files[0], '-keyout', files[1]], {
    stdio: 'ignore',
  });
  return [...files];
}
