import type { SourceBundle } from '../bundle/source-bundle.ts';
import type { Reading } from '../bundle/validate-bundle.ts';
import type { StoredState } from '../catalog/store.ts';
import type { DestinationConfig } from '../config/config.ts';
import { type Finding, WaybillError } from '../lib/errors.ts';
import type { PublisherIdentity } from '../publishers/published-by.ts';
import type { Owner } from '../storage/identity.ts';
import type { TraceContext } from '../tracing/trace-context.ts';
import type { Plan, PlannedOutput } from './plan.ts';
import type { Progress } from './results/result.ts';
import type { DecidedOrphan } from './unpublish/unpublication.ts';

/** A decision and its inputs. */
export interface Decided {
  plan: Plan;
  planned: readonly PlannedOutput[];
  stored: StoredState;
}

/** The options of a publication. They are passed unchanged to each destination and bundle. */
export interface PublishRequest {
  /** Only report the plan. Writes nothing, takes no lease and sends no notifications. */
  dryRun: boolean;
  /** Replace everything at a bundle path where publishing would otherwise be refused. */
  force: boolean;
  /** Allow removing more published outputs than the destination's `limits.max_removed`. */
  allowRemovals?: boolean;
  /** Publish only to these destinations. Default: all. */
  destinationIds?: readonly string[];
  /** Publish to this channel, and only at destinations that define it. */
  channel?: string;
  /**
   * Called with each decision before it is applied. If it throws, the publication fails. It may be called
   * several times for one bundle path: without the lease, while holding it, and again whenever other
   * publishers interfere. The last decision counts.
   */
  onDecided?: (decided: Decided) => void;
  /** Like `onDecided`, but for each orphan to be removed. If it throws, the orphan is kept. */
  onOrphan?: (decided: DecidedOrphan) => void;
  onProgress?: (progress: Progress) => void;
  /** Receives progress while files without a declared digest are read, before planning. */
  reading?: Reading;
  /** The run's span, which is the parent of the destinations' spans. */
  trace?: TraceContext;
  /** The id of the upload's run, included in events. */
  runId?: string;
  /** The identity that requested the run, included in signed statements. */
  publisher?: PublisherIdentity;
  /**
   * When an interrupted run started, as RFC 3339. Outputs that it committed since then are reported as
   * published even if nothing is left to do, because the first notification may have been lost.
   */
  reportCommitsSince?: string;
}

/** One bundle and the place to publish it. */
export interface BundlePublication {
  bundle: SourceBundle;
  owner: Owner;
  destination: DestinationConfig;
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  /**
   * Selects the newest bundle again from the current source. Set if the bundle was selected as the newest in
   * its source, because another run may since have published a newer one.
   */
  selectAgain?: () => Promise<SourceBundle>;
  /** Receives warnings about a successful publication that require action by the operator. */
  warn?: (warning: Finding) => void;
}

/**
 * Converts the error to an `aborted` error if it is the signal's abort reason. Returns any other error
 * unchanged.
 */
export function abortedIfStopped(error: unknown, signal: AbortSignal | undefined): unknown {
  return signal?.aborted === true && error === signal.reason ? asAborted(error) : error;
}

/** Converts an abort signal's reason to a `WaybillError`, by default `aborted`. */
export function asAborted(reason: unknown): WaybillError {
  if (reason instanceof WaybillError) return reason;
  return new WaybillError('aborted', 'the publication was stopped before it finished', {
    cause: reason,
    hint: 'run again to finish it',
  });
}
