import type { Current } from '../../core/lib/current.ts';
import type { JobQueue } from '../../workers/queue/job-queue.ts';
import type { RoutePorts } from '../http/app.ts';
import type { RunAccess } from '../pipelines/pipeline-access.ts';

/** The dependencies of the run routes. */
export interface RunPorts extends RoutePorts {
  configured: Current<RunAccess>;
  queue: JobQueue;
  /** Called when a run is cancelled before it starts, to update metrics and send notifications. */
  onCancelled: (run: { pipelineId: string; runId: string }) => void;
  /** Aborted when the daemon begins to shut down. */
  draining: AbortSignal;
}
