import type { Current } from '../../core/lib/current.ts';
import type { RunLogs } from '../../workers/coordinator/run-logs.ts';
import type { JobQueue } from '../../workers/queue/job-queue.ts';
import type { RoutePorts } from '../http/http-app.ts';
import type { RunAccess } from '../pipelines/pipeline-access.ts';
import type { Streams } from './event-stream.ts';

export interface RunPorts extends RoutePorts {
  configured: Current<RunAccess>;
  queue: JobQueue;
  runs: RunService;
  /** Aborted when the daemon begins to shut down. */
  draining: AbortSignal;
}

export interface RunService {
  /** Called when a run is cancelled before it starts, to update metrics and send notifications. */
  onCancelled: (run: { pipelineId: string; runId: string }) => void;
  streams: Streams;
  /** The newest log lines of the runs that this process has published. */
  lines: Pick<RunLogs, 'linesOf'>;
}
