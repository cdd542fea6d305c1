import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Clock, Timer } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';

/** The service manager that started this process: systemd or none. */
interface ServiceManager {
  /**
   * Reports that startup is complete. From now on, the watchdog is notified at the interval that systemd
   * sets.
   */
  ready(status: string): void;
  /** Reports that a reload has begun. Does nothing before `ready` or after `stopping`. */
  reloading(): void;
  /** Reports that the reload has ended, successfully or not. */
  reloaded(): void;
  /** Reports that the process is about to end. */
  stopping(status: string): void;
  /** Stops the watchdog notifications and resolves when all messages have been sent. */
  close(): Promise<void>;
}

interface ServiceManagerOptions {
  env: NodeJS.ProcessEnv;
  pid: number;
  clock: Clock;
  log: Log;
}

/** Longer than systemd-notify waits for a response. */
const timeoutMs = 10_000;
const run = promisify(execFile);

const noManager: ServiceManager = {
  ready: () => undefined,
  reloading: () => undefined,
  reloaded: () => undefined,
  stopping: () => undefined,
  close: async () => undefined,
};

/**
 * Implements the sd_notify(3) protocol if `NOTIFY_SOCKET` is set; does nothing otherwise. Node.js cannot send
 * datagrams to a Unix socket, so `systemd-notify` sends them; every systemd installation has it. The unit
 * needs `NotifyAccess=all`, since the messages come from a child process.
 *
 * Failing to send a message has no other effect. Only the first failure is logged.
 */
export function serviceManager({ env, pid, clock, log }: ServiceManagerOptions): ServiceManager {
  const { NOTIFY_SOCKET: socket = '', PATH = '/usr/bin:/bin' } = env;
  if (socket === '') return noManager;
  let isFailureLogged = false;
  let sent: Promise<void> = Promise.resolve();
  let isSending = false;
  // Messages are sent in sequence: with two concurrent children, the older state could arrive last.
  const send = (...assignments: string[]): void => {
    sent = sent.then(async () => {
      isSending = true;
      try {
        await run('systemd-notify', assignments, {
          env: { PATH, NOTIFY_SOCKET: socket },
          timeout: timeoutMs,
        });
      } catch (error) {
        if (!isFailureLogged) log.warn({ err: error }, 'cannot notify systemd');
        isFailureLogged = true;
      } finally {
        isSending = false;
      }
    });
  };
  const everyMs = watchdogMs(env, pid);
  let watchdog: Timer | null = null;
  /** The status sent with `READY=1`; null before it is sent and once the process is stopping. */
  let working: string | null = null;
  const turn = (): void => {
    if (!isSending) send('WATCHDOG=1');
  };
  return {
    ready: (status) => {
      working = status;
      send('READY=1', `STATUS=${status}`);
      if (everyMs !== null) watchdog ??= clock.every(everyMs, turn, { unref: true });
    },
    reloading: () => {
      if (working === null) return;
      // systemd distinguishes this reload from the previous one by its monotonic time.
      const microseconds = process.hrtime.bigint() / 1000n;
      send('RELOADING=1', `MONOTONIC_USEC=${microseconds}`, 'STATUS=reading the configuration again');
    },
    reloaded: () => {
      if (working !== null) send('READY=1', `STATUS=${working}`);
    },
    stopping: (status) => {
      working = null;
      send('STOPPING=1', `STATUS=${status}`);
    },
    close: async () => {
      watchdog?.cancel();
      await sent;
    },
  };
}

/**
 * Returns half of systemd's watchdog interval, as its manual recommends. Returns null if the watchdog is off
 * or watches another process.
 */
function watchdogMs({ WATCHDOG_USEC, WATCHDOG_PID }: NodeJS.ProcessEnv, pid: number): number | null {
  const microseconds = Number(WATCHDOG_USEC);
  const isOurs = WATCHDOG_PID === undefined || Number(WATCHDOG_PID) === pid;
  return isOurs && microseconds > 0 ? Math.max(Math.floor(microseconds / 2000), 1) : null;
}

/** The first descriptor that systemd passes on, after standard input, output and error. */
const firstDescriptor = 3;

/**
 * Returns the file descriptor of the socket that systemd has bound for this process, as described in
 * sd_listen_fds(3), or null if there is none. Ignores variables meant for another process, such as those
 * inherited from a parent. Throws `config_invalid` for several sockets, since choosing one would be a guess.
 */
export function inheritedSocket(env: NodeJS.ProcessEnv, pid: number): number | null {
  const count = Number(env['LISTEN_FDS']);
  if (Number(env['LISTEN_PID']) !== pid || !(count > 0)) return null;
  if (count === 1) return firstDescriptor;
  throw new WaybillError('config_invalid', `systemd passes ${count} sockets on; one is what is listened on`, {
    hint: 'leave one ListenStream= in the .socket unit, and one .socket unit in Sockets= of the service',
  });
}
