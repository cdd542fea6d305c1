import { type ChildProcess, fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Answer, Run } from './worker.ts';

/** A new process frees the memory of modules that were loaded repeatedly. */
const runsOfProcess = 200;
const lookEveryMs = 250;
/** Limits a run that gets no processor time to this multiple of its timeout. */
const maxStarved = 20;

/** One process that runs tests. A new one replaces it after a run was stopped or left something behind. */
export class Runner {
  readonly #script: string;
  #process: ChildProcess | undefined;
  #runs = 0;

  constructor(script: string) {
    this.#script = script;
  }

  /** Whether the next run starts in a new process. */
  get isNew(): boolean {
    return this.#process === undefined || this.#runs === 0;
  }

  /**
   * Returns `undefined` if the run exceeded `timeoutMs` or crashed its process. Time spent waiting for a
   * processor is not counted.
   */
  async run(run: Run, timeoutMs: number): Promise<Answer | undefined> {
    if (this.#process?.connected !== true) this.close();
    const running = (this.#process ??= this.#start());
    this.#runs += 1;
    let timer: NodeJS.Timeout | undefined;
    const answer = await new Promise<Answer | undefined>((resolve) => {
      const begun = performance.now();
      const starvedBefore = starvedMs(running);
      timer = setInterval(() => {
        const ms = performance.now() - begun;
        const isOver = ms - (starvedMs(running) - starvedBefore) > timeoutMs;
        if (isOver || ms > maxStarved * timeoutMs) resolve(undefined);
      }, lookEveryMs);
      running.on('message', (message) => {
        // tap also uses this channel.
        if (isAnswer(message)) resolve(message);
      });
      running.once('exit', () => resolve(undefined));
      running.send(run, () => undefined);
    });
    clearInterval(timer);
    running.removeAllListeners();
    if (answer?.isQuiet !== true || this.#runs >= runsOfProcess) this.close();
    return answer;
  }

  close(): void {
    this.#process?.kill('SIGKILL');
    this.#process = undefined;
  }

  #start(): ChildProcess {
    this.#runs = 0;
    // Walks draw the same sample each time.
    return fork(this.#script, {
      stdio: 'ignore',
      env: { ...process.env, TAP_TIMEOUT: '600', WAYBILL_TEST_SEED: '20261120', WAYBILL_TEST_BUDGET: '0' },
      execArgv: [],
    });
  }
}

/**
 * How long a process was ready but not scheduled, in milliseconds so far. 0 if the system does not report it.
 */
function starvedMs({ pid }: ChildProcess): number {
  try {
    const [, waitedNs = '0'] = readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ');
    return Number(waitedNs) / 1e6;
  } catch {
    return 0;
  }
}

function isAnswer(message: unknown): message is Answer {
  return typeof message === 'object' && message !== null && 'isQuiet' in message;
}
