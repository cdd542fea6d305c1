import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { logLines } from '../../../src/cli/output/logger.ts';
import { serviceManager } from '../../../src/cli/process/systemd.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { launch, launchApi, layOut } from '../../hosts/processes.ts';
import { ensureInstalled } from '../../services/debian.ts';
import { manualClock } from '../../workers/manual-clock.ts';
import { program } from '../process.ts';

/** A running process and its log. */
interface Started {
  child: ChildProcess;
  ended: Promise<[number | null, NodeJS.Signals | null]>;
  /** Resolves to all lines once one matches. */
  until: (form: RegExp) => Promise<string[]>;
}

/** Runs a module that imports the sources. Its stderr is the log. */
function start(t: Test, source: string, directory = t.testdir(), env: Record<string, string> = {}): Started {
  const file = path.join(directory, 'daemon.mts');
  const at = (name: string): string => JSON.stringify(path.resolve('src', name));
  writeFileSync(
    file,
    `import { daemonProcess } from ${at('cli/process/daemon-process.ts')};
     import { makeLogger } from ${at('cli/output/logger.ts')};
     import { newRedaction } from ${at('core/lib/log.ts')};
     const log = await makeLogger({ verbose: false, color: false, pretty: false, redaction: newRedaction() });
     const daemon = daemonProcess(log);
     ${source}
     process.exitCode = await daemon.runUntilStopped({
       reload: async () => log.info({}, 'reloaded'),
       close: async () => {
         log.info({}, 'stopped');
         return { unfinished: [] };
       },
     });`,
  );
  const child = spawn(process.execPath, ['--import', 'tsx', file], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, ...env },
  });
  t.teardown(() => child.kill('SIGKILL'));
  const lines: string[] = [];
  let look: () => void = () => undefined;
  createInterface({ input: child.stderr }).on('line', (line) => {
    lines.push(line);
    look();
  });
  return {
    child,
    ended: once(child, 'exit') as Started['ended'],
    until: (form) =>
      new Promise((resolve) => {
        look = () => {
          if (lines.some((line) => form.test(line))) resolve(lines);
        };
        look();
      }),
  };
}

t.test('SIGHUP reloads and SIGUSR2 does nothing; SIGTERM still stops the daemon', async (t) => {
  const { child, ended, until } = start(t, `setInterval(() => {}, 10); log.info({}, 'ready');`);
  await until(/ready/);
  child.kill('SIGUSR2');
  child.kill('SIGHUP');
  await until(/"signal":"SIGHUP"/);
  await until(/"msg":"reloaded"/);
  child.kill('SIGTERM');
  await until(/draining/);
  t.same(await ended, [0, null], 'it ends even with an endless timer');
});

t.test('SIGHUP during the start reloads once it is finished; during shutdown it does nothing', async (t) => {
  const { child, ended, until } = start(
    t,
    `setInterval(() => {}, 10);
     process.once('SIGHUP', () => log.info({}, 'hung up'));
     process.kill(process.pid, 'SIGHUP');
     process.kill(process.pid, 'SIGHUP');
     await new Promise((resolve) => process.once('SIGHUP', () => setTimeout(resolve, 100)));
     log.info({}, 'started');
     process.on('SIGTERM', () => setImmediate(() => process.kill(process.pid, 'SIGHUP')));`,
  );
  const lines = await until(/"msg":"reloaded"/);
  t.match(
    lines.filter((line) => /hung up|started|reloaded/.test(line)),
    [/hung up/, /started/, /reloaded/],
  );
  child.kill('SIGTERM');
  t.same(await ended, [0, null]);
  const all = await until(/stopped/);
  t.equal(all.filter((line) => line.includes('"msg":"reloaded"')).length, 1);
});

t.test('SIGTERM during the start stops the daemon once it has started', async (t) => {
  const { ended, until } = start(
    t,
    `setInterval(() => {}, 10);
     process.kill(process.pid, 'SIGTERM');
     await new Promise((resolve) => setTimeout(resolve, 100));
     log.info({}, 'started');`,
  );
  t.same(await ended, [0, null]);
  t.match((await until(/./)).join('\n'), /draining[^]*started[^]*stopped/);
});

t.test('after "stopped", the process exits even if a thread hangs in a system call', async (t) => {
  const directory = t.testdir();
  const pipe = path.join(directory, 'pipe');
  t.equal(spawnSync('mkfifo', [pipe]).status, 0);
  const thread = `const { readFileSync } = require('node:fs');
    require('node:worker_threads').parentPort.postMessage('ready');
    readFileSync(${JSON.stringify(pipe)});`;
  const { child, ended, until } = start(
    t,
    `const { Worker } = await import('node:worker_threads');
     const thread = new Worker(${JSON.stringify(thread)}, { eval: true });
     thread.on('message', () => log.info({}, 'ready'));`,
    directory,
  );
  await until(/ready/);
  child.kill('SIGTERM');
  t.match((await until(/hang in system calls/)).join('\n'), /"stopped"/);
  t.same(await ended, [null, 'SIGKILL'], 'Node.js alone would wait for the thread forever');
});

t.test('a daemon that cannot write its log keeps answering, and ends at SIGTERM', async (t) => {
  const root = t.testdir({
    'waybill.yaml': `upload_tokens: [{id: ci, value_env: TOKEN_CI, pipelines: [maps]}]
server: {http: {listen: "127.0.0.1:0"}}
pipelines:
  - id: maps
    source: {backend: http_upload}
    destinations: [{id: web, backend: local, path: ./public}]
`,
  });
  const full = openSync('/dev/full', 'w');
  const child = spawn(process.execPath, [program, 'serve', '-c', 'waybill.yaml'], {
    cwd: root,
    stdio: ['ignore', 'ignore', full],
    env: { PATH: process.env['PATH'], TOKEN_CI: 'the-token-of-ci-on-this-host' },
  });
  t.teardown(() => child.kill('SIGKILL'));
  const ended = once(child, 'exit');
  const port = await listeningPort(child);
  t.equal((await fetch(`http://127.0.0.1:${port}/healthz`)).status, 200);
  child.kill('SIGTERM');
  t.same(await ended, [0, null]);
});

t.test('lost log lines are counted while the log is full, and reported once it is not', async (t) => {
  let broken: string | null = 'ENOSPC';
  const written: string[] = [];
  const reported: number[] = [];
  const lines = logLines(
    2,
    (lost) => reported.push(lost),
    (_descriptor, bytes) => {
      if (broken !== null) throw Object.assign(new Error(broken), { code: broken });
      // Simulates the short writes of a pipe.
      const some = Buffer.from(bytes).subarray(0, 3).toString();
      written.push(some);
      return some.length;
    },
  );
  for (const code of ['ENOSPC', 'EPIPE', 'EIO', 'EAGAIN']) {
    broken = code;
    lines.write('lost\n');
  }
  t.same(reported, []);
  broken = null;
  lines.write('first line\n');
  lines.write('second\n');
  t.equal(written.join(''), 'first line\nsecond\n');
  t.same(reported, [4]);
});

/** The port on which the process listens. Polls until there is one. */
async function listeningPort({ pid, exitCode }: ChildProcess): Promise<number> {
  while (exitCode === null) {
    const descriptors = `/proc/${pid ?? 0}/fd`;
    const sockets = readdirSync(descriptors).flatMap((name) => {
      try {
        return [/^socket:\[(\d+)\]$/.exec(readlinkSync(path.join(descriptors, name)))?.[1]];
      } catch {
        return []; // The descriptor was closed meanwhile.
      }
    });
    for (const line of readFileSync(`/proc/${pid ?? 0}/net/tcp`, 'utf8').split('\n')) {
      const [, address = '', , state, , , , , , inode = 'none'] = line.trim().split(/\s+/);
      if (state === '0A' && sockets.includes(inode)) return parseInt(address.split(':')[1] ?? '', 16);
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  throw new Error('it ended');
}

t.test('log.level of the configuration applies to a daemon; --verbose means at least debug', async (t) => {
  const place = layOut(t, {});
  const yaml = readFileSync(place.config, 'utf8');
  writeFileSync(place.config, `log: {level: debug}\n${yaml}`);
  const verbose = launch(t, place, ['serve']);
  const { url = '' } = await verbose.until(({ msg }) => msg === 'listening');
  await (await fetch(`${url}healthz`)).text();
  t.equal((await verbose.until(({ msg }) => msg === 'request')).level, 20, 'a probe, at level debug');
  t.equal(await verbose.kill('SIGTERM'), 0);

  writeFileSync(place.config, `log: {level: error}\n${yaml}`);
  const asked = launch(t, place, ['serve', '--verbose']);
  t.equal((await asked.until(({ msg }) => msg === 'listening')).level, 30);
  t.equal(await asked.kill('SIGTERM'), 0);

  writeFileSync(place.config, `log: {level: warn}\n${yaml}`);
  const quiet = launch(t, place, ['serve']);
  t.ok((await listeningPort(quiet.child)) > 0);
  t.equal(await quiet.kill('SIGTERM'), 0);
  t.equal(quiet.output(), '', 'no line at info');
});

/** A socket for messages to systemd, and the messages so far. */
interface NotifySocket {
  socket: string;
  messages: () => string;
  until: (form: RegExp) => Promise<void>;
}

async function notifySocket(t: Test): Promise<NotifySocket> {
  await ensureInstalled('perl');
  await ensureInstalled('systemd');
  const socket = path.join(mkdtempSync(path.join(tmpdir(), 'waybill-notify-')), 'socket');
  // socat keeps the descriptor open. Its closing tells systemd-notify that the message was received.
  const receive = `use Socket; $| = 1; socket(my $s, PF_UNIX, SOCK_DGRAM, 0);
    bind($s, sockaddr_un($ARGV[0])) or die $!; print "$m\\n" while defined recv($s, $m, 4096, 0);`;
  const receiver = spawn('perl', ['-e', receive, socket], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.teardown(() => {
    receiver.kill('SIGKILL');
    rmSync(path.dirname(socket), { recursive: true });
  });
  let messages = '';
  let look: () => void = () => undefined;
  receiver.stdout.on('data', (chunk: Buffer) => {
    messages += chunk.toString();
    look();
  });
  while (!existsSync(socket)) await new Promise((resolve) => setImmediate(resolve));
  return {
    socket,
    messages: () => messages,
    until: (form) =>
      new Promise((resolve) => {
        look = () => {
          if (form.test(messages)) resolve();
        };
        look();
      }),
  };
}

t.test('notifies systemd that it is ready, alive, and stopping', async (t) => {
  const { socket, messages, until } = await notifySocket(t);
  const env = { NOTIFY_SOCKET: socket, WATCHDOG_USEC: '100000' };
  const { child, ended } = start(t, 'setInterval(() => {}, 10);', t.testdir(), env);
  await until(/^READY=1\nSTATUS=working\n(BARRIER=1\n|WATCHDOG=1\n)*(WATCHDOG=1\nBARRIER=1\n){3}/);
  t.notMatch(messages(), /STOPPING/);
  child.kill('SIGTERM');
  await until(/STOPPING=1\nSTATUS=finishing accepted runs/);
  t.same(await ended, [0, null]);
  t.equal(messages().match(/READY=1/g)?.length, 1);
});

t.test('notifies systemd of the start and end of each reload, including rejected ones', async (t) => {
  const { socket, messages, until } = await notifySocket(t);
  const place = layOut(t, { env: { NOTIFY_SOCKET: socket } });
  const daemon = await launchApi(t, place, ['serve']);
  const ready = `READY=1\nSTATUS=answering at ${daemon.url}\nBARRIER=1\n`;
  await until(/READY=1[^]*BARRIER/);
  t.equal(messages(), ready);
  let [expected, times] = [ready, 1];
  for (const yaml of [readFileSync(place.config, 'utf8'), 'pipelines: no list']) {
    const before = process.hrtime.bigint() / 1000n;
    writeFileSync(place.config, yaml);
    daemon.child.kill('SIGHUP');
    const received = messages().length;
    times += 1;
    await until(new RegExp(`(READY=1[^]*?BARRIER=1\\n){${times}}$`));
    const at = BigInt(/MONOTONIC_USEC=(\d+)/.exec(messages().slice(received))?.[1] ?? 0);
    t.ok(at >= before && at <= process.hrtime.bigint() / 1000n, "in systemd's clock");
    expected += `RELOADING=1\nMONOTONIC_USEC=${at}\nSTATUS=reloading the configuration\nBARRIER=1\n${ready}`;
    t.equal(messages(), expected);
  }
  t.equal(await daemon.kill('SIGTERM'), 0);
});

t.test('does not notify systemd of a reload that ends during shutdown', async (t) => {
  const { socket, messages, until } = await notifySocket(t);
  const env = { NOTIFY_SOCKET: socket, PATH: process.env['PATH'] };
  const manager = serviceManager({ env, pid: process.pid, clock: manualClock(), log: silentLog });
  manager.reloading();
  manager.reloaded();
  manager.ready('working');
  manager.reloading();
  manager.stopping('finishing');
  manager.reloaded();
  await manager.close();
  // The socket preserves the order, so all messages sent before this one have been printed.
  await promisify(execFile)('systemd-notify', ['STATUS=end'], { env });
  await until(/STATUS=end\n/);
  t.match(
    messages(),
    /^READY=1\nSTATUS=working\nBARRIER=1\nRELOADING=1\n.*\n.*\nBARRIER=1\nSTOPPING=1\nSTATUS=finishing\nBARRIER=1\nSTATUS=end\n/,
  );
});

t.test('logs an unreachable systemd socket once and continues', async (t) => {
  const env = { NOTIFY_SOCKET: '/nowhere', WATCHDOG_USEC: '1000', PATH: t.testdir() };
  const { child, ended, until } = start(t, 'setInterval(() => {}, 10);', t.testdir(), env);
  await until(/cannot notify systemd/);
  child.kill('SIGTERM');
  t.same(await ended, [0, null]);
  t.equal((await until(/./)).filter((line) => line.includes('cannot notify systemd')).length, 1);
});

t.test('ignores a watchdog for another process', async (t) => {
  const clock = manualClock();
  const warnings: string[] = [];
  const log = { ...silentLog, warn: (_fields: object, message: string) => void warnings.push(message) };
  let timers = 0;
  const counting = {
    ...clock,
    every: (...args: Parameters<typeof clock.every>) => ((timers += 1), clock.every(...args)),
  };
  for (const env of [
    { NOTIFY_SOCKET: '/nowhere', WATCHDOG_USEC: '1000000', WATCHDOG_PID: '1' },
    { NOTIFY_SOCKET: '/nowhere' },
    { WATCHDOG_USEC: '1000000' },
  ]) {
    const manager = serviceManager({ env: { ...env, PATH: '/nowhere' }, pid: 4711, clock: counting, log });
    manager.ready('working');
    await manager.close();
  }
  t.equal(timers, 0);
  const env = { NOTIFY_SOCKET: '/nowhere', WATCHDOG_USEC: '1000000', WATCHDOG_PID: '4711', PATH: '/nowhere' };
  const manager = serviceManager({ env, pid: 4711, clock: counting, log });
  manager.ready('working');
  await manager.close();
  t.equal(timers, 1);
  t.equal(warnings.length, 3, 'once by each process with a systemd socket');
});
