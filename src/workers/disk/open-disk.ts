import { Worker } from 'node:worker_threads';
import type { Clock, Timer } from '../../core/lib/clock.ts';
import { type Disk, type DiskCallName, diskOf } from '../../core/lib/disk.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { Answer, DiskRequest, Outcome } from './disk-messages.ts';

export interface OpenedDisk {
  disk: Disk;
  /** Throws `staging_unavailable` while the disk is not responding. */
  readonly requireAnswers: () => void;
  /** Ends the thread after all calls are complete, or after `withinMs` milliseconds. */
  readonly close: (withinMs: number) => Promise<void>;
}

export interface DiskOptions {
  clock: Clock;
  log: Log;
  /** How long one call may take before the disk counts as unresponsive, in milliseconds. */
  timeoutMs?: number;
  /** Replaces the thread in tests. */
  file?: URL;
}

interface PendingCall extends DiskRequest {
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
}

const defaultTimeoutMs = 10_000;
/** Maximum number of calls that the thread handles at a time. */
const maxCalls = 64;

/** The thread's module in this folder, compiled or from source. */
const diskThread = new URL(
  import.meta.url.endsWith('.ts') ? './disk-thread-from-source.mjs' : './disk-thread.js',
  import.meta.url,
);

/**
 * Opens a disk whose calls run on a thread. An unresponsive disk (frozen, or on an unreachable network)
 * therefore blocks only callers that need it. Several calls run at a time, and later ones form the next
 * batch.
 *
 * If a call takes longer than `timeoutMs`, all waiting calls are refused with `staging_unavailable`. New ones
 * are refused until the disk responds again. Calls in progress may still take effect. Removals always take
 * effect, and resolve immediately while the disk is unresponsive. A broken thread is replaced.
 */
export function openDisk(options: DiskOptions): OpenedDisk {
  const thread = new DiskThread(options);
  return {
    disk: diskOf((name, args) => thread.ask(name, args)),
    requireAnswers: () => thread.requireAnswers(),
    close: (withinMs) => thread.close(withinMs),
  };
}

class DiskThread {
  readonly #options: DiskOptions;
  #worker: Worker | null = null;
  /** Calls that the thread is currently processing. */
  #inFlight: PendingCall[] = [];
  #waiting: PendingCall[] = [];
  #timeout: Timer | null = null;
  #isUnresponsive = false;
  #isClosed = false;
  #onIdle: () => void = () => undefined;

  constructor(options: DiskOptions) {
    this.#options = options;
  }

  ask(name: DiskCallName, args: readonly unknown[]): Promise<unknown> {
    if (this.#isClosed) return Promise.reject(new Error('the disk was closed'));
    if (this.#isUnresponsive && !isTidying(name)) return Promise.reject(this.#unresponsiveError());
    return new Promise((resolve, reject) => {
      // Copies the bytes. A view would be sent with its whole buffer, and the caller may reuse that buffer.
      const own = args.map((arg) => (arg instanceof Uint8Array ? new Uint8Array(arg) : arg));
      const call: PendingCall = { name, args: own, resolve, reject };
      if (this.#isUnresponsive) this.#release(call);
      this.#waiting.push(call);
      if (this.#inFlight.length === 0) this.#send();
    });
  }

  requireAnswers(): void {
    if (this.#isUnresponsive) throw this.#unresponsiveError();
  }

  async close(withinMs: number): Promise<void> {
    if (this.#isClosed) return;
    if (this.#inFlight.length > 0)
      await new Promise<void>((resolve) => {
        const timer = this.#options.clock.timeout(withinMs, resolve);
        this.#onIdle = () => {
          timer.cancel();
          resolve();
        };
      });
    this.#isClosed = true;
    this.#timeout?.cancel();
    // A thread that is blocked on a disk cannot be ended, so this does not wait for it.
    const ended = this.#worker?.terminate();
    if (this.#inFlight.length === 0) await ended;
  }

  #send(): void {
    const { clock, timeoutMs = defaultTimeoutMs } = this.#options;
    this.#inFlight = this.#waiting.splice(0, maxCalls);
    const worker = (this.#worker ??= this.#start());
    const requests = this.#inFlight.map(({ name, args }): DiskRequest => ({ name, args }));
    const bytes = requests.flatMap(({ args }) => args.filter((arg) => arg instanceof Uint8Array));
    worker.ref();
    worker.postMessage(
      requests,
      bytes.map(({ buffer }) => buffer as ArrayBuffer),
    );
    this.#timeout = clock.timeout(timeoutMs, () => this.#failAll(), { unref: true });
  }

  #start(): Worker {
    const { log, file = diskThread } = this.#options;
    const worker = new Worker(file);
    worker.on('message', (answer: Answer) => this.#onAnswer(answer));
    worker.on('error', (error) => {
      log.error({ err: error }, 'the thread of the staging disk broke');
      if (this.#worker !== worker) return;
      this.#worker = null;
      const cause = error instanceof Error ? error : new Error(String(error));
      this.#settle(this.#inFlight.splice(0).map((call) => () => call.reject(cause)));
    });
    return worker;
  }

  #onAnswer(answer: Answer): void {
    const { log } = this.#options;
    if (this.#isUnresponsive) log.info({}, 'the staging disk answers again');
    this.#isUnresponsive = false;
    const answered = this.#inFlight.splice(0, answer.length);
    this.#settle(answered.map((call, index) => () => settle(call, answer[index])));
  }

  /** Settles completed calls and starts the next ones. */
  #settle(ended: readonly (() => void)[]): void {
    const { clock, timeoutMs = defaultTimeoutMs } = this.#options;
    this.#timeout?.cancel();
    if (this.#inFlight.length > 0)
      this.#timeout = clock.timeout(timeoutMs, () => this.#failAll(), { unref: true });
    else if (this.#waiting.length > 0) this.#send();
    else {
      this.#worker?.unref();
      this.#onIdle();
    }
    for (const end of ended) end();
  }

  #failAll(): void {
    const { log } = this.#options;
    const error = this.#unresponsiveError();
    log.error({ err: error }, 'the staging disk does not answer');
    this.#isUnresponsive = true;
    const refused = [...this.#inFlight, ...this.#waiting];
    this.#waiting = this.#waiting.filter(({ name }) => isTidying(name));
    for (const call of refused) {
      if (!isTidying(call.name)) call.reject(error);
      this.#release(call);
    }
  }

  /** Lets the caller continue without a result. */
  #release(call: PendingCall): void {
    const { log } = this.#options;
    call.resolve(undefined);
    call.resolve = () => undefined;
    call.reject = (error) => {
      if (isTidying(call.name)) log.error({ err: error }, 'staged files could not be removed');
    };
  }

  #unresponsiveError(): WaybillError {
    const { timeoutMs = defaultTimeoutMs } = this.#options;
    return new WaybillError(
      'staging_unavailable',
      `uploads cannot be staged: the disk has not answered for ${timeoutMs / 1000} s`,
      { hint: 'try again later; the log of the daemon has the details' },
    );
  }
}

/**
 * Reports whether a call still takes effect after its caller has given up. This holds if its result is unused
 * and it only removes files.
 */
function isTidying(name: DiskCallName): boolean {
  return name === 'remove' || name === 'endFile';
}

function settle({ resolve, reject }: PendingCall, outcome: Outcome | undefined): void {
  if (outcome?.error === undefined) resolve(outcome?.value);
  else reject(Object.assign(new Error(outcome.error.message), outcome.error));
}
