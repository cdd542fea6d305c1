import type { PipelineConfig } from '../config/config.ts';
import type { CoreContext } from '../context.ts';
import { WaybillError } from '../lib/errors.ts';
import { onAbort } from '../lib/on-abort.ts';
import { formatDuration } from '../lib/settings/units.ts';
import { asAborted } from './publish-request.ts';
import type { Progress } from './results/result.ts';

/*
 * A server that answers slowly, but answers, could prolong a publication without end. The daemon and
 * `waybill run` therefore bound each try of a run, and the core bounds each look at a source.
 */

type Stoppable = Pick<CoreContext, 'clock' | 'signal'>;

/**
 * Runs one try of a run. The signal of `work` aborts with the context's signal, and with the error
 * `run_timeout` at the deadline of the pipeline. `work` must then stop. The error names the step that the
 * progress has reached.
 */
export async function withinRunTimeout<T>(
  context: Stoppable,
  { runTimeoutMs }: Pick<PipelineConfig, 'runTimeoutMs'>,
  onProgress: (progress: Progress) => void,
  work: (signal: AbortSignal, onProgress: (progress: Progress) => void) => Promise<T>,
): Promise<T> {
  const steps = new Steps();
  const late = (): WaybillError =>
    new WaybillError(
      'run_timeout',
      `the run did not end within ${formatDuration(runTimeoutMs)} (run_timeout): it was ${steps.current()}`,
      { hint: 'see whether the servers of the pipeline are slow; raise run_timeout if the run needs longer' },
    );
  return withDeadline(context, { ms: runTimeoutMs, late }, async (signal) =>
    work(signal, (progress) => {
      steps.add(progress);
      onProgress(progress);
    }),
  );
}

/**
 * Looks at the source of a pipeline. Rejects with `discovery_timeout` after the `discovery_timeout` of the
 * pipeline, and with the reason of the context's signal if that aborts first, even while a server is silent.
 */
export async function withinDiscoveryTimeout<T>(
  context: Stoppable,
  { id, discoveryTimeoutMs }: Pick<PipelineConfig, 'id' | 'discoveryTimeoutMs'>,
  look: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = (): WaybillError =>
    new WaybillError(
      'discovery_timeout',
      `the source of pipeline "${id}" was not read within ${formatDuration(discoveryTimeoutMs)} (discovery_timeout)`,
      { hint: 'see whether its server is slow; raise discovery_timeout if the source needs longer' },
    );
  return withDeadline(context, { ms: discoveryTimeoutMs, late }, async (signal) => {
    let release: () => void = () => undefined;
    const aborted = new Promise<never>((_resolve, reject) => {
      release = onAbort(signal, () => reject(asAborted(signal.reason)));
    });
    return Promise.race([look(signal), aborted]).finally(() => release());
  });
}

async function withDeadline<T>(
  { clock, signal }: Stoppable,
  { ms, late }: { ms: number; late: () => WaybillError },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const deadline = new AbortController();
  const timer = clock.timeout(ms, () => deadline.abort(late()));
  try {
    return await work(signal === undefined ? deadline.signal : AbortSignal.any([signal, deadline.signal]));
  } finally {
    timer.cancel();
  }
}

/** The step that a run has reached, from its progress. */
class Steps {
  /** Destinations with a plan that is being carried out: outputs written, and outputs to write. */
  readonly #open = new Map<string, { written: number; outputs: number }>();

  add(progress: Progress): void {
    const { type, destinationId } = progress;
    const counts = this.#open.get(destinationId);
    if (type === 'planned') this.#open.set(destinationId, { written: 0, outputs: progress.outputs });
    else if (type === 'done') this.#open.delete(destinationId);
    else if (type === 'output' && counts !== undefined) counts.written += 1;
  }

  current(): string {
    const open = [...this.#open].map(
      ([id, { written, outputs }]) => `publishing to "${id}" (${written} of ${outputs} outputs)`,
    );
    return open.length === 0 ? 'reading the bundle or comparing a destination' : open.join(' and ');
  }
}
