import { execFileSync } from 'node:child_process';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import {
  appendKnownHost,
  fingerprint,
  hostKeyType,
  judgeHostKey,
  knownKeyTypes,
  malformedLines,
  readKnownHosts,
  rememberHostKey,
} from '../../../../src/core/storage/sftp/known-hosts.ts';
import { ensureInstalled } from '../../../services/debian.ts';

function blob(type: string, fill: number): Buffer {
  const name = Buffer.from(type);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(name.length);
  return Buffer.concat([length, name, Buffer.alloc(36, fill)]);
}

const ed = blob('ssh-ed25519', 1);
const otherEd = blob('ssh-ed25519', 2);
const rsa = blob('ssh-rsa', 3);
const text = (key: Buffer): string => `${hostKeyType(key)} ${key.toString('base64')}`;

t.test('reads plain names, several to a line, ports in brackets, and comments', async (t) => {
  const file = [
    '# mine',
    '',
    `sftp.example.org,192.0.2.7 ${text(ed)} the publisher's server`,
    `[sftp.example.org]:2222 ${text(rsa)}`,
    'not a line',
    `sftp.example.org ssh-ed25519 AAAA`,
  ].join('\n');
  t.same(malformedLines(file), [5, 6], 'unreadable lines are reported');
  t.same(judgeHostKey(file, 'sftp.example.org', 22, ed), { kind: 'known' });
  t.same(judgeHostKey(file, 'SFTP.example.org', 22, ed), { kind: 'known' }, 'names are case-insensitive');
  t.same(judgeHostKey(file, '192.0.2.7', 22, ed), { kind: 'known' });
  t.same(judgeHostKey(file, 'sftp.example.org', 2222, rsa), { kind: 'known' });
  t.same(
    judgeHostKey(file, 'sftp.example.org', 2223, rsa),
    { kind: 'unknown' },
    'another port is another host',
  );
  t.same(judgeHostKey(file, 'example.org', 22, ed), { kind: 'unknown' });
  t.same(judgeHostKey('', 'sftp.example.org', 22, ed), { kind: 'unknown' });
});

t.test('another key of a known host is a change, reported with fingerprint and line', async (t) => {
  const file = `one ${text(rsa)}\none ${text(ed)}\n`;
  t.same(judgeHostKey(file, 'one', 22, otherEd), {
    kind: 'changed',
    expected: [
      { type: 'ssh-rsa', fingerprint: fingerprint(rsa), line: 1 },
      { type: 'ssh-ed25519', fingerprint: fingerprint(ed), line: 2 },
    ],
  });
  t.same(knownKeyTypes(file, 'one', 22), ['ssh-rsa', 'ssh-ed25519']);
});

t.test('matches wildcards, and negations take precedence', async (t) => {
  const file = `*.example.org,!bad.example.org,host-? ${text(ed)}\n`;
  t.equal(judgeHostKey(file, 'a.example.org', 22, ed).kind, 'known');
  t.equal(judgeHostKey(file, 'bad.example.org', 22, ed).kind, 'unknown');
  t.equal(judgeHostKey(file, 'host-1', 22, ed).kind, 'known');
  t.equal(judgeHostKey(file, 'host-10', 22, ed).kind, 'unknown');
  t.equal(judgeHostKey(file, 'aXexample.org', 22, ed).kind, 'unknown', 'a dot matches only a dot');
});

t.test('rejects a revoked key even if the host is known with it', async (t) => {
  const file = `one ${text(ed)}\n@revoked * ${text(ed)}\n@cert-authority * ${text(rsa)}\n`;
  t.same(judgeHostKey(file, 'one', 22, ed), { kind: 'revoked', line: 2 });
  t.same(judgeHostKey(file, 'two', 22, ed), { kind: 'revoked', line: 2 });
  t.same(judgeHostKey(file, 'two', 22, rsa), { kind: 'unknown' }, 'an authority is not a host');
});

t.test('reads hosts hashed by ssh-keygen, which finds hosts that waybill added', async (t) => {
  await ensureInstalled('ssh');
  const directory = t.testdir();
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', path.join(directory, 'key')]);
  const line = readFileSync(path.join(directory, 'key.pub'), 'utf8').split(' ');
  const key = Buffer.from(line[1] ?? '', 'base64');
  const file = path.join(directory, 'known');
  await appendKnownHost(file, 'sftp.example.org', 2222, key);
  await appendKnownHost(file, 'sftp.example.org', 22, key);
  execFileSync('ssh-keygen', ['-q', '-H', '-f', file], { stdio: 'pipe' });
  const hashed = await readKnownHosts(file);
  t.match(hashed, /^\|1\|/);
  t.equal(judgeHostKey(hashed, 'sftp.example.org', 2222, key).kind, 'known');
  t.equal(judgeHostKey(hashed, 'sftp.example.org', 22, key).kind, 'known');
  t.equal(judgeHostKey(hashed, 'sftp.example.com', 22, key).kind, 'unknown');
  const listed = execFileSync('ssh-keygen', ['-l', '-f', path.join(directory, 'key.pub')], {
    encoding: 'utf8',
  });
  t.ok(listed.includes(fingerprint(key)), listed);
});

t.test(
  'appends with owner-only modes, completes a truncated line, and loses no concurrent append',
  async (t) => {
    const file = path.join(t.testdir(), 'deep', 'known');
    t.equal(await readKnownHosts(file), '');
    await appendKnownHost(file, 'one', 22, ed);
    t.equal(statSync(file).mode & 0o777, 0o600);
    t.equal(statSync(path.dirname(file)).mode & 0o777, 0o700);
    writeFileSync(file, `one ${text(ed)}`);
    await Promise.all(
      Array.from({ length: 20 }, (_, index) => appendKnownHost(file, `host-${index}`, 2222, otherEd)),
    );
    const after = await readKnownHosts(file);
    t.equal(judgeHostKey(after, 'one', 22, ed).kind, 'known');
    for (let index = 0; index < 20; index += 1)
      t.equal(judgeHostKey(after, `host-${index}`, 2222, otherEd).kind, 'known');
  },
);

t.test('reports an unusable file by name', async (t) => {
  const directory = t.testdir({ file: '' });
  const file = path.join(directory, 'file', 'known');
  await t.rejects(readKnownHosts(file), {
    code: 'storage_permanent',
    message: /known_hosts_file ".*known" cannot be read/,
  });
  await t.rejects(appendKnownHost(file, 'one', 22, ed), {
    code: 'storage_permanent',
    message: /cannot be written/,
  });
});

t.test('stores a key once, and never a second key of its host', async (t) => {
  const file = path.join(t.testdir(), 'known');
  const verdicts = await Promise.all(Array.from({ length: 10 }, () => rememberHostKey(file, 'one', 22, ed)));
  t.same(
    verdicts.map(({ kind }) => kind),
    ['unknown', ...Array.from({ length: 9 }, () => 'known')],
  );
  t.equal((await rememberHostKey(file, 'one', 22, otherEd)).kind, 'changed');
  t.equal(await readKnownHosts(file), `one ${text(ed)}\n`);
});
