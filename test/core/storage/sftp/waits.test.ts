import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import ssh2, { type Connection, type SFTPWrapper } from 'ssh2';
import t, { type Test } from 'tap';
import { type Clock, systemClock } from '../../../../src/core/lib/clock.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import type { SftpLocation } from '../../../../src/core/storage/sftp/sftp-location.ts';
import { sftpStorage } from '../../../../src/core/storage/sftp/sftp-storage.ts';
import { makeKeys, noSecrets, sftpLocationOf, type SftpServer, startSshd } from '../../../services/sshd.ts';

/** Every wait on an SFTP server ends, closes its connection, and names the step. See docs/design/waits.md. */

const directory = mkdtempSync(path.join(tmpdir(), 'waybill-waits-'));
t.teardown(() => rmSync(directory, { recursive: true, force: true }));
const keys = await makeKeys(directory);
const hostKey = readFileSync(keys.hostKeyFile.replace(/\.pub$/, ''));

/** A clock whose timeouts only expire when the test says so. */
function clockOfTest(): Clock & { expire: () => void } {
  const timers = new Set<() => void>();
  let skippedMs = 0;
  return {
    ...systemClock,
    monotonic: () => systemClock.monotonic() + skippedMs,
    timeout(_, callback) {
      timers.add(callback);
      return { cancel: () => void timers.delete(callback) };
    },
    expire() {
      skippedMs += 120_000;
      for (const callback of [...timers]) {
        timers.delete(callback);
        callback();
      }
    },
  };
}

function descriptors(): number {
  return readdirSync('/proc/self/fd').length;
}

/** Waits for the connections to be closed. The test ends by its own limit if one stays open. */
async function settled(t: Test, before: number): Promise<void> {
  while (descriptors() > before) await systemClock.sleep(5);
  t.pass('no descriptor is left');
}

interface Reached {
  /** Resolves when the server has become silent. */
  silent: Promise<void>;
  location: SftpLocation;
}

/** A TCP server. `serve` calls `reached` where it becomes silent. */
async function startServer(
  t: Test,
  serve: (socket: net.Socket, reached: () => void) => void,
): Promise<Reached> {
  let reached = (): void => undefined;
  const silent = new Promise<void>((resolve) => (reached = resolve));
  const server = net.createServer((socket) => {
    socket.on('error', () => socket.destroy());
    serve(socket, () => reached());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(async () => {
    server.close();
    await once(server, 'close');
  });
  const { port } = server.address() as net.AddressInfo;
  const known = { host: '127.0.0.1', port, user: 'publisher', ...keys } as SftpServer;
  return { silent, location: { ...sftpLocationOf(known, '/srv'), hostKeyPolicy: 'off' } };
}

/** An SSH server; `serve` gets each client. */
function ssh(serve: (client: Connection, reached: () => void) => void): Parameters<typeof startServer>[1] {
  return (socket, reached) => {
    new ssh2.Server({ hostKeys: [hostKey] }, (client) => {
      client.on('error', () => undefined);
      serve(client, reached);
    }).injectSocket(socket);
  };
}

/** Accepts the login and starts SFTP. */
const sftp = (serve: (session: SFTPWrapper, reached: () => void) => void): ReturnType<typeof ssh> =>
  ssh((client, reached) => {
    client.on('authentication', (attempt) => attempt.accept());
    client.on('session', (accept) =>
      accept().on('sftp', (acceptSftp) => {
        const session = acceptSftp();
        session.on('error', () => undefined);
        session.on('REALPATH', (id) =>
          session.name(id, [{ filename: '/srv', longname: '/srv', attrs: {} as never }]),
        );
        session.on('EXTENDED', (id) => session.status(id, ssh2.utils.sftp.STATUS_CODE.OP_UNSUPPORTED));
        serve(session, reached);
      }),
    );
  });

const silences: [string, RegExp, Parameters<typeof startServer>[1]][] = [
  ['after it accepted the connection', /while (connecting|exchanging keys)/, (_, reached) => reached()],
  [
    'at the login',
    /while logging in/,
    ssh((client, reached) => client.on('authentication', () => reached())),
  ],
  [
    'after the login',
    /while starting SFTP/,
    ssh((client, reached) => {
      client.on('authentication', (attempt) => attempt.accept());
      client.on('session', (accept) => accept().on('sftp', () => reached()));
    }),
  ],
  ['at a request', /did not answer within/, sftp((session, reached) => session.on('STAT', () => reached()))],
];

for (const [when, message, serve] of silences)
  t.test(`a server that goes silent ${when} ends the attempt and leaves no connection`, async (t) => {
    const { location, silent } = await startServer(t, serve);
    const before = descriptors();
    const clock = clockOfTest();
    const outcome = t.rejects(sftpStorage(location, { clock, log: silentLog, secrets: noSecrets }), {
      code: 'storage_transient',
      message,
    });
    await silent;
    clock.expire();
    const settling = setInterval(clock.expire, 20);
    await outcome;
    await settled(t, before);
    clearInterval(settling);
  });

const failures: [string, string, RegExp, (session: SFTPWrapper) => void][] = [
  ['ends SFTP', 'storage_transient', /ended the SFTP session/, (session) => session.end()],
  [
    'sends something other than SFTP',
    'storage_transient',
    /broke the SFTP protocol/,
    (session) => {
      const { _protocol: protocol, outgoing } = session as unknown as {
        _protocol: { channelData: (channel: number, bytes: Buffer) => void };
        outgoing: { id: number };
      };
      protocol.channelData(outgoing.id, Buffer.from('this is not SFTP'));
    },
  ],
];

for (const [what, code, message, fail] of failures)
  t.test(`a server that ${what} during a request fails it and leaves no connection`, async (t) => {
    const serve = sftp((session) => session.on('STAT', () => fail(session)));
    const { location } = await startServer(t, serve);
    const before = descriptors();
    const options = { clock: systemClock, log: silentLog, secrets: noSecrets };
    await t.rejects(sftpStorage(location, options), { code, message });
    await settled(t, before);
  });

t.test('does not wait for a server that does not close the connection', async (t) => {
  const sockets: net.Socket[] = [];
  const serve = sftp((session) => {
    session.on('STAT', (id) => session.status(id, ssh2.utils.sftp.STATUS_CODE.NO_SUCH_FILE));
    session.on('LSTAT', (id) => session.status(id, ssh2.utils.sftp.STATUS_CODE.NO_SUCH_FILE));
  });
  const { location } = await startServer(t, (socket, reached) => {
    serve(socket, reached);
    socket.end = () => socket;
    sockets.push(socket);
  });
  const before = descriptors();
  const clock = clockOfTest();
  const storage = await sftpStorage(location, { clock, log: silentLog, secrets: noSecrets });
  t.equal(await storage.stat(key('x')), undefined);
  const expiring = setInterval(clock.expire, 20);
  await storage.close();
  clearInterval(expiring);
  t.same(
    sockets.map(({ destroyed }) => destroyed),
    [false],
    'the server keeps its end open',
  );
  for (const socket of sockets) socket.destroy();
  await settled(t, before);
});

const subsystems: [string, string | null, RegExp, RegExp][] = [
  ['has no SFTP', null, /does not offer SFTP/, /Subsystem sftp internal-sftp/],
  ['has no such SFTP program', '/no/such/program', /ended with exit code 127/, /Subsystem sftp/],
  ['prints text before SFTP', "sh -c 'echo Welcome; exec cat'", /something other than SFTP/, /login scripts/],
];

for (const [what, subsystem, message, hint] of subsystems)
  t.test(`a server that ${what} is a configuration error and leaves no connection`, async (t) => {
    const server = await startSshd(t, { subsystem });
    const before = descriptors();
    const options = { clock: systemClock, log: silentLog, secrets: noSecrets };
    const location = sftpLocationOf(server, server.root);
    await t.rejects(sftpStorage(location, options), { code: 'storage_permanent', message, hint });
    await settled(t, before);
  });

t.test('an unresponsive SSH agent is ignored and leaves no connection', async (t) => {
  const sshAgentSocket = path.join(directory, 'agent');
  const accepted = new Set<net.Socket>();
  const agent = net.createServer((socket) => {
    accepted.add(socket.resume());
    socket.on('close', () => accepted.delete(socket));
  });
  agent.listen(sshAgentSocket);
  await once(agent, 'listening');
  t.teardown(() => agent.close());
  const server = await startSshd(t);
  const before = descriptors();
  const clock = clockOfTest();
  const location = { ...sftpLocationOf(server, server.root), sshAgentSocket };
  const opening = sftpStorage(location, { clock, log: silentLog, secrets: noSecrets });
  await once(agent, 'connection');
  clock.expire();
  await (await opening).close();
  await settled(t, before);
  t.equal(accepted.size, 0);
});
