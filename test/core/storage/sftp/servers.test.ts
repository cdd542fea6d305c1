import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import type { Secrets } from '../../../../src/core/lib/secrets.ts';
import { bytesBody, readAll } from '../../../../src/core/storage/body.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import { publishedModes } from '../../../../src/core/storage/modes.ts';
import { storageOpener } from '../../../../src/core/storage/open-storage.ts';
import { fingerprint } from '../../../../src/core/storage/sftp/known-hosts.ts';
import type { SftpLocation } from '../../../../src/core/storage/sftp/sftp-location.ts';
import { sftpStorage, type SftpStorageOptions } from '../../../../src/core/storage/sftp/sftp-storage.ts';
import type { Body, Storage } from '../../../../src/core/storage/storage.ts';
import { startCuttingProxy } from '../../../services/cutting-proxy.ts';
import { noSecrets, passphrase, sftpLocationOf, startSshd } from '../../../services/sshd.ts';
import { mountTmpfs } from '../../../services/tmpfs.ts';
import { persist } from '../../../support/persist.ts';

/** Failures between a publisher and an SFTP server, and their messages. */

const server = await startSshd(t);
const options: SftpStorageOptions = { clock: systemClock, log: silentLog, secrets: noSecrets };
const here = (changes: Partial<SftpLocation> = {}): SftpLocation => ({
  ...sftpLocationOf(server, server.root),
  ...changes,
});
const secretsWith = (values: Record<string, string>): Secrets => ({
  ...noSecrets,
  get: (name) => values[name],
});

async function works(t: Test, location: SftpLocation, given = options): Promise<void> {
  const storage = await sftpStorage(location, given);
  await storage.write(key('probe'), bytesBody('x'), { mode: 'replace' });
  await storage.remove(key('probe'));
  await storage.close();
  t.pass('it works');
}

t.test(
  'logs in with a key file, an encrypted one, an agent, and tries the agent before the file',
  async (t) => {
    await works(t, here());
    const encrypted = here({ sshKeyFile: server.encryptedKeyFile, sshKeyPassphraseEnv: 'PHRASE' });
    await works(t, encrypted, { ...options, secrets: secretsWith({ PHRASE: passphrase }) });
    await t.rejects(sftpStorage(encrypted, { ...options, secrets: secretsWith({ PHRASE: 'wrong' }) }), {
      code: 'ssh_key_invalid',
      message: /cannot be decrypted with the value of PHRASE/,
    });
    await t.rejects(sftpStorage(here({ sshKeyFile: server.encryptedKeyFile }), options), {
      code: 'ssh_key_invalid',
      message: /encrypted, and no passphrase/,
      hint: /ssh_key_passphrase_env/,
    });
    await t.rejects(sftpStorage(here({ sshKeyFile: `${server.clientKeyFile}.pub` }), options), {
      code: 'ssh_key_invalid',
      message: /holds a public key/,
    });
    await t.rejects(sftpStorage(here({ sshKeyFile: '/nowhere/key' }), options), {
      code: 'ssh_key_invalid',
      message: /"\/nowhere\/key" does not exist/,
    });
    await t.rejects(sftpStorage(here({ sshKeyFile: null }), options), {
      code: 'ssh_key_invalid',
      message: /no SSH key/,
      hint: /SSH_AUTH_SOCK/,
    });

    // The path of a socket may have about a hundred characters, and paths of test directories are longer.
    const directory = mkdtempSync(path.join(tmpdir(), 'waybill-agent-'));
    t.teardown(() => rmSync(directory, { recursive: true, force: true }));
    const socket = path.join(directory, 'agent');
    const agent = spawn('ssh-agent', ['-D', '-a', socket], { stdio: 'ignore' });
    t.teardown(async () => {
      agent.kill();
      await once(agent, 'exit');
    });
    while (!existsSync(socket)) {
      if (agent.exitCode !== null) throw new Error(`ssh-agent ended with ${agent.exitCode}`);
      await systemClock.sleep(5);
    }
    const env = { ...process.env, SSH_AUTH_SOCK: socket };
    execFileSync('ssh-add', ['-q', server.clientKeyFile], { env, stdio: 'ignore' });
    await works(t, here({ sshKeyFile: null, sshAgentSocket: socket }));
    await works(t, here({ sshKeyFile: null }), {
      ...options,
      secrets: secretsWith({ SSH_AUTH_SOCK: socket }),
    });
    const other = path.join(directory, 'other');
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', other]);
    await works(t, here({ sshKeyFile: other, sshAgentSocket: socket }));
    execFileSync('ssh-add', ['-q', '-D'], { env, stdio: 'ignore' });
    await works(t, here({ sshAgentSocket: socket }));
    await t.rejects(sftpStorage(here({ sshKeyFile: other, sshAgentSocket: socket }), options), {
      code: 'storage_denied',
      message: /accepts none of the SSH keys/,
      hint: /authorized_keys/,
    });
    await t.rejects(sftpStorage(here({ user: 'nobody-at-all' }), options), { code: 'storage_denied' });
  },
);

t.test('host keys: accepted once and remembered, checked, rejected when changed or revoked', async (t) => {
  const file = path.join(t.testdir(), 'ssh', 'known_hosts');
  const at = (hostKeyPolicy: SftpLocation['hostKeyPolicy']): SftpLocation =>
    here({ knownHostsFile: file, hostKeyPolicy });
  const key = Buffer.from(readFileSync(server.hostKeyFile, 'utf8').split(' ')[1] ?? '', 'base64');
  await t.rejects(sftpStorage(at('strict'), options), {
    code: 'storage_denied',
    message: new RegExp(`not known: ssh-ed25519 ${escaped(fingerprint(key))}`),
    hint: /ssh-keyscan/,
  });
  await works(t, at('accept-new'), { ...options, dryRun: true });
  t.notOk(existsSync(file), 'a dry run stores nothing');
  await works(t, at('accept-new'));
  t.match(readFileSync(file, 'utf8'), new RegExp(`^\\[127\\.0\\.0\\.1\\]:${server.port} ssh-ed25519 `));
  const before = readFileSync(file, 'utf8');
  await works(t, at('strict'));
  await works(t, at('accept-new'));
  t.equal(readFileSync(file, 'utf8'), before, 'a known key is not added again');

  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', path.join(t.testdirName, 'other')]);
  const [type = '', encoded = ''] = readFileSync(path.join(t.testdirName, 'other.pub'), 'utf8').split(' ');
  writeFileSync(file, `[127.0.0.1]:${server.port} ${type} ${encoded}\n`);
  for (const policy of ['strict', 'accept-new'] as const)
    await t.rejects(sftpStorage(at(policy), options), {
      code: 'storage_denied',
      message: new RegExp(
        `has changed: it shows ssh-ed25519 ${escaped(fingerprint(key))}, but the known key is ssh-ed25519 ${escaped(fingerprint(Buffer.from(encoded, 'base64')))} \\(.*known_hosts:1\\)`,
      ),
      hint: /ssh-keygen -R/,
    });
  await works(t, at('off'));
  writeFileSync(file, `${before}@revoked * ssh-ed25519 ${key.toString('base64')}\n`);
  await t.rejects(sftpStorage(at('accept-new'), options), { message: /line 2 .* revokes/ });
});

t.test('reports invalid hosts, ports and paths', async (t) => {
  await t.rejects(sftpStorage(here({ port: 1 }), options), {
    code: 'storage_transient',
    message: /connection refused/,
    hint: /host.*port/,
  });
  await t.rejects(sftpStorage(here({ host: 'no-such-host.invalid' }), options), {
    message: /cannot be resolved|no connection/,
  });
  await t.rejects(sftpStorage(here({ path: '/nowhere/at/all' }), { ...options, mustExist: true }), {
    code: 'storage_not_found',
    message: /no such directory/,
  });
  writeFileSync(path.join(server.root, 'file'), '');
  await t.rejects(sftpStorage(here({ path: path.join(server.root, 'file') }), options), {
    code: 'storage_permanent',
    message: /is not a directory/,
  });
  rmSync(path.join(server.root, 'file'));
});

t.test(
  'reconnects after a disconnect within a file, in either direction, and sends the file from its start',
  async (t) => {
    const proxy = await startCuttingProxy(t, server.port);
    const storage = await opened(t, here({ port: proxy.port }));
    const large = randomBytes(20 << 20);
    let openings = 0;
    const body: Body = {
      size: large.length,
      async *open() {
        openings += 1;
        for (let at = 0; at < large.length; at += 1 << 20) yield large.subarray(at, at + (1 << 20));
      },
    };
    proxy.cutAfter(5 << 20, 2);
    await storage.write(key('cut/large'), body, { mode: 'replace', digest: digestOf(large) });
    t.equal(openings, 2, 'the second disconnect came during the connection setup');
    t.equal(proxy.cuts(), 2);
    t.ok(readFileSync(path.join(server.root, 'cut/large')).equals(large));
    t.same(await names(storage, 'cut'), ['cut/large'], 'no files of the lost attempts are visible');
    proxy.cutAll();
    t.equal((await readAll(storage, key('cut/large'), 1 << 26)).length, large.length);
  },
);

t.test('reconnects to a restarted server', async (t) => {
  const storage = await opened(t, here());
  await storage.write(key('restart/a'), bytesBody('a'), { mode: 'replace' });
  await server.restart();
  await storage.write(key('restart/b'), bytesBody('b'), { mode: 'replace' });
  t.same(await names(storage, 'restart'), ['restart/a', 'restart/b']);
});

t.test('a server that does not answer fails at the deadline, and close does not wait for it', async (t) => {
  const proxy = await startCuttingProxy(t, server.port);
  const storage = await sftpStorage(here({ port: proxy.port }), { ...options, answerWithinMs: 300 });
  proxy.hang();
  await t.rejects(storage.stat(key('x')), {
    code: 'storage_transient',
    message: /did not answer within 0.3 s/,
  });
  proxy.resume();
  const again = await persist(() => storage.stat(key('x')), 'storage_transient');
  t.equal(again, undefined, 'and reconnected');
  proxy.hang();
  await storage.close();
  await t.rejects(storage.stat(key('x')), { code: 'storage_permanent', message: /was closed/ });
});

t.test('a transfer that is slower than the deadline continues while it makes progress', async (t) => {
  const proxy = await startCuttingProxy(t, server.port);
  proxy.slowTo(2 << 20);
  const storage = await sftpStorage(here({ port: proxy.port }), { ...options, answerWithinMs: 2_000 });
  t.teardown(() => storage.close());
  const large = randomBytes(8 << 20);
  await storage.write(key('slow/large'), bytesBody(large), { mode: 'replace', digest: digestOf(large) });
  t.ok(readFileSync(path.join(server.root, 'slow/large')).equals(large));
});

t.test('reports a full remote disk and keeps the existing files', async (t) => {
  const place = path.join(server.root, 'small');
  mkdirSync(place);
  await mountTmpfs(t, place, '256k');
  const storage = await opened(t, here({ path: place }));
  await storage.write(key('a'), bytesBody('old'), { mode: 'replace' });
  const large = bytesBody(randomBytes(1 << 20));
  await t.rejects(storage.write(key('a'), large, { mode: 'replace' }), {
    code: 'storage_full',
    message: /file system of the server is full/,
    hint: /free some space/,
  });
  t.equal((await readAll(storage, key('a'), 100)).toString(), 'old');
  t.same(await names(storage, ''), ['a']);
  await storage.write(key('b'), bytesBody('fits'), { mode: 'replace' });
});

t.test("published files get their mode, whatever the server's default is", async (t) => {
  const storage = await opened(t, { ...here(), modes: publishedModes });
  await storage.write(key('modes/file'), bytesBody('x'), { mode: 'replace' });
  t.equal(statSync(path.join(server.root, 'modes/file')).mode & 0o777, 0o644);
});

async function opened(t: Test, location: SftpLocation): Promise<Storage> {
  const policy = { retries: 5, baseMs: 10, capMs: 10 };
  const open = storageOpener(
    { clock: systemClock, log: silentLog, secrets: noSecrets },
    { opening: policy, calls: policy },
  );
  const storage = await open(location, { readOnly: false });
  t.teardown(() => storage.close());
  return storage;
}

async function names(storage: Storage, directory: string): Promise<string[]> {
  const found: string[] = [];
  const below = directory === '' ? ('' as const) : key(directory);
  for await (const entry of storage.list(below, { recursive: true }))
    if (!entry.key.includes('.publisher')) found.push(entry.key);
  return found.sort();
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');
}
