import {
  type ErrorRecord,
  type Finding,
  publicError,
  publicFinding,
  withoutPaths,
} from '../../lib/errors.ts';
import type { DestinationResult, OrphanResult, PipelineResult, RunResult } from './result.ts';

/**
 * A result that producers may read: replaces paths of this machine with `<path>`, and errors with their
 * `publicError`. Pure.
 */
export function publicResult(result: RunResult): RunResult {
  return { ...result, pipelines: result.pipelines.map(publicPipeline), warnings: publicFindings(result) };
}

function publicPipeline(pipeline: PipelineResult): PipelineResult {
  return {
    ...pipeline,
    invalidBundles: pipeline.invalidBundles.map(({ bundle, error }) => ({
      bundle,
      error: publicError(error),
    })),
    destinations: pipeline.destinations.map(publicDestination),
    warnings: publicFindings(pipeline),
    error: errorOrNull(pipeline.error),
  };
}

function publicDestination(destination: DestinationResult): DestinationResult {
  const { location } = destination;
  return {
    ...destination,
    location: location.startsWith('/') ? '<path>' : location,
    actions: destination.actions.map(publicAction),
    orphans: destination.orphans.map((orphan): OrphanResult => ({
      ...orphan,
      error: errorOrNull(orphan.error),
    })),
    warnings: publicFindings(destination),
    error: errorOrNull(destination.error),
  };
}

type Action = DestinationResult['actions'][number];

function publicAction(action: Action): Action {
  const { reason, error } = action;
  return {
    ...action,
    reason: reason === null ? null : { ...reason, message: withoutPaths(reason.message) },
    error: errorOrNull(error),
  };
}

function publicFindings({ warnings }: { warnings: readonly Finding[] }): Finding[] {
  return warnings.map(publicFinding);
}

function errorOrNull(error: ErrorRecord | null): ErrorRecord | null {
  return error === null ? null : publicError(error);
}
