import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Clock, Timer } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';

/**
 * Notifies systemd about the state of this process. Does nothing if the process was not started by systemd.
 */
interface ServiceManager {
  /**
   * Reports that startup is complete. From then on, watchdog notifications are sent at the interval that
   * systemd has set.
   */
  ready(status: string): void;
  /** Reports that a reload has begun. Ignored before `ready` and after `stopping`. */
  reloading(): void;
  /** Reports that a reload has ended, whether or not it succeeded. */
  reloaded(): void;
  /** Reports that the process is about to stop. */
  stopping(status: string): void;
  /** Stops sending watchdog notifications. Resolves when all notifications have been sent. */
  close(): Promise<void>;
}

interface ServiceManagerOptions {
  env: NodeJS.ProcessEnv;
  pid: number;
  clock: Clock;
  log: Log;
}

/** Longer than systemd-notify itself waits. */
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
 * Implements the protocol described in sd_notify(3), if `NOTIFY_SOCKET` is set. Node.js cannot send datagrams
 * to Unix sockets, so this runs `systemd-notify`, which is part of systemd. The unit needs
 * `NotifyAccess=all`, because notifications are sent by a child process.
 *
 * If a notification cannot be sent, the error is logged the first time and otherwise ignored.
 */
export function serviceManager({ env, pid, clock, log }: ServiceManagerOptions): ServiceManager {
  const { NOTIFY_SOCKET: socket = '', PATH = '/usr/bin:/bin' } = env;
  if (socket === '') return noManager;
  let isFailureLogged = false;
  let sent: Promise<void> = Promise.resolve();
  let isSending = false;
  // Send one notification at a time. If two ran in parallel, the older one could arrive last.
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
  /** The status that was sent with `READY=1`. null before that, and again once the process is stopping. */
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
      // systemd uses the time to distinguish one reload from another.
      const microseconds = process.hrtime.bigint() / 1000n;
      send('RELOADING=1', `MONOTONIC_USEC=${microseconds}`, 'STATUS=reloading the configuration');
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
 * Returns half of the watchdog interval, as recommended in the manual. Returns null if the watchdog is
 * disabled or is for a different process.
 */
function watchdogMs({ WATCHDOG_USEC, WATCHDOG_PID }: NodeJS.ProcessEnv, pid: number): number | null {
  const microseconds = Number(WATCHDOG_USEC);
  const isOurs = WATCHDOG_PID === undefined || Number(WATCHDOG_PID) === pid;
  return isOurs && microseconds > 0 ? Math.max(Math.floor(microseconds / 2000), 1) : null;
}

/** Standard input, output and error come first. */
const firstDescriptor = 3;

/**
 * Returns the file descriptor of the socket that systemd passed to this process, as described in
 * sd_listen_fds(3), or null if there is none. If the environment variables were inherited from a parent and
 * are for a different process, they are ignored. Throws `config_invalid` if there are several sockets,
 * because we do not know which one to use.
 */
export function inheritedSocket(env: NodeJS.ProcessEnv, pid: number): number | null {
  const count = Number(env['LISTEN_FDS']);
  if (Number(env['LISTEN_PID']) !== pid || !(count > 0)) return null;
  if (count === 1) return firstDescriptor;
  throw new WaybillError('config_invalid', `systemd passes ${count} sockets, and waybill listens on one`, {
    hint: 'leave one ListenStream= in the .socket unit, and one .socket unit in Sockets= of the service',
  });
}
