import { type ChildProcess, fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Answer, Run } from './worker.ts';

/** Memory that modules loaded again and again have taken is given back by a new process. */
const runsOfProcess = 200;
const lookEveryMs = 250;
/** On a machine that gives it nothing, a run ends after so many times what it was allowed. */
const maxStarved = 20;

/** One process that runs tests, replaced by a new one whenever a run was stopped or left something behind. */
export class Runner {
  readonly #script: string;
  #process: ChildProcess | undefined;
  #runs = 0;

  constructor(script: string) {
    this.#script = script;
  }

  /** Whether the next run has the process for itself from the start. */
  get isNew(): boolean {
    return this.#process === undefined || this.#runs === 0;
  }

  /**
   * Returns `undefined` if the run took longer than `timeoutMs`, or took its process down. What the process
   * waited for a processor is not counted: on a busy machine it did not have the time.
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
        // tap speaks on this channel too.
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

/** How long a process was ready to run and did not, so far; 0 where the system does not say. */
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
