import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { hasCode } from '../../../../src/core/lib/errors.ts';
import { type Log, silentLog } from '../../../../src/core/lib/log.ts';
import { bytesBody, readAll } from '../../../../src/core/storage/body.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import { storageOpener } from '../../../../src/core/storage/open-storage.ts';
import type { SftpLocation } from '../../../../src/core/storage/sftp/sftp-location.ts';
import { sftpStorage } from '../../../../src/core/storage/sftp/sftp-storage.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { type Direction, startCuttingProxy } from '../../../services/cutting-proxy.ts';
import { ensureInstalled } from '../../../services/debian.ts';
import { freePort } from '../../../services/free-port.ts';
import { startPlainSftpServer } from '../../../services/plain-sftp-server.ts';
import { noSecrets, sftpLocationOf, type SftpServer, startSshd } from '../../../services/sshd.ts';
import { mountTmpfs } from '../../../services/tmpfs.ts';
import { sampleOf } from '../../../support/sampling.ts';

/**
 * Dead agents, lost responses, connections that break between two requests of one call, and unusual servers.
 */

const openSsh = await startSshd(t);
const plain = await startPlainSftpServer(t);
const options = { clock: systemClock, log: silentLog, secrets: noSecrets };
const here = (changes: Partial<SftpLocation> = {}): SftpLocation => ({
  ...sftpLocationOf(openSsh, openSsh.root),
  ...changes,
});

t.test('an unreachable agent is ignored if there is a key file, and reported if there is none', async (t) => {
  const sshAgentSocket = path.join(openSsh.root, 'no-agent');
  const warnings: string[] = [];
  const storage = await sftpStorage(here({ sshAgentSocket }), { ...options, log: logTo(warnings) });
  await storage.close();
  t.match(warnings, [/agent did not answer; trying only the key file/]);
  await t.rejects(sftpStorage(here({ sshAgentSocket, sshKeyFile: null }), options), {
    code: 'ssh_key_invalid',
    message: /agent at ".*no-agent" does not answer/,
    hint: /ssh_key_file/,
  });
});

t.test('reports an agent with more keys than the server accepts', async (t) => {
  // The path of a socket may have about a hundred characters, and paths of test directories are longer.
  const directory = mkdtempSync(path.join(tmpdir(), 'waybill-agent-'));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  const sshAgentSocket = path.join(directory, 'agent');
  const agent = spawn('ssh-agent', ['-D', '-a', sshAgentSocket], { stdio: 'ignore' });
  t.teardown(async () => {
    agent.kill();
    await once(agent, 'exit');
  });
  while (!existsSync(sshAgentSocket)) {
    if (agent.exitCode !== null) throw new Error(`ssh-agent ended with ${agent.exitCode}`);
    await systemClock.sleep(5);
  }
  for (let count = 1; count <= 7; count += 1) {
    const file = path.join(directory, `key-${count}`);
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', file]);
    const env = { ...process.env, SSH_AUTH_SOCK: sshAgentSocket };
    execFileSync('ssh-add', ['-q', file], { env, stdio: 'ignore' });
  }
  await t.rejects(sftpStorage(here({ sshAgentSocket }), options), {
    code: 'storage_denied',
    message: /too many SSH keys/,
    hint: /MaxAuthTries/,
  });
});

/**
 * Runs work on a connection that stays up, to count its bytes in a direction, and then on connections that
 * are cut after each of these shares of them. The names of the work have the same length. On a busy machine,
 * a server puts several responses into one packet and may finish before the position of the cut. Then its
 * bytes are counted, and it is repeated.
 */
async function cutAtEach(
  t: Test,
  { server, direction, shares }: { server: SftpServer; direction: Direction; shares: readonly number[] },
  prepare: (storage: Storage, place: string) => Promise<(at: string) => Promise<void>>,
): Promise<void> {
  const proxy = await startCuttingProxy(t, server.port);
  const name = t.name.replaceAll(/[^a-z]+/gi, '-');
  let runs = 0;
  const run = async (cutAt: number, at: string): Promise<{ isCut: boolean; bytes: number }> => {
    const place = path.join(server.root, `${name}-${String(runs).padStart(3, '0')}`);
    runs += 1;
    const storage = await opened(t, { ...sftpLocationOf(server, place), port: proxy.port });
    const work = await prepare(storage, place);
    const [cuts, passed] = [proxy.cuts(), proxy.passed(direction)];
    if (cutAt !== Infinity) proxy.cutAfter(cutAt, 1, direction);
    await work(at);
    const done = { isCut: proxy.cuts() > cuts, bytes: proxy.passed(direction) - passed };
    proxy.cutAfter(Infinity, 0, direction);
    await storage.close();
    return done;
  };
  let { bytes: total } = await run(Infinity, 'never cut');
  for (const share of shares)
    for (let isCut = false; !isCut;) {
      const at = `cut after ${Math.floor(share * total)} of ${total} bytes`;
      const done = await run(Math.floor(share * total), at);
      isCut = done.isCut;
      if (isCut) {
        t.pass(`was ${at}`);
        continue;
      }
      if (done.bytes >= total) throw new Error(`${at}: ${done.bytes} bytes passed, and it was not`);
      total = done.bytes;
    }
}

const tenths = Array.from({ length: 10 }, (_, index) => (index + 0.5) / 11);

for (const direction of ['to the server', 'from the server'] as const) {
  t.test(`a removal whose connection breaks ${direction}, at any byte, is finished by a retry`, async (t) => {
    await cutAtEach(
      t,
      { server: openSsh, direction, shares: sampleOf(tenths, 3, t.name) },
      async (storage, place) => {
        mkdirSync(path.join(place, 'a/b'), { recursive: true });
        for (let index = 0; index < 30; index += 1) writeFileSync(path.join(place, 'a/b', `${index}`), '');
        return async (at) => {
          await storage.removeTree(key('a'));
          t.same(readdirSync(place), [], at);
        };
      },
    );
  });

  for (const [name, server] of [
    ['OpenSSH', openSsh],
    ['a server without extensions', plain],
  ] as const)
    t.test(`moves whose connection breaks ${direction}, at any byte, are all done: ${name}`, async (t) => {
      const moves = Array.from({ length: 40 }, (_, index) => ({
        from: key(`.publisher.tmp/1/${index}`),
        to: key(`out/${index}`),
      }));
      await cutAtEach(
        t,
        { server, direction, shares: sampleOf(tenths, 3, t.name) },
        async (storage, place) => {
          await Promise.all(
            moves.flatMap(({ from, to }) => [
              storage.write(from, bytesBody('new'), { mode: 'scratch' }),
              storage.write(to, bytesBody('old'), { mode: 'scratch' }),
            ]),
          );
          return async (at) => {
            await storage.rename!(moves);
            const found = moves.map(({ to }) => readFileSync(path.join(place, to), 'utf8'));
            t.same(new Set(found), new Set(['new']), at);
          };
        },
      );
    });
}

t.test("a lock created with a lost response is never reported as another publisher's", async (t) => {
  const proxy = await startCuttingProxy(t, openSsh.port);
  const outcomes: string[] = [];
  const wrong: string[] = [];
  /**
   * Creates a lock over a connection that is cut after this many bytes. Resolves to the number of bytes
   * before the cut.
   */
  const create = async (cutAt: number): Promise<number> => {
    const place = path.join(openSsh.root, `created-${String(outcomes.length).padStart(4, '0')}`);
    const storage = await opened(t, { ...sftpLocationOf(openSsh, place), port: proxy.port });
    const before = proxy.passed('from the server');
    proxy.cutAfter(cutAt, 1, 'from the server');
    const outcome = await storage.write(key('.publisher.lock'), bytesBody('mine'), { mode: 'create' }).then(
      () => 'created',
      (error: unknown) => (hasCode(error, 'storage_transient') ? 'unknown' : String(error)),
    );
    const taken = proxy.passed('from the server') - before;
    const found = readFileSync(path.join(place, '.publisher.lock'), 'utf8');
    if (!['created', 'unknown'].includes(outcome) || found !== 'mine')
      wrong.push(`cut after ${cutAt} bytes: ${outcome}, "${found}"`);
    outcomes.push(outcome);
    proxy.cutAfter(Infinity, 0, 'from the server');
    await storage.close();
    return taken;
  };
  const total = await create(Infinity);
  // Smaller than any response, so that some cuts hit the response of the creating request. These are near the
  // end, because only the cleanup follows, which may still be in progress when the caller continues.
  const step = 24;
  // The position of a cut depends on how the server groups its packets. On a busy machine, all cuts may miss
  // that response.
  for (const offset of [0, 8, 16]) {
    if (outcomes.includes('unknown')) break;
    for (let cutAt = offset; cutAt < total + 10 * step; cutAt += step) await create(cutAt);
  }
  t.same(wrong, []);
  t.ok(outcomes.includes('unknown'), 'after some cuts, only a read could detect the result');
  t.ok(outcomes.includes('created'));
});

t.test('a server whose rename overwrites does not lose a file that another client created', async (t) => {
  const port = await startRcloneServer(t, openSsh);
  const storage = await sftpStorage(here({ port, path: '/place', hostKeyPolicy: 'off' }), options);
  t.teardown(() => storage.close());
  await storage.write(key('.publisher.lock'), bytesBody('first'), { mode: 'create' });
  await t.rejects(storage.write(key('.publisher.lock'), bytesBody('second'), { mode: 'create' }), {
    code: 'storage_exists',
  });
  t.equal((await readAll(storage, key('.publisher.lock'), 100)).toString(), 'first');
});

t.test('publishers that concurrently create and remove the same directory do not fail', async (t) => {
  const place = path.join(openSsh.root, 'shared directory');
  const all = await Promise.all(
    Array.from({ length: 8 }, async () => sftpStorage(here({ path: place }), options)),
  );
  const outcomes = await Promise.allSettled(
    all.map(async (storage, index) => {
      for (let round = 1; round <= 10; round += 1) {
        await storage.write(key(`in/${index}`), bytesBody('x'), { mode: 'scratch' });
        await storage.remove(key(`in/${index}`));
      }
    }),
  );
  t.same(
    outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [String(outcome.reason)] : [])),
    [],
  );
  await Promise.all(all.map(async (storage) => storage.close()));
});

t.test('reports a server without SFTP, with the missing subsystem', async (t) => {
  const server = await startSshd(t, { subsystem: null });
  await t.rejects(sftpStorage(sftpLocationOf(server, server.root), options), {
    code: 'storage_permanent',
    message: /does not offer SFTP/,
    hint: /Subsystem sftp internal-sftp/,
  });
});

t.test('accepts a server with a banner and one session per connection', async (t) => {
  const banner = path.join(t.testdir({ banner: 'Authorised use only.\n'.repeat(40) }), 'banner');
  const server = await startSshd(t, { settings: [`Banner ${banner}`], limits: { MaxSessions: 1 } });
  const port = await startTalkativeProxy(t, server.port);
  const storage = await opened(t, { ...sftpLocationOf(server, server.root), port });
  await Promise.all(
    Array.from({ length: 50 }, (_, index) =>
      storage.write(key(`many/${index}`), bytesBody('x'), { mode: 'replace' }),
    ),
  );
  t.equal(readdirSync(path.join(server.root, 'many')).length, 50);
});

t.test('retries a server that rejects connections while others log in', async (t) => {
  const server = await startSshd(t, { limits: { MaxStartups: 1 } });
  const location = sftpLocationOf(server, server.root);
  const busy = await stranger(server.port);
  await t.rejects(sftpStorage(location, options), { code: 'storage_transient' });
  let waits = 0;
  const sleep = async (): Promise<void> => {
    waits += 1;
    busy.destroy();
    await systemClock.sleep(20);
  };
  const clock = { ...systemClock, sleep };
  const open = storageOpener(
    { clock, log: silentLog, secrets: noSecrets },
    { opening: { retries: 5_000, baseMs: 1, capMs: 1 } },
  );
  const storage = await open(location, { readOnly: false });
  await storage.close();
  t.ok(waits > 0, 'it was rejected at first');
});

t.test('concurrent connections write one line to known_hosts', async (t) => {
  const knownHostsFile = path.join(t.testdir(), 'known_hosts');
  const all = await Promise.all(
    Array.from({ length: 8 }, async () => sftpStorage(here({ knownHostsFile }), options)),
  );
  await Promise.all(all.map(async (storage) => storage.close()));
  t.equal(readFileSync(knownHostsFile, 'utf8').trim().split('\n').length, 1);
});

t.test('reports unreadable lines of known_hosts by file and line', async (t) => {
  const knownHostsFile = path.join(t.testdir(), 'known_hosts');
  writeFileSync(knownHostsFile, '# mine\n\nsftp.example.org ssh-ed25519 AAAA\nhalf\n');
  const warnings: string[] = [];
  const storage = await sftpStorage(here({ knownHostsFile }), { ...options, log: logTo(warnings) });
  await storage.close();
  t.same(
    warnings.map((warning) => warning.match(/known_hosts:\d+/g)),
    [['known_hosts:3', 'known_hosts:4']],
  );
});

t.test('reports a full disk below the root', async (t) => {
  const place = path.join(openSsh.root, 'room');
  mkdirSync(path.join(place, 'small'), { recursive: true });
  await mountTmpfs(t, path.join(place, 'small'), '256k');
  const storage = await opened(t, here({ path: place }));
  await t.rejects(storage.write(key('small/a'), bytesBody(Buffer.alloc(1 << 20)), { mode: 'replace' }), {
    code: 'storage_full',
    hint: /free some space/,
  });
  t.same(readdirSync(path.join(place, 'small')), []);
});

t.test('reports a full disk if a directory for a file cannot be made', async (t) => {
  const place = path.join(openSsh.root, 'inodes');
  mkdirSync(place);
  await mountTmpfs(t, place, '1m,nr_inodes=5');
  const storage = await opened(t, here({ path: place }));
  await storage.write(key('a'), bytesBody('old'), { mode: 'replace' });
  for (const name of ['b', 'c', 'd']) writeFileSync(path.join(place, name), '');
  const full = { code: 'storage_full', hint: /free some space/ };
  await t.rejects(storage.write(key('new/b'), bytesBody('b'), { mode: 'replace' }), full);
  await t.rejects(storage.rename!([{ from: key('a'), to: key('new/a') }]), full);
  t.equal((await readAll(storage, key('a'), 100)).toString(), 'old');
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

/**
 * A connection that receives the greeting and never logs in. Reopened while the server still counts an
 * earlier one.
 */
async function stranger(port: number): Promise<net.Socket> {
  for (;;) {
    const socket = net.connect(port, '127.0.0.1');
    const [greeting] = (await once(socket, 'data')) as [Buffer];
    if (greeting.toString().startsWith('SSH-')) return socket;
    socket.destroy();
    await systemClock.sleep(10);
  }
}

function logTo(warnings: string[]): Log {
  return { ...silentLog, warn: (_, message) => void warnings.push(message) };
}

/** Bastion hosts send lines of text before the server's SSH greeting. */
async function startTalkativeProxy(t: Test, target: number): Promise<number> {
  const open = new Set<net.Socket>();
  const server = net.createServer((client) => {
    const upstream = net.connect(target, '127.0.0.1');
    for (const socket of [client, upstream]) {
      open.add(socket);
      socket.on('error', () => socket.destroy());
      socket.on('close', () => [client, upstream].forEach((each) => each.destroy()));
    }
    client.write('Welcome to the bastion.\r\nAll is recorded.\r\n');
    upstream.pipe(client);
    client.pipe(upstream);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(async () => {
    for (const socket of open) socket.destroy();
    server.close();
    await once(server, 'close');
  });
  return (server.address() as net.AddressInfo).port;
}

async function startRcloneServer(t: Test, { user, clientKeyFile }: SftpServer): Promise<number> {
  await ensureInstalled('rclone');
  const directory = t.testdir();
  const port = await freePort();
  const child = spawn(
    'rclone',
    [
      ...['serve', 'sftp', directory, '--addr', `127.0.0.1:${port}`, '--user', user, '--config', '/dev/null'],
      ...['--authorized-keys', `${clientKeyFile}.pub`, '--vfs-cache-mode', 'writes'],
      ...['--cache-dir', path.join(directory, '.cache'), '--log-level', 'ERROR'],
    ],
    { stdio: 'ignore' },
  );
  t.teardown(async () => {
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  });
  for (;;) {
    if (child.exitCode !== null) throw new Error(`rclone ended with ${child.exitCode}`);
    const socket = net.connect(port, '127.0.0.1');
    const isUp = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (isUp) return port;
    await systemClock.sleep(10);
  }
}
