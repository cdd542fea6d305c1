import type { Revision } from '../bundle/source-bundle.ts';
import type { ErrorCode } from '../lib/error-codes.ts';
import type { TraceContext } from '../tracing/trace-context.ts';

/*
 * The events sent to notifiers, with the field names used in JSON (`schemas/event.schema.json`). Events
 * contain neither local paths nor secrets. Their size is limited to about 24 KiB: outputs that do not fit are
 * counted in `outputs_omitted`.
 */

export const subscribableTypes = [
  'bundle.published',
  'bundle.publish_failed',
  'bundle.unpublished',
  'run.retry_scheduled',
  'release.activated',
  'release.rolled_back',
  'outputs.pruned',
] as const;

export interface EventData {
  /** A bundle was published to a destination, and the publication is committed. */
  'bundle.published': {
    pipeline_id: string;
    destination_id: string;
    /** Relative to the destination root; `.` for the root. */
    destination_path: string;
    /** The upload's run; null for the command line. */
    run_id: string | null;
    bundle: BundleFacts;
    action: string;
    /** The published release; null for the in-place layout. */
    release: string | null;
    /** The release's channel; null for the current release and for the in-place layout. */
    channel: string | null;
    counts: PublicationCounts;
    /** Written outputs first, then kept ones. */
    outputs: OutputFacts[];
    outputs_omitted: number;
  };
  /**
   * Nothing was committed, or the outcome is unknown (`commit_unknown`). If the daemon retries, it sends
   * `run.retry_scheduled` instead.
   */
  'bundle.publish_failed': {
    pipeline_id: string;
    /** null if no destination was reached because the source is unreadable or the bundle is invalid. */
    destination_id: string | null;
    destination_path: string | null;
    run_id: string | null;
    /** null if it failed before any bundle was selected. */
    bundle: BundleFacts | null;
    action: string;
    error: EventError;
  };
  /** One pipeline's outputs were removed from a bundle path. */
  'bundle.unpublished': {
    pipeline_id: string;
    destination_id: string;
    /** Relative to the destination root; `.` for the root. */
    destination_path: string;
    /** The run that removed an orphan; null for the command line. */
    run_id: string | null;
    /** null if the catalog does not record it. */
    bundle: BundleFacts | null;
    /** `unpublish`: requested by a command. `orphan`: the bundle no longer exists in the source. */
    reason: 'unpublish' | 'orphan';
    counts: { outputs_removed: number };
    /** Relative to the bundle path. */
    outputs: { path: string }[];
    outputs_omitted: number;
  };
  /** A run failed with a transient error and will be retried. */
  'run.retry_scheduled': {
    pipeline_id: string;
    /** The destination that failed; null if none was reached. */
    destination_id: string | null;
    run_id: string;
    /** The number of the next attempt. */
    attempt: number;
    /** RFC 3339, UTC. */
    next_try_at: string;
    /** When retrying ends and the run fails: RFC 3339, UTC. */
    retry_until: string;
    error: EventError;
  };
  /** A release was promoted. Publications that activate a release send `bundle.published` instead. */
  'release.activated': ReleaseSwitch;
  /** A rollback made an earlier release current. */
  'release.rolled_back': ReleaseSwitch;
  'outputs.pruned': {
    pipeline_id: string;
    destination_id: string;
    counts: { outputs_removed: number; errors: number };
    outputs: { destination_path: string; path: string }[];
    outputs_omitted: number;
  };
  /** Sent by `waybill notify test`. */
  'notifier.test': { notifier_id: string; message: string };
}

export interface EventError {
  code: ErrorCode;
  message: string;
  hint: string | null;
  retryable: boolean;
}

export interface BundleFacts {
  /** Relative to the source root; `.` for the root. */
  path: string;
  name: string | null;
  /** RFC 3339, UTC. */
  created: string | null;
  /** Omitted if the producer does not specify one. */
  revision?: Revision;
}

/** Written, linked and kept outputs add up to `outputs`. */
export interface PublicationCounts {
  outputs: number;
  outputs_written: number;
  /** Outputs linked or copied from the previous release. */
  outputs_linked: number;
  outputs_kept: number;
  outputs_removed: number;
  bytes_written: number;
  bytes_linked: number;
  bytes_kept: number;
}

export interface ReleaseSwitch {
  pipeline_id: string;
  destination_id: string;
  /** Relative to the destination root; `.` for the root. */
  destination_path: string;
  /** The release that is current now. */
  release: string;
  /** The previously current release; null if there was none. */
  previous: string | null;
}

export interface OutputFacts {
  path: string;
  kind: string;
  digest: string;
  size: number;
  url: string | null;
  /** `add` and `change`: the file was written. `keep` and `refresh`: the file did not change. */
  fate: 'add' | 'change' | 'keep' | 'refresh';
}

export type EventType = keyof EventData;
export type SubscribableType = (typeof subscribableTypes)[number];

/** An event before an id and a time are assigned. */
export type Occurrence = { [T in EventType]: { type: T; data: EventData[T] } }[EventType];

/** A Standard Webhooks envelope. All attempts and all notifiers use the same id. */
export type Event = { id: string; /** When it happened: RFC 3339, UTC. */ timestamp: string } & Occurrence;

/** An event and its trace context, which is the parent of its delivery spans. */
export interface TracedEvent extends TraceContext {
  event: Event;
}

export function eventOf(occurrence: Occurrence, id: string, at: Date): Event {
  const { type, data } = occurrence;
  // The keys are ordered for readability.
  return { id, type, timestamp: at.toISOString(), data } as Event;
}

/** Returns the pipeline that the event is about, or null if there is none. */
export function pipelineOfEvent({ data }: Occurrence): string | null {
  return 'pipeline_id' in data ? data.pipeline_id : null;
}
