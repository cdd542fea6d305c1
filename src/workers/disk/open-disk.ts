import { Worker } from 'node:worker_threads';
import type { Clock, Timer } from '../../core/lib/clock.ts';
import { type Disk, type DiskCallName, diskOf } from '../../core/lib/disk.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import { leaveRemovedDirectory } from '../threads/working-directory.ts';
import type { CallResult, DiskRequest, DiskResponse } from './disk-messages.ts';

export interface OpenedDisk {
  disk: Disk;
  /** Throws a `staging_unavailable` error if the disk is not responding. */
  readonly requireAnswers: () => void;
  /** Stops the thread once all calls are done, or after `withinMs` milliseconds at the latest. */
  readonly close: (withinMs: number) => Promise<void>;
}

export interface DiskOptions {
  clock: Clock;
  log: Log;
  /** If a call takes longer than this, in milliseconds, the disk is considered unresponsive. */
  timeoutMs?: number;
  /** Runs a different thread in tests. */
  file?: URL;
}

interface PendingCall extends DiskRequest {
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
}

const defaultTimeoutMs = 10_000;
/** Maximum number of calls to send to the thread in one batch. */
const maxCalls = 64;

/** The module that runs on the thread, either compiled or from source. */
const diskThread = new URL(
  import.meta.url.endsWith('.ts') ? './disk-thread-from-source.mjs' : './disk-thread.js',
  import.meta.url,
);

/**
 * Opens a disk whose calls run on a separate thread. If the disk freezes or its network goes down, only
 * callers that actually need the disk have to wait. Calls are sent in batches, and those that come in during
 * a batch go into the next one.
 *
 * If a call takes longer than `timeoutMs`, all pending calls fail with `staging_unavailable`, and so do new
 * ones until the disk responds again. A call that was already in progress may still complete. Removals are
 * always carried out eventually. While the disk is unresponsive, they resolve immediately. If the thread
 * crashes, it is replaced.
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
  /** The calls that the thread is working on right now. */
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
      // Copy the bytes. Sending a view would transfer its whole buffer, which the caller may want to reuse.
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
    // Do not wait for a thread that is blocked on the disk, since it cannot be terminated.
    const termination = this.#worker?.terminate();
    if (this.#inFlight.length === 0) await termination;
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
    leaveRemovedDirectory(log);
    const worker = new Worker(file);
    worker.on('message', (answer: DiskResponse) => this.#onAnswer(answer));
    worker.on('error', (error) => {
      log.error({ err: error }, 'the thread of the staging disk crashed');
      if (this.#worker !== worker) return;
      this.#worker = null;
      // The next call finds out whether the disk answers.
      this.#isUnresponsive = false;
      const cause = error instanceof Error ? error : new Error(String(error));
      this.#settle(this.#inFlight.splice(0).map((call) => () => call.reject(cause)));
    });
    return worker;
  }

  #onAnswer(answer: DiskResponse): void {
    const { log } = this.#options;
    if (this.#isUnresponsive) log.info({}, 'the staging disk answers again');
    this.#isUnresponsive = false;
    const answered = this.#inFlight.splice(0, answer.length);
    this.#settle(answered.map((call, index) => () => settle(call, answer[index])));
  }

  /** Completes finished calls and sends the next batch. */
  #settle(callbacks: readonly (() => void)[]): void {
    const { clock, timeoutMs = defaultTimeoutMs } = this.#options;
    this.#timeout?.cancel();
    if (this.#inFlight.length > 0)
      this.#timeout = clock.timeout(timeoutMs, () => this.#failAll(), { unref: true });
    else if (this.#waiting.length > 0) this.#send();
    else {
      this.#worker?.unref();
      this.#onIdle();
    }
    for (const end of callbacks) end();
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

  /** Resolves a call right away, without a result. */
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
 * Reports whether a call still runs after its caller timed out. True for calls that only remove files, since
 * their results are not needed.
 */
function isTidying(name: DiskCallName): boolean {
  return name === 'remove' || name === 'removeWithEmptyParent' || name === 'closeFile';
}

function settle({ resolve, reject }: PendingCall, outcome: CallResult | undefined): void {
  if (outcome?.error === undefined) resolve(outcome?.value);
  else reject(Object.assign(new Error(outcome.error.message), outcome.error));
}
