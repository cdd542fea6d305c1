import type { SourceBackend } from './backends.ts';

/** The pipeline and destination that an output belongs to. */
export interface Owner {
  pipelineId: string;
  destinationId: string;
}

export function sameOwner(a: Owner, b: Owner): boolean {
  return a.pipelineId === b.pipelineId && a.destinationId === b.destinationId;
}

/**
 * The source of an output. It must be the same for every run, so it never contains a staging path, a run id,
 * or a digest.
 */
export interface SourceIdentity {
  backend: SourceBackend;
  /** The location as configured. For uploads, it is the pipeline's id. */
  id: string;
  /** The path of the bundle, relative to the root of the source. For a bundle at the root, it is `.`. */
  path: string;
}
