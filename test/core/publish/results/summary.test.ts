import t from 'tap';
import { WaybillError } from '../../../../src/core/lib/errors.ts';
import { failedResult, plannedResult } from '../../../../src/core/publish/results/action-result.ts';
import {
  allSucceeded,
  countActions,
  type DestinationResult,
  type PipelineResult,
} from '../../../../src/core/publish/results/result.ts';
import { planOf } from '../../../support/decisions.ts';

const done = (action: Parameters<typeof planOf>[0]): DestinationResult['actions'][number] =>
  plannedResult('b', planOf(action), [], null);
const destination = (
  status: DestinationResult['status'],
  actions: DestinationResult['actions'],
): DestinationResult => ({
  ...{ destinationId: 'web', location: '', status, actions, orphans: [], warnings: [], error: null },
});
const pipeline = (
  status: PipelineResult['status'],
  destinations: DestinationResult[] = [],
): PipelineResult => ({
  ...{ pipelineId: 'maps', status, bundles: 1, invalidBundles: [], destinations, warnings: [], error: null },
});

t.test('actions are counted over all destinations, and errors as failed destinations', async (t) => {
  const error = failedResult('b', 'b', [], new WaybillError('storage_full', 'no'));
  const pipelines = [
    pipeline('ok', [destination('ok', [done('publish_new'), done('skip_same')])]),
    pipeline('failed', [
      destination('ok', [done('publish_new')]),
      destination('failed', [done('fail_conflict'), error]),
    ]),
  ];
  t.same(countActions(pipelines), {
    publish_new: 2,
    upsert_additive: 0,
    replace_catalog: 0,
    skip_same: 1,
    force_replace: 0,
    fail_unmanaged: 0,
    fail_conflict: 1,
    failed_destinations: 1,
  });
});

t.test('a result has succeeded unless a destination failed', async (t) => {
  t.equal(allSucceeded([]), true);
  t.equal(allSucceeded([pipeline('ok'), pipeline('skipped')]), true);
  t.equal(allSucceeded([pipeline('ok'), pipeline('failed')]), false);
  t.equal(allSucceeded([pipeline('failed'), pipeline('failed')]), false);
});
