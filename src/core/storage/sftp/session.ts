import { randomUUID } from 'node:crypto';
import net from 'node:net';
import type { SFTPWrapper } from 'ssh2';
import SftpClient from 'ssh2-sftp-client';
import type { Clock, Timer } from '../../lib/clock.ts';
import type { Secrets } from '../../lib/secrets.ts';
import { WaybillError } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import { onAbort } from '../../lib/on-abort.ts';
import { createSemaphore } from '../../lib/parallel.ts';
import { authMethods } from './auth-methods.ts';
import { ConnectionLost, connectFailure, isUnanswered, isUnsupported } from './errors.ts';
import { hostKeyCheck } from './host-key.ts';
import type { SftpLocation } from './location.ts';
import { watchdogOf } from './watchdog.ts';

/** One connection, with up to `maxRequests` requests in flight, which the server answers in order. */
export interface SftpSession {
  /** Whether the connection has been lost or closed. A closed session stays closed. */
  isClosed(): boolean;
  /** The home directory of the user, absolute. */
  readonly home: string;
  /** Whether a rename replaces its target in one step. */
  readonly replaces: boolean;
  /** How long the server took for the quickest of the first requests, in milliseconds. */
  readonly roundTripMs: number;
  /** The key that the server showed. */
  readonly hostKey: Buffer;
  /**
   * Sends one request. Rejects with the server's answer (its `code` is a number), with `ConnectionLost`, or
   * with whatever `send` throws if the server does not support the request. The connection is dropped if no
   * answer arrives in time.
   */
  ask<T>(send: (sftp: SFTPWrapper, done: (error?: Error | null, value?: T) => void) => void): Promise<T>;
  close(): Promise<void>;
}

export interface SessionOptions {
  location: SftpLocation;
  label: string;
  secrets: Secrets;
  log: Log;
  clock: Clock;
  /** Whether new host keys are added to the known hosts file. */
  remember: boolean;
  /** The only key that the server may show, accepted before; left out: what the policy accepts. */
  expectedHostKey?: Buffer;
  /** Ends what is still being opened. */
  signal?: AbortSignal;
  /** How long a server may take to answer, in milliseconds; only tests pass their own. */
  answerWithinMs?: number;
}

const defaultAnswerMs = 60_000;
/** For the connection and login, and again for the start of SFTP. */
const connectWithinMs = 30_000;
const endWithinMs = 5_000;
/** The first is by far the fastest on processors with AES instructions. */
const ciphers = [
  'aes128-gcm@openssh.com',
  'aes256-gcm@openssh.com',
  'aes128-ctr',
  'aes192-ctr',
  'aes256-ctr',
];

/**
 * Connects and logs in. Throws `storage_denied` (the login or the host key was refused), `storage_permanent`
 * (the host is unknown, or does not offer SFTP) or `storage_transient` (it cannot be reached), with a hint.
 */
export async function openSession(options: SessionOptions): Promise<SftpSession> {
  const { location, label, clock, answerWithinMs = defaultAnswerMs, expectedHostKey } = options;
  const auth = await authMethods(location, options);
  const hostKeys = await hostKeyCheck(location, options).catch((error: unknown) => {
    auth.release();
    throw error;
  });
  let hostKey: Buffer = Buffer.alloc(0);
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
  if (options.signal?.aborted === true) auth.release();
  options.signal?.throwIfAborted();
  const socket = net.connect({ host: location.host, port: location.port, noDelay: true });
  const release = options.signal === undefined ? quiet : onAbort(options.signal, () => socket.destroy());
  try {
    const config: SftpClient.ConnectOptions = {
      sock: socket,
      username: location.user,
      authHandler: auth.methods,
      // Always installed, because without it any key is accepted, and answered through the callback, because
      // a promise counts as acceptance.
      hostVerifier: (key: Buffer, verify: (valid: boolean) => void) => {
        const accepted =
          expectedHostKey === undefined ? hostKeys.accept(key) : requireKey(label, key, expectedHostKey);
        accepted.then(
          () => {
            hostKey = key;
            verify(true);
          },
          (error: unknown) => {
            refusal = error instanceof WaybillError ? error : connectFailure(label, error);
            verify(false);
          },
        );
      },
      algorithms: { serverHostKey: hostKeys.algorithms as never, cipher: ciphers as never },
      // The limit is that of `connectWithin`, which also covers the start of SFTP.
      readyTimeout: 0,
      keepaliveInterval: 15_000,
      keepaliveCountMax: 4,
    };
    sftp = await connectWithin({ client, socket, clock }, config);
  } catch (error) {
    await endOf(client, socket, clock);
    throw refusal ?? connectFailure(label, error);
  } finally {
    release();
    auth.release();
  }
  const abandon = (why: string): void => {
    lose(why);
    void endOf(client, socket, clock);
  };
  sftp.on('error', (error: Error) => abandon(`the server broke the SFTP protocol: ${error.message}`));
  sftp.on('close', () => abandon('the server ended the SFTP session'));

  const slots = createSemaphore(location.maxRequests);
  const watchdog = watchdogOf(clock, answerWithinMs, socket, () =>
    abandon(`the server did not answer within ${answerWithinMs / 1000} s`),
  );
  const session: Omit<SftpSession, 'home' | 'replaces' | 'roundTripMs' | 'hostKey'> = {
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
          // Requests made together are sent together: each consists of several packets, which would otherwise
          // be a system call each.
          if (socket.writableCorked === 0) {
            socket.cork();
            process.nextTick(() => socket.uncork());
          }
          send(sftp, (error, value) => {
            watchdog.progressed();
            if (isUnanswered(error)) reject(new ConnectionLost('the server ended the SFTP session'));
            else if (error instanceof Error) reject(error);
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
      await endOf(client, socket, clock);
    },
  };
  try {
    const since = clock.monotonic();
    const home = await session.ask<string>((sftp, done) => sftp.realpath('.', done));
    const answered = clock.monotonic();
    const replaces = await knowsReplacingRename(session);
    const roundTripMs = Math.min(answered - since, clock.monotonic() - answered);
    return { ...session, home, replaces, roundTripMs, hostKey };
  } catch (error) {
    await session.close();
    throw connectFailure(label, error);
  }
}

/** Rejects with `storage_denied`. */
async function requireKey(label: string, key: Buffer, expected: Buffer): Promise<void> {
  if (!key.equals(expected))
    throw new WaybillError('storage_denied', `${label}: another connection shows another host key`);
}

/**
 * Asks for a rename of a file that does not exist, so that nothing is moved: a server that supports the
 * request answers that the file is missing.
 */
async function knowsReplacingRename(session: Pick<SftpSession, 'ask'>): Promise<boolean> {
  const name = `.publisher-probe-${randomUUID()}`;
  try {
    await session.ask((sftp, done) => sftp.ext_openssh_rename(name, `${name}-2`, done));
    return true;
  } catch (error) {
    if (error instanceof ConnectionLost) throw error;
    return !isUnsupported(error);
  }
}

/** Connects, logs in and starts SFTP. If that takes too long, rejects with an error that names the step. */
async function connectWithin(
  { client, socket, clock }: { client: SftpClient; socket: net.Socket; clock: Clock },
  config: SftpClient.ConnectOptions,
): Promise<SFTPWrapper> {
  let step = 'connecting';
  let timer: Timer | undefined;
  const tooLate = new Promise<never>((_, reject) => {
    const begin = (next: string): void => {
      step = next;
      timer?.cancel();
      timer = clock.timeout(connectWithinMs, () =>
        reject(new ConnectionLost(`no answer within ${connectWithinMs / 1000} s while ${step}`)),
      );
    };
    begin(step);
    socket.once('connect', () => (step = 'exchanging keys'));
    client.on('handshake', () => (step = 'logging in'));
    client.on('ready', () => begin('starting SFTP'));
  });
  try {
    return await Promise.race([client.connect(config), tooLate]);
  } finally {
    timer?.cancel();
  }
}

/**
 * Ends the connection, waits at most `endWithinMs` for the server to do the same, and destroys the socket,
 * which ssh2 leaves open if SFTP did not start.
 */
async function endOf(client: SftpClient, socket: net.Socket, clock: Clock): Promise<void> {
  let timer: Timer | undefined;
  const tooLate = new Promise<void>((resolve) => {
    timer = clock.timeout(endWithinMs, resolve);
  });
  await Promise.race([client.end().then(quiet, quiet), tooLate]);
  timer?.cancel();
  socket.destroy();
}

function quiet(): void {
  // The request that fails reports the problem; after the last request nobody needs to know.
}
