import type { Worker } from 'node:worker_threads';
import { systemClock } from '../../core/lib/clock.ts';
import type { Log } from '../../core/lib/log.ts';
import { exitCodeOf, listenForStop } from './stop-signal.ts';
import { serviceManager } from './systemd.ts';

/** The process of a long-running program, from its first moment to its exit. */
export interface DaemonProcess {
  /**
   * Notifies systemd, if it runs this process, that startup is complete. The first SIGINT or SIGTERM closes
   * the daemon and then ends the process, whatever is still open in it. A signal that arrived during
   * startup counts. A second signal ends the process immediately. SIGHUP reloads the configuration. A
   * SIGHUP during startup takes effect now, and a SIGHUP during shutdown is ignored.
   */
  runUntilStopped(daemon: RunningDaemon): Promise<number>;
  /** Called when a reload begins and when it has ended, whatever triggered it. Notifies systemd of both. */
  onReload(phase: 'begun' | 'ended'): void;
}

export interface RunningDaemon {
  /** Base URL of the listener; null or absent if the daemon does not listen. */
  url?: string | null;
  /** Reloads the configuration and logs the outcome. */
  reload(): Promise<unknown>;
  close(): Promise<{ unfinished: string[] }>;
}

// Time for pending log lines and answers.
const exitGraceMs = 1_000;
const threadGraceMs = 2_000;
/** How long a start that is to be stopped may go on. A server that does not answer ends no sooner. */
const startGraceMs = 10_000;

/**
 * Listens for signals immediately, since a worker takes its first job during startup. Ignores SIGUSR2,
 * which other daemons use for other purposes, so that it does not end the process without draining. Call it
 * before the first thread starts.
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

/** Handles SIGHUP: an early one takes effect when `serve` is called. After `ignore`, it has no effect. */
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
 * Ignores SIGHUP and SIGUSR2 in a weather reader and a feeder, which have no threads and read their
 * configuration once. By default these signals would end the process in the middle of its work. `onHangUp`
 * logs that nothing was reloaded.
 */
export function outliveOtherSignals(onHangUp: () => void): void {
  process.on('SIGHUP', onHangUp);
  process.on('SIGUSR2', () => undefined);
}

/**
 * `process.exit` waits for every thread. A thread that hangs in a system call (a disk that does not answer)
 * cannot be ended, and only a kill ends the process.
 */
async function exitAnyway(log: Log, threads: ReadonlySet<Worker>): Promise<void> {
  const ends = Promise.all([...threads].map((thread) => thread.terminate()));
  await Promise.race([ends, systemClock.sleep(threadGraceMs)]);
  if (threads.size === 0) process.exit();
  log.error({ threads: threads.size }, 'threads hang in calls of the system; the process is killed');
  process.kill(process.pid, 'SIGKILL');
}
