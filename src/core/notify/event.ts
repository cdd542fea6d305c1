import type { Revision } from '../bundle/revision.ts';
import type { ErrorCode } from '../errors.ts';
import type { TraceContext } from '../tracing/trace-context.ts';

/**
 * What leaves the program, under the names of its JSON: `schemas/event.schema.json` is the same. No path
 * of this machine and no secret is in an event, and none is larger than about 24 KiB: what does not fit is
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
  /** The publication of one bundle at one destination is committed. */
  'bundle.published': {
    pipeline_id: string;
    destination_id: string;
    /** Relative to the destination root; `.` for the root. */
    destination_path: string;
    /** Of the upload; null on the command line. */
    run_id: string | null;
    bundle: BundleFacts;
    action: string;
    /** The release that readers have now; null in place. */
    release: string | null;
    /** The channel whose readers have it; null for the current release, and in place. */
    channel: string | null;
    counts: PublicationCounts;
    /** What was written first, then what was kept. */
    outputs: OutputFacts[];
    outputs_omitted: number;
  };
  /**
   * Nothing was committed, or it is not known (`commit_unknown`). A failure that the daemon tries again is a
   * `run.retry_scheduled` instead.
   */
  'bundle.publish_failed': {
    pipeline_id: string;
    /** Null if no destination was reached: the source cannot be read, the bundle is invalid. */
    destination_id: string | null;
    destination_path: string | null;
    run_id: string | null;
    /** Null if it failed before any bundle. */
    bundle: BundleFacts | null;
    action: string;
    error: EventError;
  };
  /** What one pipeline had published at a bundle path is gone from it. */
  'bundle.unpublished': {
    pipeline_id: string;
    destination_id: string;
    /** Relative to the destination root; `.` for the root. */
    destination_path: string;
    /** Of the run that removed an orphan; null on the command line. */
    run_id: string | null;
    /** Null if the catalog did not say which. */
    bundle: BundleFacts | null;
    /** `unpublish`: somebody asked for it. `orphan`: the source does not hold the bundle any more. */
    reason: 'unpublish' | 'orphan';
    counts: { outputs_removed: number };
    /** Relative to the bundle path. */
    outputs: { path: string }[];
    outputs_omitted: number;
  };
  /** A try of a run failed for a passing cause, and the run waits for its next one. */
  'run.retry_scheduled': {
    pipeline_id: string;
    /** Where the cause was met; null if no destination was reached. */
    destination_id: string | null;
    run_id: string;
    /** The number of the next try. */
    attempt: number;
    /** RFC 3339, UTC. */
    next_try_at: string;
    /** After it the run fails. RFC 3339, UTC. */
    retry_until: string;
    error: EventError;
  };
  /** Somebody promoted a release; one that a publication makes current is told by that. */
  'release.activated': ReleaseSwitch;
  /** Somebody went back to an earlier release. */
  'release.rolled_back': ReleaseSwitch;
  'outputs.pruned': {
    pipeline_id: string;
    destination_id: string;
    counts: { outputs_removed: number; errors: number };
    outputs: { destination_path: string; path: string }[];
    outputs_omitted: number;
  };
  /** What `waybill notify test` sends. */
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
  /** Left out if its producer states none. */
  revision?: Revision;
}

/** Written, linked and kept outputs together are `outputs`. */
export interface PublicationCounts {
  outputs: number;
  outputs_written: number;
  /** Those that a release got from the one before it. */
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
  /** The release that readers have now, and the one before it; null if there was none. */
  release: string;
  previous: string | null;
}

export interface OutputFacts {
  path: string;
  kind: string;
  digest: string;
  size: number;
  url: string | null;
  /** `add` and `change`: its bytes were written. `keep` and `refresh`: they stayed. */
  fate: 'add' | 'change' | 'keep' | 'refresh';
}

export type EventType = keyof EventData;
export type SubscribableType = (typeof subscribableTypes)[number];

/** Something that happened, before anyone gave it an id and a time. */
export type Occurrence = { [T in EventType]: { type: T; data: EventData[T] } }[EventType];

/**
 * An envelope of Standard Webhooks. The id stays the same through all tries of one delivery, and for every
 * notifier.
 */
export type Event = { id: string; /** When it happened: RFC 3339, UTC. */ timestamp: string } & Occurrence;

/** An event, and the span in which it happened, if it was traced: its deliveries belong to that. */
export interface TracedEvent extends TraceContext {
  event: Event;
}

export function eventOf(occurrence: Occurrence, id: string, at: Date): Event {
  const { type, data } = occurrence;
  // In this order, which is how people read it.
  return { id, type, timestamp: at.toISOString(), data } as Event;
}

/** The pipeline it is about; null for what is about none. */
export function pipelineOfEvent({ data }: Occurrence): string | null {
  return 'pipeline_id' in data ? data.pipeline_id : null;
}
