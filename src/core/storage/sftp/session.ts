import { randomUUID } from 'node:crypto';
import net from 'node:net';
import type { SFTPWrapper } from 'ssh2';
import SftpClient from 'ssh2-sftp-client';
import type { SftpLocation } from './location.ts';
import type { Secrets } from '../../secrets.ts';
import { WaybillError } from '../../errors.ts';
import type { Log } from '../../log.ts';
import { createSemaphore } from '../../semaphore.ts';
import { answerOf, ConnectionLost, connectFailure } from './errors.ts';
import { hostKeyCheck } from './host-key.ts';
import { identities } from './auth-methods.ts';

/**
 * One connection. Its requests are answered in the order of asking, and any number may be under way up to
 * `maxRequests`.
 */
export interface SftpSession {
  /** True as soon as the connection is gone; a closed session stays closed. */
  isClosed(): boolean;
  /** The directory that a login begins in, absolute. */
  readonly home: string;
  /** Whether a rename replaces what has the new name, in one step. */
  readonly replaces: boolean;
  /**
   * One request. Rejects with the server's answer (its `code` is a number), with `ConnectionLost`, or, where
   * the server knows no such request, with whatever `send` throws. Where no answer comes within the deadline
   * the connection is given up.
   */
  ask<T>(send: (sftp: SFTPWrapper, done: (error?: Error | null, value?: T) => void) => void): Promise<T>;
  close(): Promise<void>;
}

export interface SessionOptions {
  location: SftpLocation;
  label: string;
  secrets: Secrets;
  log: Log;
  /** Write new host keys down. */
  remember: boolean;
  /** Milliseconds that a server may take to answer; only tests pass their own. */
  answerWithinMs?: number;
}

const defaultAnswerMs = 60_000;
const connectWithinMs = 30_000;
const endWithinMs = 5_000;
/** With hardware help the first is by far the quickest. */
const ciphers = [
  'aes128-gcm@openssh.com',
  'aes256-gcm@openssh.com',
  'aes128-ctr',
  'aes192-ctr',
  'aes256-ctr',
];

/**
 * Connects and logs in. Throws `WaybillError`s that say what is wrong with host, key or identity, and what to
 * do.
 */
export async function openSession(options: SessionOptions): Promise<SftpSession> {
  const { location, label, answerWithinMs = defaultAnswerMs } = options;
  const authHandler = await identities(location, options);
  const hostKey = await hostKeyCheck(location, options);
  let refusal: WaybillError | undefined;
  const client = new SftpClient(`waybill-${randomUUID()}`, { error: quiet, end: quiet, close: quiet });
  const pending = new Set<(error: Error) => void>();
  let isClosed = false;
  const lose = (why: string): void => {
    isClosed = true;
    for (const reject of pending) reject(new ConnectionLost(why));
    pending.clear();
  };
  client.on('error', (error: Error) => lose(`the connection broke: ${error.message}`));
  client.on('end', () => lose('the server ended the connection'));
  client.on('close', () => lose('the connection was closed'));

  let sftp: SFTPWrapper;
  const socket = net.connect({ host: location.host, port: location.port, noDelay: true });
  try {
    sftp = await client.connect({
      sock: socket,
      username: location.user,
      authHandler,
      // Always installed, since without one any key would do; and answered by the callback, since a promise
      // counts as a yes.
      hostVerifier: (key: Buffer, verify: (valid: boolean) => void) => {
        hostKey.accept(key).then(
          () => verify(true),
          (error: unknown) => {
            refusal = error instanceof WaybillError ? error : connectFailure(label, error);
            verify(false);
          },
        );
      },
      algorithms: { serverHostKey: hostKey.algorithms as never, cipher: ciphers as never },
      readyTimeout: connectWithinMs,
      keepaliveInterval: 15_000,
      keepaliveCountMax: 4,
    });
  } catch (error) {
    await endOf(client);
    throw refusal ?? connectFailure(label, error);
  }

  const slots = createSemaphore(location.maxRequests);
  const watchdog = watchdogOf(answerWithinMs, socket, () => {
    lose(`the server did not answer within ${answerWithinMs / 1000} s`);
    void endOf(client);
  });
  const session: Omit<SftpSession, 'home' | 'replaces'> = {
    isClosed: () => isClosed,
    async ask<T>(
      send: (sftp: SFTPWrapper, done: (error?: Error | null, value?: T) => void) => void,
    ): Promise<T> {
      const release = await slots.acquire(1);
      let forget = quiet;
      try {
        return await new Promise<T>((resolve, reject) => {
          if (isClosed) throw new ConnectionLost('the connection was lost');
          pending.add(reject);
          forget = () => void pending.delete(reject);
          watchdog.watch();
          // What is asked for in one go leaves in one go: a request has several packets, and each would be a
          // system call.
          if (socket.writableCorked === 0) {
            socket.cork();
            process.nextTick(() => socket.uncork());
          }
          send(sftp, (error, value) => {
            watchdog.progressed();
            if (error instanceof Error) reject(error);
            else resolve(value as T);
          });
        });
      } finally {
        forget();
        if (pending.size === 0) watchdog.rest();
        release();
      }
    },
    async close() {
      isClosed = true;
      watchdog.rest();
      await endOf(client);
    },
  };
  try {
    const home = await session.ask<string>((sftp, done) => sftp.realpath('.', done));
    return { ...session, home, replaces: await knowsReplacingRename(session) };
  } catch (error) {
    await session.close();
    throw connectFailure(label, error);
  }
}

/**
 * Gives a connection up on which nothing moves: no answer came and no byte went out for so long. One clock
 * for all requests, since on a slow line each of them waits for those before it.
 */
function watchdogOf(
  withinMs: number,
  socket: net.Socket,
  giveUp: () => void,
): { watch(): void; progressed(): void; rest(): void } {
  let timer: NodeJS.Timeout | undefined;
  let sent = 0;
  const rest = (): void => {
    clearTimeout(timer);
    timer = undefined;
  };
  const watch = (): void => {
    timer ??= setTimeout(() => {
      timer = undefined;
      const moved = socket.bytesWritten - socket.writableLength;
      if (moved === sent) giveUp();
      else {
        sent = moved;
        watch();
      }
    }, withinMs);
  };
  const progressed = (): void => {
    timer?.refresh();
  };
  return { watch, progressed, rest };
}

/**
 * Asked with names that are not there, so that nothing is moved: a server that knows the request says so by
 * missing them.
 */
async function knowsReplacingRename(session: Pick<SftpSession, 'ask'>): Promise<boolean> {
  const name = `.publisher-probe-${randomUUID()}`;
  try {
    await session.ask((sftp, done) => sftp.ext_openssh_rename(name, `${name}-2`, done));
    return true;
  } catch (error) {
    if (error instanceof ConnectionLost) throw error;
    const answer = answerOf(error);
    return answer !== null && answer !== 8;
  }
}

/** Ends the connection, however long that would take. */
async function endOf(client: SftpClient): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, endWithinMs);
  });
  await Promise.race([client.end().then(quiet, quiet), late]);
  clearTimeout(timer);
}

function quiet(): void {
  // What these would tell is told by the request that fails, or by nobody where all is over.
}
