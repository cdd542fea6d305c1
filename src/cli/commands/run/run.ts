import { finding, type Finding } from '../../../core/finding.ts';
import { publishPipeline } from '../../../core/publish/publish.ts';
import type { PipelineResult, RunResult } from '../../../core/publish/result.ts';
import { allSucceeded, countActions } from '../../../core/publish/summary.ts';
import type { ConfiguredOptions } from '../../options.ts';
import { makeOutput } from '../../output.ts';
import { progressBar } from '../../progress.ts';
import { printRun } from './run-text.ts';
import { chooseDestinations, setUp, type SetUp } from '../../set-up.ts';

import { untilStopped } from '../../stop-signal.ts';
import { withNotifier } from '../../with-notifier.ts';

export interface RunOptions extends ConfiguredOptions {
  pipeline?: string[];
  destination?: string[];
  dryRun: boolean;
  force: boolean;
  allowRemovals?: boolean;
}

/** `waybill run`: pipelines one after another, their destinations side by side. */
export async function run(options: RunOptions): Promise<number> {
  const output = makeOutput({ json: options.format === 'json', color: options.color });
  return untilStopped(async (signal) => {
    const prepared = await setUp({
      config: options.config,
      output,
      verbose: options.verbose,
      signal,
      notifies: true,
      ...(options.pipeline === undefined ? {} : { pipelineIds: options.pipeline }),
    });
    const notified = await withNotifier(
      prepared,
      { dryRun: options.dryRun, pipelineIds: options.pipeline },
      async (context) => runAll({ ...prepared, context }, options),
    );
    const result = { ...notified.result, warnings: [...notified.result.warnings, ...notified.warnings] };
    if (output.isJson) output.json('run', result);
    else printRun(result, output, { verbose: options.verbose, stopped: signal.aborted });
    return allSucceeded(result.pipelines) ? 0 : 1;
  });
}

async function runAll({ config, context, warnings }: SetUp, options: RunOptions): Promise<RunResult> {
  const pipelines: PipelineResult[] = [];
  for (const { pipeline, destinations } of chooseDestinations(config, options)) {
    if (context.signal?.aborted === true) break;
    const bar = progressBar(options.format === 'text' && !options.dryRun);
    try {
      const { dryRun, force, allowRemovals = false } = options;
      const { onProgress } = bar;
      pipelines.push(
        await publishPipeline(context, pipeline, {
          dryRun,
          force,
          allowRemovals,
          onProgress,
          destinationIds: destinations.map(({ id }) => id),
        }),
      );
    } finally {
      bar.stop();
    }
  }
  return {
    dryRun: options.dryRun,
    force: options.force,
    pipelines,
    counters: countActions(pipelines),
    warnings: [...warnings, ...notices(config.pipelines.length)],
  };
}

function notices(pipelines: number): Finding[] {
  return pipelines === 0 ? [finding('warning', 'nothing_to_run', 'the configuration has no pipeline')] : [];
}
