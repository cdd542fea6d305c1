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

/**
 * The options of a publication. The pipeline passes them on unchanged to its destinations and their bundles.
 */
export interface PublishRequest {
  /** Only report the plan. Writes nothing, takes no lease and sends no notifications. */
  dryRun: boolean;
  /** Replace everything at a bundle path that could otherwise not be published to. */
  force: boolean;
  /** Remove more published outputs than `limits.max_removed` of the destination allows. */
  allowRemovals?: boolean;
  /** Publish only to these destinations. Default: all. */
  destinationIds?: readonly string[];
  /** Publish to this channel, and only to the destinations that have it. */
  channel?: string;
  /**
   * Called with each decision before it is applied. If it throws, the publication fails. There may be several
   * decisions about one bundle path: one without the lease, one under it, and more if other publishers
   * interfere. The last one counts.
   */
  onDecided?: (decided: Decided) => void;
  /** Like `onDecided`, for each orphan to remove. If it throws, the orphan is kept. */
  onOrphan?: (decided: DecidedOrphan) => void;
  onProgress?: (progress: Progress) => void;
  /** Receives the progress of reading files without a declared digest, which happens before planning. */
  reading?: Reading;
  /** The span of the run, which is the parent of the destinations' spans. */
  trace?: TraceContext;
  /** The id of the upload's run, for events. */
  runId?: string;
  /** The identity that requested the run, for signed statements. */
  publisher?: PublisherIdentity;
  /**
   * When an interrupted run started, as RFC 3339. Outputs that it committed since are reported as published,
   * although nothing is left to do, because the first notification may have been lost.
   */
  reportCommitsSince?: string;
}

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
