import type { ServerResponse } from 'node:http';
import { WaybillError } from '../../../core/lib/errors.ts';

/**
 * Carries out what only this client waits for: `work` is told to stop when it leaves, or when the daemon
 * stops. Throws `aborted` or the reason of `stopping` then, and what `work` throws.
 */
export async function untilLeft<T>(
  res: ServerResponse,
  stopping: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const gone = new AbortController();
  const leave = (): void => gone.abort(new WaybillError('aborted', 'the client left before it was answered'));
  res.once('close', leave);
  if (res.destroyed) leave();
  const signal = AbortSignal.any([gone.signal, stopping]);
  try {
    const result = await work(signal);
    signal.throwIfAborted();
    return result;
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  } finally {
    res.off('close', leave);
  }
}
