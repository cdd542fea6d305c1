import type { Current } from '../../core/lib/current.ts';
import type { Log } from '../../core/lib/log.ts';
import type { JobQueue } from '../../workers/queue/job-queue.ts';
import type { HttpPorts } from '../http/app.ts';
import type { Token } from '../http/auth.ts';
import type { MemoryBodyPorts } from '../http/request/body-in-memory.ts';

/** Who may call, and about which pipelines; a reload replaces it. */
export interface RunAccess {
  tokens: readonly Token[];
  /** Ids of all pipelines: those that take uploads, and those that have a source of their own. */
  pipelineIds: ReadonlySet<string>;
  /** The pipelines that have a source of their own, with their channels; operators may start their runs. */
  sourcePipelines: ReadonlyMap<string, readonly string[]>;
  /** Null if none is configured. */
  adminToken: Token | null;
}

/** What the run routes need. */
export interface RunPorts extends HttpPorts, MemoryBodyPorts {
  http: HttpPorts['http'];
  log: Log;
  configured: Current<RunAccess>;
  queue: JobQueue;
  /** Told of a run that was cancelled before it began, for metrics and notifiers. */
  onCancelled: (run: { pipelineId: string; runId: string }) => void;
  /** Aborts when the daemon begins to stop. */
  draining: AbortSignal;
}
