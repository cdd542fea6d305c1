import t from 'tap';
import { errorRecord, finding, WaybillError } from '../../../../src/core/lib/errors.ts';
import { failedResult, plannedResult } from '../../../../src/core/publish/results/action-result.ts';
import {
  countActions,
  type DestinationResult,
  type OrphanResult,
  type PipelineResult,
  publicResult,
  type RunResult,
} from '../../../../src/core/publish/results/result.ts';
import { output, planOf } from '../../../support/decisions.ts';

/** A result in which this path occurs everywhere that a path may occur. */
function resultNaming(place: string): RunResult {
  const error = errorRecord(new WaybillError('storage_full', `${place}: no space`));
  const warnings = [finding('warning', 'odd', `look at ${place}`, { file: place })];
  const refused = planOf('fail_unmanaged');
  const reason = { ...refused.reason, message: `at ${place}` };
  const orphan: OrphanResult = {
    ...{ destinationPath: 'o', bundle: null, outputs: ['a'], bytes: 1, action: 'keep', error: null },
  };
  const destination: DestinationResult = {
    destinationId: 'web',
    location: place,
    status: 'failed',
    actions: [
      plannedResult('b', { ...refused, reason }, [output('a')], null),
      failedResult('b', 'b', [output('a')], new WaybillError('storage_full', `${place}: no space`)),
    ],
    orphans: [orphan, { ...orphan, action: 'error', error }],
    warnings,
    error,
  };
  const pipeline: PipelineResult = {
    pipelineId: 'maps',
    status: 'failed',
    bundles: 1,
    invalidBundles: [{ bundle: 'x', error }],
    destinations: [destination, { ...destination, error: null }],
    warnings,
    error,
  };
  const pipelines = [pipeline, { ...pipeline, error: null }];
  return { dryRun: false, force: true, pipelines, counters: countActions(pipelines), warnings };
}

t.test("a producer's result has no local paths, and is otherwise the same", async (t) => {
  t.same(publicResult(resultNaming('/srv/secret/place')), resultNaming('<path>'));
  const harmless = resultNaming('s3://bucket/prefix/');
  t.same(publicResult(harmless), harmless);
});
