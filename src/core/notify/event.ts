import type { AuditRecord } from '../audit/record.ts';
import type { Revision } from '../bundle/source-bundle.ts';
import type { ErrorCode } from '../lib/error-codes.ts';
import type { TraceContext } from '../tracing/trace-context.ts';

/*
 * The events that notifiers send. Field names are the ones used in JSON (`schemas/event.schema.json`). There
 * are no local paths or secrets in an event. Its size is limited to about 24 KiB, and `outputs_omitted` says
 * how many outputs did not fit.
 */

export const subscribableTypes = [
  'bundle.published',
  'bundle.publish_failed',
  'bundle.unpublished',
  'run.retry_scheduled',
  'release.activated',
  'release.rolled_back',
  'outputs.pruned',
  'audit.recorded',
] as const;

export interface EventData {
  /** A bundle has been published to a destination and committed. */
  'bundle.published': {
    pipeline_id: string;
    destination_id: string;
    /** Relative to the destination root; `.` for the root. */
    destination_path: string;
    /** The run of the upload; null on the command line. */
    run_id: string | null;
    bundle: BundleFacts;
    action: string;
    /** The release that was published; null for the in-place layout. */
    release: string | null;
    /** The channel that it was published to; null for the current release and the in-place layout. */
    channel: string | null;
    counts: PublicationCounts;
    /** The outputs that were written come first, followed by those that were kept. */
    outputs: OutputFacts[];
    outputs_omitted: number;
  };
  /**
   * Publishing a bundle failed. Nothing was committed, or the outcome is unknown (`commit_unknown`). If the
   * daemon is going to try again, there is a `run.retry_scheduled` event instead.
   */
  'bundle.publish_failed': {
    pipeline_id: string;
    /**
     * null if the source could not be read or the bundle is invalid, so it did not get as far as a
     * destination.
     */
    destination_id: string | null;
    destination_path: string | null;
    run_id: string | null;
    /** null if it failed before there was a bundle. */
    bundle: BundleFacts | null;
    action: string;
    error: EventError;
  };
  /** The outputs of a pipeline were removed from a bundle path. */
  'bundle.unpublished': {
    pipeline_id: string;
    destination_id: string;
    /** Relative to the destination root; `.` for the root. */
    destination_path: string;
    /** If the bundle was an orphan, the run that removed it; null on the command line. */
    run_id: string | null;
    /** null if the catalog does not say. */
    bundle: BundleFacts | null;
    /** With `unpublish`, a command asked for it. With `orphan`, the bundle is gone from the source. */
    reason: 'unpublish' | 'orphan';
    counts: { outputs_removed: number };
    /** Relative to the bundle path. */
    outputs: { path: string }[];
    outputs_omitted: number;
  };
  /** A run failed because of a temporary error, and is going to be tried again. */
  'run.retry_scheduled': {
    pipeline_id: string;
    /** The destination that failed; null if the run did not get that far. */
    destination_id: string | null;
    run_id: string;
    attempt: number;
    /** RFC 3339, UTC. */
    next_try_at: string;
    /** The time when we give up and the run fails (RFC 3339, UTC). */
    retry_until: string;
    error: EventError;
  };
  /**
   * A release became current because of a promotion. When it is published, there is a `bundle.published`
   * event instead.
   */
  'release.activated': ReleaseSwitch;
  /** A rollback has made an earlier release current. */
  'release.rolled_back': ReleaseSwitch;
  'outputs.pruned': {
    pipeline_id: string;
    destination_id: string;
    counts: { outputs_removed: number; errors: number };
    outputs: { destination_path: string; path: string }[];
    outputs_omitted: number;
  };
  /** An act was recorded in the audit trail. The canonical JSON of `record` is the line of the trail. */
  'audit.recorded': { record: AuditRecord };
  /** A test event from `waybill notify test`. */
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
  /** Missing if the producer did not add one. */
  revision?: Revision;
}

/**
 * How many outputs were published, and what was done with them. The written, linked and kept ones add up to
 * `outputs`.
 */
interface PublicationCounts {
  outputs: number;
  outputs_written: number;
  /** How many outputs were linked to or copied from the previous release. */
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
  /** The release that is current from now on. */
  release: string;
  /** The release that was current before; null if there was none. */
  previous: string | null;
}

export interface OutputFacts {
  path: string;
  kind: string;
  digest: string;
  size: number;
  url: string | null;
  /** With `add` and `change`, the file was written. With `keep` and `refresh`, it stayed as it was. */
  fate: 'add' | 'change' | 'keep' | 'refresh';
}

type EventType = keyof EventData;

/** Something that happened. It becomes an event when it gets an id and a time. */
export type Occurrence = { [T in EventType]: { type: T; data: EventData[T] } }[EventType];

/**
 * An event in the form of a Standard Webhooks envelope. Its id is the same for all attempts and all
 * notifiers.
 */
export type Event = { id: string; /** When it happened: RFC 3339, UTC. */ timestamp: string } & Occurrence;

/** An event, along with the trace that the spans of its delivery belong to. */
export interface TracedEvent extends TraceContext {
  event: Event;
}

export function eventOf(occurrence: Occurrence, id: string, at: Date): Event {
  const { type, data } = occurrence;
  // The keys are in an order that is easy to read.
  return { id, type, timestamp: at.toISOString(), data } as Event;
}

/** Returns the id of the event's pipeline, or null if it has none. */
export function pipelineOfEvent({ data }: Occurrence): string | null {
  if ('record' in data) return data.record.pipeline_id;
  return 'pipeline_id' in data ? data.pipeline_id : null;
}
