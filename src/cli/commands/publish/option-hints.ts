import type { ErrorRecord } from '../../../core/lib/errors.ts';
import type { RunResult } from '../../../core/publish/results/result.ts';

/* Changes the result of a run for `waybill publish`, which has options instead of a configuration. */

/** Hints that mention settings, and what to say instead on the command line. */
const hints: readonly [RegExp, string][] = [
  [/^set ssh_key_file,/, 'name a private key with --ssh-key,'],
  [/^correct ssh_key_file,/, 'correct --ssh-key,'],
  [/^set region, or AWS_REGION/, 'add ?region=NAME to the destination, or set AWS_REGION'],
  [/^set access_key_id_env and secret_access_key_env,/, 'set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY,'],
  [/^check endpoint \(/, 'check the ?endpoint= of the destination ('],
  [/^create it, or correct bucket, endpoint and path_style/, 'create it, or correct the destination'],
  [/^check `host` and `port`/, 'check the host and port of the destination'],
  [
    /if they have a former id of this pipeline or destination, set that id again$/,
    'if you published them by another path, host or directory name, use it again, or set these ids in a configuration (--save FILE) for waybill run',
  ],
];

/** Returns the same result, but with hints about options instead of settings. */
export function withOptionHints(result: RunResult): RunResult {
  const pipelines = result.pipelines.map((pipeline) => ({
    ...pipeline,
    error: hinted(pipeline.error),
    destinations: pipeline.destinations.map((destination) => ({
      ...destination,
      error: hinted(destination.error),
      actions: destination.actions.map((action) => ({ ...action, error: hinted(action.error) })),
    })),
  }));
  return { ...result, pipelines };
}

function hinted(error: ErrorRecord | null): ErrorRecord | null {
  if (error?.hint == null) return error;
  const hint = hints.reduce((text, [setting, option]) => text.replace(setting, option), error.hint);
  return { ...error, hint };
}

/** Removes the warning about selected bundles, because a directory always has exactly one. */
export function withoutSelection(result: RunResult): RunResult {
  const pipelines = result.pipelines.map((pipeline) => ({
    ...pipeline,
    destinations: pipeline.destinations.map((destination) => ({
      ...destination,
      warnings: destination.warnings.filter(({ code }) => code !== 'fixed_bundle_selected'),
    })),
  }));
  return { ...result, pipelines };
}
