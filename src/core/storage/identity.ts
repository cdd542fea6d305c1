import type { SourceBackend } from './backends.ts';

/** The owner of an output: a pipeline and one of its destinations. */
export interface Owner {
  pipelineId: string;
  destinationId: string;
}

export function sameOwner(a: Owner, b: Owner): boolean {
  return a.pipelineId === b.pipelineId && a.destinationId === b.destinationId;
}

/**
 * The origin of an output. It is stable across runs, so it never contains a staging path, run id or digest.
 */
export interface SourceIdentity {
  backend: SourceBackend;
  /** The configured location, or the pipeline's id for uploads. */
  id: string;
  /** The bundle's path relative to the source root. It is `.` for a bundle at the root. */
  path: string;
}
