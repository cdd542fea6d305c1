import { createHash } from 'node:crypto';
import { publicResult, type RunResult } from '../../../core/publish/results/result.ts';
import { actionMark, type Mark, plural, sizeText } from '../record-text.ts';
import { type ErrorView, errorView } from './run-view.ts';

interface PlanRow {
  destinationId: string;
  /** null if the whole destination failed, not just one bundle. */
  bundle: string | null;
  path: string | null;
  mark: Mark;
  /** True if a run would not publish anything. */
  isUnchanged: boolean;
  reason: string | null;
  counts: string;
  changes: { path: string; fate: string; why: string }[];
  changesOmitted: number;
  error: ErrorView | null;
}

/** The result of a dry run. */
export interface PlanView {
  /** A one-sentence summary. */
  headline: string;
  /** Publications that would change something or fail. Failures are listed first. */
  rows: PlanRow[];
  /** Publications that would leave their destination unchanged. */
  unchanged: PlanRow[];
  errors: ErrorView[];
  warnings: string[];
  /** A hash of the plan, for checking later that it is still the same. */
  digest: string;
}

const maxChanges = 200;

export function planView(planned: RunResult): PlanView {
  const result = publicResult(planned);
  const all = result.pipelines.flatMap(({ destinations }) =>
    destinations.flatMap(({ destinationId, actions }) =>
      actions.map((one): PlanRow => {
        const changes = one.changes.filter(({ fate }) => fate !== 'keep');
        const size = one.outputs.reduce((sum, output) => sum + output.size, 0);
        return {
          destinationId,
          bundle: one.bundle,
          path: one.destinationPath,
          mark: actionMark(one),
          isUnchanged: one.error === null && one.action === 'skip_same',
          reason: one.reason?.message ?? null,
          counts: `${plural(one.outputs.length, 'output')}, ${sizeText(size)}`,
          changes: changes.slice(0, maxChanges),
          changesOmitted: Math.max(0, changes.length - maxChanges),
          error: one.error === null ? null : errorView(one.error),
        };
      }),
    ),
  );
  const errors = result.pipelines.flatMap(({ error, invalidBundles }) => [
    ...(error === null ? [] : [error]),
    ...invalidBundles.map((one) => one.error),
  ]);
  const warnings = result.pipelines.flatMap((one) => [
    ...one.warnings,
    ...one.destinations.flatMap((destination) => destination.warnings),
  ]);
  const failed = all.filter(({ error }) => error !== null);
  const changed = all.filter(({ error, isUnchanged }) => error === null && !isUnchanged);
  return {
    headline: headlineOf(failed.length + errors.length, changed),
    rows: [...failed, ...changed],
    unchanged: all.filter(({ isUnchanged }) => isUnchanged),
    errors: errors.map(errorView),
    warnings: warnings.map(({ message }) => message),
    digest: digestOfPlan(planned),
  };
}

function headlineOf(failed: number, changed: readonly PlanRow[]): string {
  const files = changed.reduce((sum, row) => sum + row.changes.length + row.changesOmitted, 0);
  const changes =
    changed.length === 0
      ? 'Nothing would change.'
      : `${plural(changed.length, 'publication')} would change, with ${plural(files, 'changed file')}.`;
  return failed === 0 ? changes : `${plural(failed, 'publication')} would fail. ${changes}`;
}

/** Hashes what the plan would do. Plans with the same actions on the same content get the same digest. */
function digestOfPlan({ pipelines }: RunResult): string {
  const decided = pipelines.flatMap(({ destinations, error }) => [
    error?.code ?? null,
    ...destinations.flatMap(({ destinationId, actions }) =>
      actions.map((one) => [
        destinationId,
        one.bundle,
        one.action,
        one.changes,
        one.outputs.map(({ digest }) => digest),
      ]),
    ),
  ]);
  return createHash('sha256').update(JSON.stringify(decided)).digest('base64url');
}
