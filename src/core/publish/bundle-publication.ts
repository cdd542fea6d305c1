import type { SourceBundle } from '../bundle/source-bundle.ts';
import type { DestinationConfig } from '../config/config.ts';
import { WaybillError, type Finding } from '../lib/errors.ts';
import type { Owner } from '../storage/identity.ts';

/** One bundle and the place that it is published to. */
export interface BundlePublication {
  bundle: SourceBundle;
  owner: Owner;
  destination: DestinationConfig;
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  /**
   * Selects the newest bundle again from the current source. Set if the bundle was selected as the newest of
   * a source, because another run may have published a newer one in the meantime.
   */
  selectAgain?: () => Promise<SourceBundle>;
  /** Called with warnings about a successful publication that the operator should act on. */
  warn?: (warning: Finding) => void;
}

/** Converts the reason of an aborted signal to an `aborted` error. Returns any other error unchanged. */
export function abortedIfStopped(error: unknown, signal: AbortSignal | undefined): unknown {
  return signal?.aborted === true && error === signal.reason ? asAborted(error) : error;
}

/** The reason of an aborted signal as a `WaybillError`, by default `aborted`. */
export function asAborted(reason: unknown): WaybillError {
  if (reason instanceof WaybillError) return reason;
  return new WaybillError('aborted', 'the publication was stopped before it finished', {
    cause: reason,
    hint: 'run again to finish it',
  });
}
