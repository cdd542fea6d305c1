import type { SourceBundle } from '../bundle/source-bundle.ts';
import type { ReadProgress } from '../bundle/validate-bundle.ts';
import type { StoredState } from '../catalog/catalog-store.ts';
import type { DestinationConfig } from '../config/config.ts';
import { type Finding, WaybillError } from '../lib/errors.ts';
import type { PublisherIdentity } from '../publishers/published-by.ts';
import type { Owner } from '../storage/identity.ts';
import type { TraceContext } from '../tracing/trace-context.ts';
import type { Plan, PlannedOutput } from './plan.ts';
import type { Progress } from './results/result.ts';
import type { DecidedOrphan } from './unpublish/unpublication.ts';

/** A decision, and what it was based on. */
export interface Decided {
  plan: Plan;
  planned: readonly PlannedOutput[];
  stored: StoredState;
}

/** The options of a publication, which are the same for all destinations and bundles. */
export interface PublishRequest {
  /** Only report what would happen. Nothing is written, no lease is taken and no notifications are sent. */
  dryRun: boolean;
  /** Publish even where publishing would normally be refused, and replace everything at the bundle path. */
  force: boolean;
  /** Allow the run to remove more published outputs than `limits.max_removed`. */
  allowRemovals?: boolean;
  /** Refuse to publish in place where there are releases, even if there are files in place, too. */
  keepsReleases?: boolean;
  /** Publish only to these destinations. Default: all. */
  destinationIds?: readonly string[];
  /** Publish to this channel. Destinations that do not define it are left out. */
  channel?: string;
  /**
   * Called with each decision before it is carried out; throw to prevent the publication. It can be called
   * several times for a bundle path: once without the lease, once with it, and again each time another
   * publisher gets in the way. Only the last decision counts.
   */
  onDecided?: (decided: Decided) => void;
  /** Like `onDecided`, but for an orphan that is about to be removed. If it throws, the orphan stays. */
  onOrphan?: (decided: DecidedOrphan) => void;
  onProgress?: (progress: Progress) => void;
  /** Called with progress while files without a declared digest are read, before anything is planned. */
  reading?: ReadProgress;
  /** The run's span. The spans of the destinations become its children. */
  trace?: TraceContext;
  /** The id of the run, for events. */
  runId?: string;
  /** The user or client that requested the run. Its name goes into signed statements. */
  publisher?: PublisherIdentity;
  /**
   * The time when this run was first started, if it was interrupted since (RFC 3339). Outputs that it
   * committed after that time are reported as published even if there is nothing left to do, since the first
   * notification may never have been sent.
   */
  reportCommitsSince?: string;
}

export interface BundlePublication {
  bundle: SourceBundle;
  owner: Owner;
  destination: DestinationConfig;
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  /**
   * Goes back to the source and selects the newest bundle again. Set if this bundle was selected for being
   * the newest one, because another run may have published a newer one in the meantime.
   */
  selectAgain?: () => Promise<SourceBundle>;
  /** Called with warnings if a publication succeeded but still needs the administrator's attention. */
  warn?: (warning: Finding) => void;
}

/** Returns an `aborted` error if this error is the signal's abort reason, or else the error itself. */
export function abortedOr(error: unknown, signal: AbortSignal | undefined): unknown {
  return signal?.aborted === true && error === signal.reason ? abortError(error) : error;
}

/**
 * Turns the reason of an abort signal into a `WaybillError`, with the code `aborted` unless it already is
 * one.
 */
export function abortError(reason: unknown): WaybillError {
  if (reason instanceof WaybillError) return reason;
  return new WaybillError('aborted', 'the publication was stopped before it finished', {
    cause: reason,
    hint: 'run again to finish it',
  });
}
