import { type ChildProcess, fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Answer, Run } from './worker.ts';

/** Loading modules again and again uses up memory, so start a new process after this many runs. */
const runsOfProcess = 200;
const lookEveryMs = 250;
/** A run that gets no processor time may take this many times its timeout. */
const maxStarved = 20;

/**
 * Runs tests in a separate process. The process is replaced if a run had to be stopped or has left something
 * running.
 */
export class Runner {
  readonly #script: string;
  #process: ChildProcess | undefined;
  #runs = 0;

  constructor(script: string) {
    this.#script = script;
  }

  /** True if the next run will be in a new process. */
  get isNew(): boolean {
    return this.#process === undefined || this.#runs === 0;
  }

  /**
   * Runs tests. Returns `undefined` if they took longer than `timeoutMs` or crashed the process. Time spent
   * waiting for a processor does not count.
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
        // Ignore messages from tap.
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
    // Give random walks the same samples every time.
    return fork(this.#script, {
      stdio: 'ignore',
      env: { ...process.env, TAP_TIMEOUT: '600', WAYBILL_TEST_SEED: '20261120', WAYBILL_TEST_BUDGET: '0' },
      execArgv: [],
    });
  }
}

/**
 * Returns how long the process has been waiting for a processor in total, in milliseconds. Returns 0 if the
 * system does not report it.
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
