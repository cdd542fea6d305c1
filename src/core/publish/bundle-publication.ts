import type { SourceBundle } from '../bundle/source-bundle.ts';
import type { DestinationConfig } from '../config/config.ts';
import { WaybillError } from '../errors.ts';
import type { Finding } from '../finding.ts';
import type { Owner } from '../identity.ts';

/** One bundle and the place that it is published to. */
export interface BundlePublication {
  bundle: SourceBundle;
  owner: Owner;
  destination: DestinationConfig;
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  /**
   * Selects the bundle again from the source as it is now, if the bundle was selected as the newest of a
   * source. Another run may have published a newer one since.
   */
  selectAgain?: () => Promise<SourceBundle>;
  /** Called with what the operator has to do about a publication that succeeds. */
  warn?: (warning: Finding) => void;
}

/** Whatever a stopped publication failed with, it failed because it was stopped. */
export function abortedIfStopped(error: unknown, signal: AbortSignal | undefined): unknown {
  return signal?.aborted === true && error === signal.reason ? asAborted(error) : error;
}

/** The reason of a signal, as what a stopped publication fails with. */
export function asAborted(reason: unknown): WaybillError {
  if (reason instanceof WaybillError) return reason;
  return new WaybillError('aborted', 'the publication was stopped before it finished', {
    cause: reason,
    hint: 'run again to finish it',
  });
}
