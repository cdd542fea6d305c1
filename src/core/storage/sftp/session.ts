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
import { connectFailure, ConnectionLost, isUnanswered, isUnsupported } from './errors.ts';
import type { SftpLocation } from './location.ts';
import { authMethods, type HostKeyCheck, hostKeyCheck } from './login.ts';
import { Watchdog } from './watchdog.ts';

export interface SessionOptions {
  location: SftpLocation;
  label: string;
  secrets: Secrets;
  log: Log;
  clock: Clock;
  /** Whether new host keys are added to the known hosts file. */
  remember: boolean;
  /** The only accepted host key, from an earlier connection. If it is absent, the policy decides. */
  expectedHostKey?: Buffer;
  /** Cancels an attempt to connect. */
  signal?: AbortSignal;
  /** Time limit for a response, in milliseconds. Set in tests only. */
  answerWithinMs?: number | undefined;
}

/** Sends one request to the server. `done` receives the response. */
export type Send<T> = (sftp: SFTPWrapper, done: (error?: Error | null, value?: T) => void) => void;

const defaultAnswerTimeoutMs = 60_000;
/** Time limit for connecting and logging in, and again for starting SFTP. */
const connectTimeoutMs = 30_000;
const endTimeoutMs = 5_000;
/** The first cipher is by far the fastest on processors with AES instructions. */
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
        // Always installed, because without it any key is accepted. It responds through the callback, because
        // a returned promise counts as acceptance.
        hostVerifier: verifier.verify,
        algorithms: { serverHostKey: hostKeys.algorithms as never, cipher: ciphers as never },
        // `connectWithin` sets the time limit, which also covers the start of SFTP.
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

/** Checks the key that the server presents, and keeps the result. */
function hostVerifier(
  hostKeys: HostKeyCheck,
  { label, expectedHostKey }: SessionOptions,
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

/** One connection with up to `maxRequests` requests in flight, which the server processes in order. */
export class SftpSession {
  /** The absolute path of the user's home directory. */
  home = '';
  /** Whether a rename replaces its target in one step. */
  replaces = false;
  /** The duration of the fastest of the initial requests, in milliseconds. */
  roundTripMs = 0;
  /** The key that the server presented. */
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
    client.on('error', (error: Error) => this.#lose(`the connection broke: ${error.message}`));
    client.on('end', () => this.#lose('the server ended the connection'));
    client.on('close', () => this.#lose('the connection was closed'));
  }

  /** Connects, logs in and starts SFTP. If that takes too long, the error names the step. */
  async connect(config: SftpClient.ConnectOptions): Promise<void> {
    let step = 'connecting';
    let timer: Timer | undefined;
    const tooLate = new Promise<never>((_, reject) => {
      const begin = (next: string): void => {
        step = next;
        timer?.cancel();
        timer = this.#clock.timeout(connectTimeoutMs, () =>
          reject(new ConnectionLost(`no answer within ${connectTimeoutMs / 1000} s while ${step}`)),
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

  /** Requests the home directory and the server's features. */
  async probe(): Promise<void> {
    const started = this.#clock.monotonic();
    this.home = await this.ask<string>((sftp, done) => sftp.realpath('.', done));
    const answered = this.#clock.monotonic();
    this.replaces = await this.#knowsReplacingRename();
    this.roundTripMs = Math.min(answered - started, this.#clock.monotonic() - answered);
  }

  /**
   * Requests a rename of a file that does not exist, which changes nothing. A server that supports the
   * request reports that the file is missing.
   */
  async #knowsReplacingRename(): Promise<boolean> {
    const name = `.publisher-probe-${randomUUID()}`;
    try {
      await this.ask((sftp, done) => sftp.ext_openssh_rename(name, `${name}-2`, done));
      return true;
    } catch (error) {
      if (error instanceof ConnectionLost) throw error;
      return !isUnsupported(error);
    }
  }

  /** Returns true if the connection has been lost or closed. A closed session stays closed. */
  isClosed(): boolean {
    return this.#isClosed;
  }

  /**
   * Sends one request. Throws the server's error response (its `code` is a number), `ConnectionLost`, or the
   * error of `send` if the server does not support the request. Drops the connection if no response arrives
   * in time.
   */
  async ask<T>(send: Send<T>): Promise<T> {
    const release = await this.#slots.acquire(1);
    let forget = quiet;
    try {
      return await new Promise<T>((resolve, reject) => {
        if (this.#isClosed || this.#sftp === undefined) throw new ConnectionLost('the connection was lost');
        this.#pending.add(reject);
        forget = () => void this.#pending.delete(reject);
        this.#watchdog.watch();
        // Send concurrent requests together. Each consists of several packets, which would otherwise take one
        // system call each.
        if (this.#socket.writableCorked === 0) {
          this.#socket.cork();
          process.nextTick(() => this.#socket.uncork());
        }
        send(this.#sftp, (error, value) => {
          this.#watchdog.progressed();
          if (isUnanswered(error)) reject(new ConnectionLost('the server ended the SFTP session'));
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
    for (const reject of this.#pending) reject(new ConnectionLost(why));
    this.#pending.clear();
  }

  #abandon(why: string): void {
    this.#lose(why);
    void this.#end();
  }

  /**
   * Ends the connection, waits briefly for the server to do the same, and destroys the socket, which ssh2
   * leaves open if SFTP did not start.
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
  // The request that fails reports the problem. After the last request, it does not matter.
}
