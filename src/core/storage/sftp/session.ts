import { randomUUID } from 'node:crypto';
import net from 'node:net';
import type { SFTPWrapper } from 'ssh2';
import SftpClient from 'ssh2-sftp-client';
import type { Clock, Timer } from '../../lib/clock.ts';
import { WaybillError } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import { onAbort } from '../../lib/on-abort.ts';
import { createSemaphore, type Semaphore } from '../../lib/parallel.ts';
import type { Secrets } from '../../lib/secrets.ts';
import { authMethods, type HostKeyCheck, hostKeyCheck } from './login.ts';
import { connectFailure, DisconnectError, isSessionEnded, isUnsupported, reasonOf } from './sftp-errors.ts';
import type { SftpLocation } from './sftp-location.ts';
import { Watchdog } from './watchdog.ts';

interface SftpSessionOptions {
  location: SftpLocation;
  label: string;
  secrets: Secrets;
  log: Log;
  clock: Clock;
  /** Whether to add new host keys to the known hosts file. */
  remember: boolean;
  /**
   * The host key of an earlier connection. If it is set, no other key is accepted. If not, the policy
   * decides.
   */
  expectedHostKey?: Buffer;
  /** Cancels the attempt to connect. */
  signal?: AbortSignal;
  /** The timeout for responses, in milliseconds. Only set in tests. */
  answerWithinMs?: number | undefined;
}

/** Sends a request to the server, and calls `done` with the response. */
export type Send<T> = (sftp: SFTPWrapper, done: (error?: Error | null, value?: T) => void) => void;

const defaultAnswerTimeoutMs = 60_000;
/** The timeout for connecting and logging in, and the one for starting SFTP after that. */
const connectTimeoutMs = 30_000;
const endTimeoutMs = 5_000;
/** The first one is by far the fastest on processors with AES instructions. */
const ciphers = [
  'aes128-gcm@openssh.com',
  'aes256-gcm@openssh.com',
  'aes128-ctr',
  'aes192-ctr',
  'aes256-ctr',
];

/**
 * Connects and logs in. Throws `storage_denied` if the login or the host key was rejected,
 * `storage_permanent` if the host is unknown or does not offer SFTP, and `storage_transient` if it is
 * unreachable. All of these have a hint.
 */
export async function openSession(options: SftpSessionOptions): Promise<SftpSession> {
  const { location, label, clock, signal, answerWithinMs = defaultAnswerTimeoutMs } = options;
  const auth = await authMethods(location, options);
  let session: SftpSession;
  try {
    const hostKeys = await hostKeyCheck(location, options);
    signal?.throwIfAborted();
    const client = new SftpClient(`waybill-${randomUUID()}`, { error: quiet, end: quiet, close: quiet });
    const socket = net.connect({ host: location.host, port: location.port, noDelay: true });
    session = new SftpSession(client, socket, location.maxRequests, clock, answerWithinMs);
    const release = signal && onAbort(signal, () => socket.destroy());
    const verifier = hostVerifier(hostKeys, options);
    try {
      await session.connect({
        sock: socket,
        username: location.user,
        authHandler: auth.methods,
        // This always has to be set. Without it, any key would be accepted. The result must be passed to the
        // callback, since returning a promise would count as acceptance, too.
        hostVerifier: verifier.verify,
        algorithms: { serverHostKey: hostKeys.algorithms as never, cipher: ciphers as never },
        // The timeout is up to `connectWithin`, which also covers the time it takes to start SFTP.
        readyTimeout: 0,
        keepaliveInterval: 15_000,
        keepaliveCountMax: 4,
      });
      session.hostKey = verifier.hostKey();
    } catch (error) {
      throw verifier.refusal() ?? connectFailure(label, error);
    } finally {
      release?.();
    }
  } finally {
    auth.release();
  }
  try {
    await session.probe();
    return session;
  } catch (error) {
    await session.close();
    throw connectFailure(label, error);
  }
}

/** Checks the server's host key and remembers the result. */
function hostVerifier(
  hostKeys: HostKeyCheck,
  { label, expectedHostKey }: SftpSessionOptions,
): {
  verify: (key: Buffer, done: (valid: boolean) => void) => void;
  hostKey: () => Buffer;
  refusal: () => WaybillError | undefined;
} {
  let hostKey: Buffer = Buffer.alloc(0);
  let refusal: WaybillError | undefined;
  const judge = async (key: Buffer): Promise<void> => {
    if (expectedHostKey === undefined) await hostKeys.accept(key);
    else if (!key.equals(expectedHostKey))
      throw new WaybillError('storage_denied', `${label}: another connection shows another host key`);
  };
  return {
    verify(key, done) {
      judge(key).then(
        () => {
          hostKey = key;
          done(true);
        },
        (error: unknown) => {
          refusal = connectFailure(label, error);
          done(false);
        },
      );
    },
    hostKey: () => hostKey,
    refusal: () => refusal,
  };
}

/** A connection with up to `maxRequests` requests in flight. The server handles them in order. */
export class SftpSession {
  /** The absolute path of the user's home directory. */
  home = '';
  /** Whether renaming replaces the target in a single step. */
  replaces = false;
  /** The duration of the fastest of the first few requests, in milliseconds. */
  roundTripMs = 0;
  hostKey: Buffer = Buffer.alloc(0);
  readonly #client: SftpClient;
  readonly #socket: net.Socket;
  readonly #slots: Semaphore;
  readonly #clock: Clock;
  readonly #watchdog: Watchdog;
  readonly #pending = new Set<(error: Error) => void>();
  #sftp: SFTPWrapper | undefined;
  #isClosed = false;

  constructor(
    client: SftpClient,
    socket: net.Socket,
    maxRequests: number,
    clock: Clock,
    answerTimeoutMs: number,
  ) {
    this.#client = client;
    this.#socket = socket;
    this.#slots = createSemaphore(maxRequests);
    this.#clock = clock;
    this.#watchdog = new Watchdog(clock, answerTimeoutMs, socket, () =>
      this.#abandon(`the server did not answer within ${answerTimeoutMs / 1000} s`),
    );
    client.on('error', (error: Error) => this.#lose(`the connection broke: ${reasonOf(error)}`));
    client.on('end', () => this.#lose('the server ended the connection'));
    client.on('close', () => this.#lose('the connection was closed'));
  }

  /** Connects, logs in, and starts SFTP. If it takes too long, the error says which step it was. */
  async connect(config: SftpClient.ConnectOptions): Promise<void> {
    let step = 'connecting';
    let timer: Timer | undefined;
    const tooLate = new Promise<never>((_, reject) => {
      const begin = (next: string): void => {
        step = next;
        timer?.cancel();
        timer = this.#clock.timeout(connectTimeoutMs, () =>
          reject(new DisconnectError(`no answer within ${connectTimeoutMs / 1000} s while ${step}`)),
        );
      };
      begin(step);
      this.#socket.once('connect', () => (step = 'exchanging keys'));
      this.#client.on('handshake', () => (step = 'logging in'));
      this.#client.on('ready', () => begin('starting SFTP'));
    });
    try {
      const sftp = await Promise.race([this.#client.connect(config), tooLate]);
      sftp.on('error', (error: Error) =>
        this.#abandon(`the server broke the SFTP protocol: ${error.message}`),
      );
      sftp.on('close', () => this.#abandon('the server ended the SFTP session'));
      this.#sftp = sftp;
    } catch (error) {
      await this.#end();
      throw error;
    } finally {
      timer?.cancel();
    }
  }

  /** Asks the server for the home directory, and what it supports. */
  async probe(): Promise<void> {
    const started = this.#clock.monotonic();
    this.home = await this.ask<string>((sftp, done) => sftp.realpath('.', done));
    const answered = this.#clock.monotonic();
    this.replaces = await this.#knowsReplacingRename();
    this.roundTripMs = Math.min(answered - started, this.#clock.monotonic() - answered);
  }

  /**
   * Tries to rename a file that does not exist, so nothing happens. If the server supports the request, it
   * answers that the file is missing.
   */
  async #knowsReplacingRename(): Promise<boolean> {
    const name = `.publisher-probe-${randomUUID()}`;
    try {
      await this.ask((sftp, done) => sftp.ext_openssh_rename(name, `${name}-2`, done));
      return true;
    } catch (error) {
      if (error instanceof DisconnectError) throw error;
      return !isUnsupported(error);
    }
  }

  /** Returns true if the connection has been lost or closed. Sessions are never reopened. */
  isClosed(): boolean {
    return this.#isClosed;
  }

  /**
   * Sends a request. Throws the server's error response (whose `code` is a number), `DisconnectError`, or
   * the error of `send` if the server does not support the request. If there is no response in time, the
   * connection is dropped.
   */
  async ask<T>(send: Send<T>): Promise<T> {
    const release = await this.#slots.acquire(1);
    let forget = quiet;
    try {
      return await new Promise<T>((resolve, reject) => {
        if (this.#isClosed || this.#sftp === undefined) throw new DisconnectError('the connection was lost');
        this.#pending.add(reject);
        forget = () => void this.#pending.delete(reject);
        this.#watchdog.watch();
        // Send requests that are made at the same time together. Each consists of several packets, and every
        // packet would be a system call of its own.
        if (this.#socket.writableCorked === 0) {
          this.#socket.cork();
          process.nextTick(() => this.#socket.uncork());
        }
        send(this.#sftp, (error, value) => {
          this.#watchdog.progressed();
          if (isSessionEnded(error)) reject(new DisconnectError('the server ended the SFTP session'));
          else if (error instanceof Error) reject(error);
          else resolve(value as T);
        });
      });
    } finally {
      forget();
      if (this.#pending.size === 0) this.#watchdog.rest();
      release();
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#watchdog.rest();
    await this.#end();
  }

  #lose(why: string): void {
    this.#isClosed = true;
    for (const reject of this.#pending) reject(new DisconnectError(why));
    this.#pending.clear();
  }

  #abandon(why: string): void {
    this.#lose(why);
    void this.#end();
  }

  /**
   * Closes the connection, and gives the server a moment to do the same. Then destroys the socket, which ssh2
   * leaves open if SFTP was never started.
   */
  async #end(): Promise<void> {
    let timer: Timer | undefined;
    const tooLate = new Promise<void>((resolve) => {
      timer = this.#clock.timeout(endTimeoutMs, resolve);
    });
    await Promise.race([this.#client.end().then(quiet, quiet), tooLate]);
    timer?.cancel();
    this.#socket.destroy();
  }
}

function quiet(): void {
  // If a request fails, it reports the problem. If there are no more requests, it does not matter.
}
