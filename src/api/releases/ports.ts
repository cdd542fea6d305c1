import type { ReleasesAnswer, ReleasesRequest } from '../../workers/threads/releases-request.ts';
import type { Current } from '../../core/lib/current.ts';
import type { Log } from '../../core/lib/log.ts';
import type { HttpPorts } from '../http/app.ts';
import type { MemoryBodyPorts } from '../http/request/body-in-memory.ts';
import type { RunAccess } from '../runs/ports.ts';

/** What the routes about releases need. */
export interface ReleasesPorts extends HttpPorts, MemoryBodyPorts {
  http: HttpPorts['http'];
  log: Log;
  configured: Current<Pick<RunAccess, 'tokens' | 'adminToken' | 'pipelineIds'>>;
  /** Looks at releases, or switches between them, off the event loop; throws as `Coordinator.releases`. */
  releases: (request: ReleasesRequest, signal: AbortSignal) => Promise<ReleasesAnswer>;
  /** Aborts when the daemon stops, with what requests are then answered with. */
  stopping: AbortSignal;
}
