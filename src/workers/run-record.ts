import type { ErrorRecord } from '../core/errors.ts';
import type { Action } from '../core/publish/plan.ts';
import type { Counters } from '../core/publish/result.ts';

export const runStatuses = ['accepted', 'queued', 'running', 'succeeded', 'failed'] as const;
export type RunStatus = (typeof runStatuses)[number];

/** How far a run is, over all its destinations. */
export interface RunProgress {
  /**
   * `preparing`: bundle and destinations are looked at. `writing`: outputs are on their way. `committing`:
   * all that is planned so far is written, and is put in place and recorded.
   */
  stage: 'preparing' | 'writing' | 'committing';
  outputs_done: number;
  outputs_total: number;
  bytes_done: number;
  bytes_total: number;
}

/** The body of `GET /runs/{run_id}`, in the names of that JSON. Holds no path of the host and no secret. */
export interface RunRecord {
  run_id: string;
  pipeline_id: string;
  status: RunStatus;
  accepted_at: string;
  queued_at: string | null;
  started_at: string | null;
  finished_at: string | null;
  destinations: RunDestination[];
  /** How far it is while it runs. */
  progress: RunProgress | null;
  summary: Counters | null;
  error: ErrorRecord | null;
}

export interface RunDestination {
  destination_id: string;
  action: Action | 'error';
  destination_path: string | null;
  outputs_written: number;
  outputs_removed: number;
  error: ErrorRecord | null;
}
