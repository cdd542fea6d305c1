import type { ErrorRecord } from '../../../core/lib/errors.ts';
import type { RunResult } from '../../../core/publish/results/result.ts';

/*
 * The result of `waybill publish`, which has options and no configuration. Pure.
 */

/** Hints about settings of a configuration, and what to do on the command line instead. */
const hints: readonly [RegExp, string][] = [
  [/^set ssh_key_file, or start an SSH agent/, 'name a private key with --ssh-key, or start an SSH agent'],
  [/^set region, or AWS_REGION/, 'add ?region=NAME to the destination, or set AWS_REGION'],
  [
    /^set access_key_id_env and secret_access_key_env, or give/,
    'set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give',
  ],
  [/^check endpoint \(/, 'check the ?endpoint= of the destination ('],
];

/** The same result, with hints that name options in place of settings. */
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

/** Without the warning about the bundle that was selected: a directory is the only one. */
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
