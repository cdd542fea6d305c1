import { WaybillError } from '../core/errors.ts';

export interface StopSignal {
  readonly signal: AbortSignal;
  /** 130 or 143 once a signal came; else null. */
  exitCode(): number | null;
  release(): void;
}

/** The first SIGINT or SIGTERM asks the work to stop and clean up after itself; a second one ends the process at once. */
export function stopSignal(): StopSignal {
  const controller = new AbortController();
  let code: number | null = null;
  const on = (name: 'SIGINT' | 'SIGTERM') => () => {
    const exitCode = name === 'SIGINT' ? 130 : 143;
    if (code !== null) process.exit(exitCode);
    code = exitCode;
    process.stderr.write(`${name}: stopping and cleaning up; once more to end at once\n`);
    controller.abort(new WaybillError('aborted', `stopped by ${name}`, { hint: 'run again to finish' }));
  };
  const handlers = { SIGINT: on('SIGINT'), SIGTERM: on('SIGTERM') };
  process.on('SIGINT', handlers.SIGINT).on('SIGTERM', handlers.SIGTERM);
  return {
    signal: controller.signal,
    exitCode: () => code,
    release: () => void process.off('SIGINT', handlers.SIGINT).off('SIGTERM', handlers.SIGTERM),
  };
}
