import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { inheritedSocket } from '../../../src/cli/process/systemd.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { ensureInstalled, pathOf } from '../../services/debian.ts';
import { freePort } from '../../services/free-port.ts';
import { program } from '../process.ts';

/** Sockets bound by systemd, passed on by its own program for this purpose. */

await ensureInstalled('systemd');
const socketActivate = pathOf('systemd-socket-activate') ?? '';
const serve = [process.execPath, program, 'serve', '-c', 'c.yml'];

/** A configuration with a privileged port, so that the daemon starts only with an inherited socket. */
function layOut(t: Test): string {
  const place = t.testdir({});
  mkdirSync(path.join(place, 'in'));
  writeFileSync(
    path.join(place, 'c.yml'),
    `server: { http: { listen: "192.0.2.1:80" }, staging: { directory: ./staging } }
pipelines:
  - id: site
    source: { backend: local, path: ./in }
    destinations: [{ id: web, backend: local, path: ./web }]
`,
  );
  return place;
}

function activate(t: Test, place: string, args: readonly string[], command: readonly string[]): ChildProcess {
  const child = spawn(socketActivate, [...args, ...command], {
    cwd: place,
    env: { PATH: process.env['PATH'], HOME: place },
    stdio: ['ignore', 'ignore', 'pipe'],
    detached: true,
  });
  t.teardown(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    process.kill(-(child.pid as number), 'SIGKILL');
    await once(child, 'exit');
  });
  return child;
}

async function healthz(port: number): Promise<unknown> {
  await untilListening(port);
  return (await fetch(`http://127.0.0.1:${port}/healthz`)).json();
}

/** Connects once systemd's program listens on a port or a Unix socket. */
async function untilListening(place: number | string): Promise<void> {
  for (;;) {
    const socket = typeof place === 'number' ? connect(place, '127.0.0.1') : connect(place);
    const isThere = await new Promise<boolean>((resolve) =>
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false)),
    );
    socket.destroy();
    if (isThere) return;
    await systemClock.sleep(50);
  }
}

t.test('the daemon listens on an inherited socket, and ends normally', async (t) => {
  const place = layOut(t);
  const port = await freePort();
  const daemon = activate(t, place, ['-l', `127.0.0.1:${port}`], serve);
  const lines = createInterface({ input: daemon.stderr! })[Symbol.asyncIterator]();
  t.match(await healthz(port), { status: 'ok' });
  let said = '';
  while (!said.includes('"listening"')) said = String((await lines.next()).value);
  t.match(JSON.parse(said), { url: `http://127.0.0.1:${port}/` });
  daemon.kill('SIGTERM');
  await once(daemon, 'exit');
  t.equal(daemon.exitCode, 0);
});

t.test('a request during a restart of the daemon waits for it', async (t) => {
  const place = layOut(t);
  const port = await freePort();
  // Like systemd, the shell keeps the socket while the first daemon ends and the second begins.
  const daemon = `sh -c 'LISTEN_PID=$$ exec "$@"' sh "$@"`;
  const script = `${daemon}; touch between; until [ -e go ]; do sleep 0.1; done; exec ${daemon}`;
  const shell = activate(t, place, ['-l', `127.0.0.1:${port}`], ['sh', '-c', script, 'sh', ...serve]);
  shell.stderr?.resume();
  t.match(await healthz(port), { status: 'ok' });
  const [first = ''] = readFileSync(`/proc/${shell.pid}/task/${shell.pid}/children`, 'utf8').split(' ');
  process.kill(Number(first), 'SIGTERM');
  while (!existsSync(path.join(place, 'between'))) await systemClock.sleep(50);
  const asked = fetch(`http://127.0.0.1:${port}/healthz`);
  writeFileSync(path.join(place, 'go'), '');
  t.match(await (await asked).json(), { status: 'ok' });
});

t.test('rejects an unusable listen address, with a fix', async (t) => {
  const place = layOut(t);
  const port = await freePort();
  // The path of a Unix socket must be short.
  const unix = path.join(mkdtempSync(path.join(tmpdir(), 'socket-')), 's');
  t.teardown(() => rmSync(path.dirname(unix), { recursive: true }));
  for (const [args, at, words] of [
    [['-l', unix], unix, 'it is not a TCP socket'],
    [
      ['-l', `127.0.0.1:${port}`, '-l', `${unix}2`],
      port,
      'systemd passes 2 sockets, and waybill listens on one',
    ],
  ] as const) {
    const daemon = activate(t, place, args, serve);
    const said = text(daemon.stderr!);
    const exit = once(daemon, 'exit') as Promise<[number]>;
    await untilListening(at);
    const [code] = await exit;
    t.equal(code, 2, words);
    t.match(await said, words);
    t.match(await said, 'ListenStream=');
  }
});

t.test('ignores a socket for another process', async (t) => {
  t.equal(inheritedSocket({}, 5), null);
  t.equal(inheritedSocket({ LISTEN_PID: '4', LISTEN_FDS: '1' }, 5), null);
  t.equal(inheritedSocket({ LISTEN_PID: '5', LISTEN_FDS: '0' }, 5), null);
  t.equal(inheritedSocket({ LISTEN_PID: '5', LISTEN_FDS: 'x' }, 5), null);
  t.equal(inheritedSocket({ LISTEN_PID: '5', LISTEN_FDS: '1' }, 5), 3);
  t.throws(() => inheritedSocket({ LISTEN_PID: '5', LISTEN_FDS: '2' }, 5), { code: 'config_invalid' });
});
