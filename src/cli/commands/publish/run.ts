import { systemClock } from '../../../core/lib/clock.ts';
import { type Finding, finding } from '../../../core/lib/errors.ts';
import { shellQuoted } from '../../../core/lib/text.ts';
import {
  decisionRecord,
  Decisions,
  orphanRecord,
  type PlanFile,
  refuseOtherDecision,
  refuseStalePlan,
  targetLabel,
} from '../../../core/publish/plan-file.ts';
import type { PublishRequest } from '../../../core/publish/publish-request.ts';
import {
  allSucceeded,
  countActions,
  type PipelineResult,
  type RunResult,
} from '../../../core/publish/results/result.ts';
import { type Output } from '../../output/output.ts';
import { progressBar } from '../../output/progress.ts';
import type { Io } from '../../setup/command.ts';
import { maxRateOf, withMaxRate } from '../../setup/max-rate.ts';
import {
  chooseDestinations,
  type ChosenPipeline,
  type CommandContext,
  setUp,
  withNotifier,
} from '../../setup/set-up.ts';
import { type CommandAct, withAudit } from '../../setup/with-audit.ts';
import { withTracing } from '../../setup/with-tracing.ts';
import { refuseToReplaceInput } from '../../setup/write-file.ts';
import {
  catchStalePlan,
  chosenByPlan,
  readPlan,
  refuseContradictions,
  type RunOptions,
  writePlan,
} from './plan-files.ts';
import { publishWithRetries, retryForOf, type RetryLimits } from './retries.ts';
import { reportRun } from './run-text.ts';

/**
 * Implements `waybill run`. Pipelines run one after another, but each one publishes to all of its
 * destinations at the same time.
 */
export async function run(options: RunOptions, { output, signal }: Io): Promise<number> {
  refuseContradictions(options);
  if (options.out !== undefined) await refuseToReplaceInput(options.out, [options.config]);
  const retryForMs = retryForOf(options.retryFor);
  const maxRate = maxRateOf(options);
  const plan = options.plan === undefined ? null : await readPlan(options.plan);
  const begunMs = systemClock.monotonic();
  const pipelineIds = plan?.targets.map(({ pipeline_id }) => pipeline_id) ?? options.pipeline;
  const { config, verbose, dryRun } = options;
  const about = { config, output, verbose, signal, pipelineIds, notifies: true, traces: true };
  const prepared = await (plan === null ? setUp(about) : catchStalePlan(setUp(about)));
  const named =
    plan === null ? chooseDestinations(prepared.config, options) : await chosenByPlan(prepared.config, plan);
  const chosen = withMaxRate(named, maxRate);
  const tries = { forMs: retryForMs, note: output.note };
  const notified = await withAudit(prepared, actOf(options, pipelineIds), async (recorded) =>
    withTracing({ ...prepared, context: recorded }, async (traced) =>
      withNotifier({ ...prepared, context: traced }, { dryRun, pipelineIds }, async (context) => {
        const task = { chosen, options, tries, setUp: { ...prepared, context } };
        return plan === null ? runRequested(task, output) : runPlanned(task, plan);
      }),
    ),
  );
  const result = { ...notified.result, warnings: [...notified.result.warnings, ...notified.warnings] };
  return reportRun(
    result,
    { output, signal },
    { verbose, begunMs, configured: `--config ${shellQuoted(config)}` },
  );
}

/** Returns the audit record for the command itself. Publications have their own records. */
function actOf(
  { dryRun, force, allowRemovals, channel, plan }: RunOptions,
  ids: readonly string[] | undefined,
): CommandAct {
  const [only, ...others] = [...new Set(ids)];
  return {
    act: 'run.start',
    dryRun,
    pipelineId: others.length === 0 ? (only ?? null) : null,
    pipelineIds: ids,
    detail: { force, allow_removals: allowRemovals, channel: channel ?? null, planned: plan !== undefined },
  };
}

interface Task {
  chosen: readonly ChosenPipeline[];
  options: RunOptions;
  tries?: RetryLimits;
  setUp: CommandContext;
}

/**
 * Runs the requested pipelines. If this is a dry run, its plan is only written if all of it can be executed.
 */
async function runRequested(task: Task, output: Output): Promise<RunResult> {
  const { chosen, options } = task;
  const { config, dryRun, force, allowRemovals, channel, out } = options;
  const request = { dryRun, force, allowRemovals, channel };
  if (out === undefined) return runAll(task, request);
  const decisions = new Decisions();
  const result = await runAll(task, { ...request, ...recordDecisions(decisions) });
  if (!allSucceeded(result.pipelines) || task.setUp.context.signal?.aborted === true)
    return { ...result, warnings: [...result.warnings, planNotWritten] };
  const { digest } = await writePlan(out, { chosen, decisions, options });
  const command = `waybill run --config ${shellQuoted(config)} --plan ${shellQuoted(out)}`;
  output.note(`the plan was written to ${out} (${digest}); carry it out with: ${command}`);
  return result;
}

/**
 * Executes a plan. First, everything is decided again; if the result differs from the plan, the run stops
 * before it changes anything. Each decision is then compared with the plan once more after the lease has been
 * acquired, before anything is written.
 */
async function runPlanned(task: Task, plan: PlanFile): Promise<RunResult> {
  const { force, allow_removals: allowRemovals, channel } = plan;
  const request = { force, allowRemovals, channel: channel ?? undefined };
  const made = new Decisions();
  const checked = await runAll(task, { ...request, dryRun: true, ...recordDecisions(made) });
  if (task.setUp.context.signal?.aborted === true) return checked;
  const isPartial = !allSucceeded(checked.pipelines);
  refuseStalePlan(plan.decisions, made, { isPartial });
  if (isPartial || task.options.dryRun) return checked;
  const written = new Map(plan.decisions.map((record) => [targetLabel(record), record]));
  return runAll(task, {
    ...request,
    dryRun: false,
    onDecided: (decided) => refuseOtherDecision(written, decisionRecord(decided)),
    onOrphan: (decided) => refuseOtherDecision(written, orphanRecord(decided)),
  });
}

type OnDecision = Pick<PublishRequest, 'onDecided' | 'onOrphan'>;

function recordDecisions(decisions: Decisions): OnDecision {
  return {
    onDecided: (decided) => decisions.add(decisionRecord(decided)),
    onOrphan: (decided) => decisions.add(orphanRecord(decided)),
  };
}

interface RunChoices extends OnDecision, Pick<PublishRequest, 'channel' | 'keepsReleases'> {
  dryRun: boolean;
  force: boolean;
  allowRemovals: boolean;
}

/** Publishes the pipelines one after another. If one fails, its error is part of the result. */
export async function runAll(
  {
    chosen,
    options,
    tries = { forMs: 0, note: () => undefined },
    setUp: { config, context, warnings },
  }: Omit<Task, 'options'> & {
    options: Pick<RunOptions, 'format'>;
  },
  choices: RunChoices,
): Promise<RunResult> {
  const pipelines: PipelineResult[] = [];
  for (const { pipeline, destinations } of chosen) {
    if (context.signal?.aborted === true) break;
    const bar = progressBar(options.format === 'text', pipeline.id);
    try {
      // A dry run would never reach the number of planned writes, so its progress bar must not include them.
      const onProgress = choices.dryRun ? undefined : bar.onProgress;
      const destinationIds = destinations.map(({ id }) => id);
      const request = { ...choices, onProgress, reading: bar, destinationIds };
      pipelines.push(await publishWithRetries(context, pipeline, request, tries));
    } finally {
      bar.stop();
    }
  }
  return {
    dryRun: choices.dryRun,
    force: choices.force,
    pipelines,
    counters: countActions(pipelines),
    warnings: [...warnings, ...runNotices(config.pipelines.length)],
  };
}

const planNotWritten = finding(
  'warning',
  'plan_not_written',
  'the plan was not written, because not all of it could be carried out',
);

function runNotices(pipelines: number): Finding[] {
  return pipelines === 0 ? [finding('warning', 'nothing_to_run', 'the configuration has no pipeline')] : [];
}
