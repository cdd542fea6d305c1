import { fork, type ChildProcess } from 'node:child_process';
import type { Answer, Run } from './worker.ts';

/** Memory that modules loaded again and again have taken is given back by a new process. */
const runsOfProcess = 200;

/** One process that runs tests, replaced by a new one whenever a run was stopped or left something behind. */
export class Runner {
  readonly #script: string;
  #process: ChildProcess | undefined;
  #runs = 0;

  constructor(script: string) {
    this.#script = script;
  }

  /** Returns `undefined` if the run took longer than `timeoutMs`, or took its process down. */
  async run(run: Run, timeoutMs: number): Promise<Answer | undefined> {
    const running = (this.#process ??= this.#start());
    this.#runs += 1;
    let timer: NodeJS.Timeout | undefined;
    const answer = await new Promise<Answer | undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), timeoutMs);
      running.on('message', (message) => {
        // tap speaks on this channel too.
        if (isAnswer(message)) resolve(message);
      });
      running.once('exit', () => resolve(undefined));
      running.send(run, () => undefined);
    });
    clearTimeout(timer);
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
      env: { ...process.env, CI: 'false', TAP_TIMEOUT: '600', WAYBILL_TEST_SEED: '20261120' },
      execArgv: [],
    });
  }
}

function isAnswer(message: unknown): message is Answer {
  return typeof message === 'object' && message !== null && 'isQuiet' in message;
}
