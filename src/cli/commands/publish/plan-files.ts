import { readFile } from 'node:fs/promises';
import type { Config } from '../../../core/config/config.ts';
import { asWaybillError, WaybillError } from '../../../core/lib/errors.ts';
import { describeFileError } from '../../../core/lib/system-errors.ts';
import {
  configurationDigest,
  type Decisions,
  parsePlanFile,
  type PlanFile,
  planFile,
  planStale,
} from '../../../core/publish/plan-file.ts';
import type { OptionsFor } from '../../setup/command.ts';
import { type ChosenPipeline, destinationOf, pipelineOf } from '../../setup/set-up.ts';
import { writeFile } from '../../setup/write-file.ts';
import type { runCommand } from './commands.ts';

export type RunOptions = OptionsFor<typeof runCommand>;

/**
 * Throws a `usage` error if an option cannot be combined with a plan, because the plan already determines its
 * value.
 */
export function refuseContradictions(options: RunOptions): void {
  const { plan, out, dryRun, force, allowRemovals, channel, pipeline, destination, retryFor } = options;
  if (out !== undefined && !dryRun)
    throw new WaybillError('usage', '--out needs --dry-run', {
      hint: 'write the plan with --dry-run --out FILE; carry it out with --plan FILE',
    });
  if (retryFor !== undefined && dryRun)
    throw new WaybillError('usage', '--retry-for has no effect with --dry-run', {
      hint: 'leave one of them out',
    });
  if (plan === undefined) return;
  const conflictingOptions = Object.entries({
    out,
    force,
    'allow-removals': allowRemovals,
    channel,
    pipeline,
    destination,
    'retry-for': retryFor,
  })
    .filter(([, value]) => value !== undefined && value !== false)
    .map(([name]) => `--${name}`);
  if (conflictingOptions.length > 0)
    throw new WaybillError(
      'usage',
      `--plan cannot be combined with ${conflictingOptions.join(', ')}, which would change the plan`,
      {
        hint: 'use it when you make the plan',
      },
    );
}

/** Reads a plan from a file. Throws `plan_invalid`. */
export async function readPlan(file: string): Promise<PlanFile> {
  const bytes = await readFile(file).catch((error: unknown) => {
    throw new WaybillError('plan_invalid', `the plan ${file} cannot be read: ${describeFileError(error)}`, {
      cause: error,
      hint: 'check the path given with --plan',
    });
  });
  return parsePlanFile(bytes, file);
}

/** Writes a plan to a file, atomically. Throws a `usage` error if the file cannot be written. */
export async function writePlan(
  file: string,
  {
    chosen,
    decisions,
    options,
  }: { chosen: readonly ChosenPipeline[]; decisions: Decisions; options: RunOptions },
): Promise<PlanFile> {
  const plan = planFile({
    created_at: new Date().toISOString(),
    targets: chosen.map(({ pipeline, destinations }) => ({
      pipeline_id: pipeline.id,
      destination_ids: destinations.map(({ id }) => id),
    })),
    force: options.force,
    allow_removals: options.allowRemovals,
    channel: options.channel ?? null,
    configuration: configurationDigest(chosen),
    decisions: decisions.all(),
  });
  await writeFile(file, [Buffer.from(`${JSON.stringify(plan, null, 2)}\n`)]);
  return plan;
}

/**
 * Returns the pipelines and destinations in a plan. Throws `plan_stale` if their settings have changed since
 * it was made.
 */
export async function chosenByPlan(
  config: Config,
  { targets, configuration }: PlanFile,
): Promise<ChosenPipeline[]> {
  const chosen = await catchStalePlan(
    (async () =>
      targets.map(({ pipeline_id, destination_ids }) => {
        const pipeline = pipelineOf(config, pipeline_id);
        return { pipeline, destinations: destination_ids.map((id) => destinationOf(pipeline, id)) };
      }))(),
  );
  if (configurationDigest(chosen) !== configuration)
    throw planStale('the configuration of its pipelines changed; nothing was changed');
  return chosen;
}

/** Throws `plan_stale` if a pipeline or destination in the plan is no longer configured. */
export async function catchStalePlan<T>(look: Promise<T>): Promise<T> {
  try {
    return await look;
  } catch (error) {
    const { code, message } = asWaybillError(error);
    throw code === 'usage' ? planStale(`${message} in the configuration; nothing was changed`) : error;
  }
}
