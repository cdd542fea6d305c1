import type { Worker } from 'node:worker_threads';
import { systemClock } from '../../core/lib/clock.ts';
import type { Log } from '../../core/lib/log.ts';
import { exitCodeOf, listenForStop } from './stop-signal.ts';
import { serviceManager } from './systemd.ts';

/** A long-running program's process, from startup to exit. */
export interface DaemonProcess {
  /**
   * Notifies systemd, if it runs this process, that startup is complete. The first SIGINT or SIGTERM closes
   * the daemon and then ends the process, whatever is still open in it. A signal that arrived during startup
   * counts. A second signal ends the process immediately. SIGHUP reloads the configuration. A SIGHUP during
   * startup takes effect now, and one during shutdown is ignored.
   */
  runUntilStopped(daemon: RunningDaemon): Promise<number>;
  /**
   * Called when a reload begins and when it has ended, whatever triggered it. Notifies systemd in both cases.
   */
  onReload(phase: 'begun' | 'ended'): void;
}

export interface RunningDaemon {
  /** The listener's base URL; null or absent if the daemon does not listen. */
  url?: string | null;
  /** Reloads the configuration and logs the outcome. */
  reload(): Promise<unknown>;
  close(): Promise<{ unfinished: string[] }>;
}

// The time for pending log lines and responses.
const exitGraceMs = 1_000;
const threadGraceMs = 2_000;
/**
 * How long startup may continue after a stop request. A server that does not respond would block it for
 * longer.
 */
const startGraceMs = 10_000;

/**
 * Listens for signals immediately, since a worker takes its first job during startup. Ignores SIGUSR2, which
 * other daemons use for other purposes, so that it does not end the process without draining. Call this
 * before starting the first thread.
 */
export function daemonProcess(log: Log): DaemonProcess {
  const hangUps = listenForReload(log);
  const manager = serviceManager({ env: process.env, pid: process.pid, clock: systemClock, log });
  const threads = new Set<Worker>();
  process.on('worker', (thread) => {
    threads.add(thread);
    thread.once('exit', () => threads.delete(thread));
  });
  let isStarting = true;
  const request = listenForStop((signal) => {
    hangUps.ignore();
    log.info({ signal }, 'draining; once more to end at once');
    manager.stopping('finishing what was accepted');
    const giveUp = (): void => {
      if (!isStarting) return;
      log.warn({ signal }, `not started within ${startGraceMs / 1000} s, ended`);
      process.exit(exitCodeOf[signal]);
    };
    if (isStarting) systemClock.timeout(startGraceMs, giveUp, { unref: true });
  });
  return {
    onReload: (phase) => (phase === 'begun' ? manager.reloading() : manager.reloaded()),
    runUntilStopped: async (daemon) => {
      isStarting = false;
      const { url = null } = daemon;
      manager.ready(url === null ? 'working' : `answering at ${url}`);
      hangUps.serve(() => daemon.reload());
      await request.received;
      const { unfinished } = await daemon.close();
      await manager.close();
      if (unfinished.length > 0) log.warn({ unfinished }, 'these runs were interrupted');
      systemClock.timeout(exitGraceMs, () => void exitAnyway(log, threads), { unref: true });
      return 0;
    },
  };
}

/**
 * Handles SIGHUP: an early signal takes effect when `serve` is called. After `ignore`, signals have no
 * effect.
 */
function listenForReload(log: Log): { serve(reload: () => Promise<unknown>): void; ignore(): void } {
  let isWanted = false;
  let handle = (): void => void (isWanted = true);
  process.on('SIGHUP', () => {
    log.info({ signal: 'SIGHUP' }, 'asked to read the configuration again');
    handle();
  });
  process.on('SIGUSR2', () => undefined);
  let isIgnored = false;
  return {
    serve: (reload) => {
      if (isIgnored) return;
      handle = () => void reload().catch(() => undefined);
      if (isWanted) handle();
    },
    ignore: () => {
      isIgnored = true;
      handle = () => undefined;
    },
  };
}

/**
 * Ignores SIGHUP and SIGUSR2 in the weather reader and feeder, which have no threads and read their
 * configuration only once. By default, these signals would end the process in the middle of its work.
 * `onHangUp` logs that nothing was reloaded.
 */
export function outliveOtherSignals(onHangUp: () => void): void {
  process.on('SIGHUP', onHangUp);
  process.on('SIGUSR2', () => undefined);
}

/**
 * `process.exit` waits for every thread. A thread that hangs in a system call (such as on an unresponsive
 * disk) cannot be ended, so only a kill ends the process.
 */
async function exitAnyway(log: Log, threads: ReadonlySet<Worker>): Promise<void> {
  const ends = Promise.all([...threads].map((thread) => thread.terminate()));
  await Promise.race([ends, systemClock.sleep(threadGraceMs)]);
  if (threads.size === 0) process.exit();
  log.error({ threads: threads.size }, 'threads hang in calls of the system; the process is killed');
  process.kill(process.pid, 'SIGKILL');
}
