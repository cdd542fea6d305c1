import type { SourceBackend } from './backends.ts';

/** Who an output belongs to: a pipeline and one of its destinations. */
export interface Owner {
  pipelineId: string;
  destinationId: string;
}

export function sameOwner(a: Owner, b: Owner): boolean {
  return a.pipelineId === b.pipelineId && a.destinationId === b.destinationId;
}

/**
 * Where an output comes from. This must be the same for every run, so it never contains a staging path, a run
 * id, or a digest.
 */
export interface SourceIdentity {
  backend: SourceBackend;
  /** The location as configured. For uploads, it's the pipeline's id. */
  id: string;
  /** The path of the bundle, relative to the root of the source. For a bundle at the root, it's `.`. */
  path: string;
}
