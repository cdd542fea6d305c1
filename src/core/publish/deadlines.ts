import type { PipelineConfig } from '../config/config.ts';
import type { CoreContext } from '../context.ts';
import { WaybillError } from '../lib/errors.ts';
import { onAbort } from '../lib/on-abort.ts';
import { formatDuration } from '../lib/settings/sizes-and-durations.ts';
import { abortError } from './publish-request.ts';
import type { Progress } from './results/result.ts';

/*
 * Time limits for runs and source scans. A server that is slow but keeps responding could otherwise keep a
 * publication running forever. The daemon and `waybill run` limit each attempt of a run; the core limits each
 * scan of a source.
 */

type DeadlineContext = Pick<CoreContext, 'clock' | 'signal'>;

/**
 * Runs one attempt of a run. `work` must stop when its signal aborts, which happens when the context's signal
 * aborts or, with a `run_timeout` error, at the pipeline's deadline. That error says which step the run was
 * at.
 */
export async function withinRunTimeout<T>(
  context: DeadlineContext,
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
 * Scans a pipeline's source. Throws `discovery_timeout` when the pipeline's `discovery_timeout` is over. If
 * the context's signal aborts first, throws its reason right away, even if a server is not responding.
 */
export async function withinDiscoveryTimeout<T>(
  context: DeadlineContext,
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
      release = onAbort(signal, () => reject(abortError(signal.reason)));
    });
    return Promise.race([look(signal), aborted]).finally(() => release());
  });
}

async function withDeadline<T>(
  { clock, signal }: DeadlineContext,
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

/** Works out which step a run is at from its progress events. */
class Steps {
  /** Destinations that are being written to, with the number of outputs written so far and the total. */
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
