import type { Worker } from 'node:worker_threads';
import { systemClock } from '../../core/lib/clock.ts';
import type { Log } from '../../core/lib/log.ts';
import { exitCodeOf, listenForStop } from './stop-signal.ts';
import { serviceManager } from './systemd.ts';

/** Manages the process of a long-running program: signals, systemd, and how it exits. */
interface DaemonProcess {
  /**
   * Waits for SIGINT or SIGTERM, closes the daemon, and then ends the process, even if something is still
   * open in it. A second signal ends the process immediately. SIGHUP reloads the configuration. Signals
   * during startup take effect now, and SIGHUP is ignored during shutdown. Also notifies systemd that startup
   * is complete, if the process was started by systemd.
   */
  runUntilStopped(daemon: RunningDaemon): Promise<number>;
  /**
   * Notifies systemd that a reload has begun or ended. Call this for every reload, regardless of its cause.
   */
  onReload(phase: 'begun' | 'ended'): void;
}

export interface RunningDaemon {
  /** The URL that the daemon listens on. null or absent if it does not listen. */
  url?: string | null;
  /** Reloads the configuration and logs the result. */
  reload(): Promise<unknown>;
  close(): Promise<{ unfinished: string[] }>;
}

// Extra time for the last log lines and responses.
const exitGraceMs = 1_000;
const threadGraceMs = 2_000;
/**
 * If startup has not finished this long after a stop signal, the process exits anyway. It may be waiting for
 * a server that does not respond.
 */
const startGraceMs = 10_000;

/**
 * Starts to listen for signals. This has to happen early, because a worker takes its first job during
 * startup. SIGUSR2 is ignored: other daemons use it for something else, and by default it would end the
 * process at once. Must be called before the first thread is started.
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
    log.info({ signal }, 'draining; a second signal ends it immediately');
    manager.stopping('finishing accepted runs');
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
      systemClock.timeout(exitGraceMs, () => void forceExit(log, threads), { unref: true });
      return 0;
    },
  };
}

/**
 * Handles SIGHUP. If it arrives before `serve` is called, it takes effect then. After `ignore` is called, it
 * has no effect.
 */
function listenForReload(log: Log): { serve(reload: () => Promise<unknown>): void; ignore(): void } {
  let isWanted = false;
  let handle = (): void => void (isWanted = true);
  process.on('SIGHUP', () => {
    log.info({ signal: 'SIGHUP' }, 'reloading the configuration');
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
 * Ignores SIGHUP and SIGUSR2, which would otherwise end the process in the middle of its work. Used by the
 * weather reader and feeder, which read their configuration only once and have no threads. `onHangUp` logs
 * that nothing was reloaded.
 */
export function ignoreOtherSignals(onHangUp: () => void): void {
  process.on('SIGHUP', onHangUp);
  process.on('SIGUSR2', () => undefined);
}

/**
 * Ends the process even if a thread hangs, for example because a disk does not respond. `process.exit` waits
 * for all threads, so in that case the process can only be killed.
 */
async function forceExit(log: Log, threads: ReadonlySet<Worker>): Promise<void> {
  const ends = Promise.all([...threads].map((thread) => thread.terminate()));
  await Promise.race([ends, systemClock.sleep(threadGraceMs)]);
  if (threads.size === 0) process.exit();
  log.error({ threads: threads.size }, 'threads hang in system calls; the process is killed');
  process.kill(process.pid, 'SIGKILL');
}
