import type { Reading } from '../bundle/validate-bundle.ts';
import type { LeaseTimes } from '../lease/lease.ts';
import type { StoredState } from '../catalog/store.ts';
import type { TraceContext } from '../tracing/trace-context.ts';
import type { Plan, PlannedOutput } from './plan.ts';
import type { Progress } from './results/result.ts';
import type { DecidedOrphan } from './unpublish/unpublication.ts';

/** A decision, and what it was made of. */
export interface Decided {
  plan: Plan;
  planned: readonly PlannedOutput[];
  stored: StoredState;
}

/**
 * What the caller asks of a publication. Made once, and passed on unchanged from the pipeline to its
 * destinations and their bundles.
 */
export interface PublishRequest {
  /** Report what would be done: nothing is written, no lease is taken, nobody is notified. */
  dryRun: boolean;
  /** Replace everything at a bundle path that could otherwise not be published to. */
  force: boolean;
  /** Remove more published outputs than `limits.max_removed` of the destination allows. */
  allowRemovals?: boolean;
  /** Only these destinations; all by default. */
  destinationIds?: readonly string[];
  /** Lead this channel to what is published, at the destinations that have it, and leave the others alone. */
  channel?: string;
  /**
   * Called with each decision before anything follows from it; what it throws fails the publication. There
   * may be several about one bundle path: one without the lease, one under it, and more if other publishers
   * were quicker. The last one counts.
   */
  onDecided?: (decided: Decided) => void;
  /** As `onDecided`, of each orphan that is to be removed; what it throws leaves the orphan as it is. */
  onOrphan?: (decided: DecidedOrphan) => void;
  onProgress?: (progress: Progress) => void;
  /** Told of what is read before it is known what to write: files without a declared digest. */
  reading?: Reading;
  /** The span of the run: those of its destinations belong to it. */
  trace?: TraceContext;
  /** The run of the upload that is published; for events. */
  runId?: string;
  /**
   * RFC 3339; of a run that was interrupted, when it began. What it committed since is told as published,
   * though nothing is left to do: nobody can know whether it was told before.
   */
  tellsSince?: string;
  /** Only tests pass their own. */
  leaseTimes?: LeaseTimes;
}
