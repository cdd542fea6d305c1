import { createHash } from 'node:crypto';
import type { ErrorRecord } from '../../../core/lib/errors.ts';
import { publicResult, type RunResult } from '../../../core/publish/results/result.ts';
import type { RunDestination } from '../../../workers/queue/run-record.ts';
import {
  actionMark,
  destinationsPhrase,
  isVisible,
  type Mark,
  type Moment,
  momentOf,
  plural,
  sizeText,
} from '../record-text.ts';
import { type ErrorView, errorView } from './error-view.ts';
import { type ChangeLine, changeLine, forcePlan, reasonText, warningText } from './run-words.ts';

interface PlanRow {
  destinationId: string;
  /** null if the whole destination failed, not just one bundle. */
  bundle: string | null;
  path: string | null;
  /** The action, such as `update`. */
  mark: Mark;
  /** True if a run would not publish anything. */
  isUnchanged: boolean;
  reason: string | null;
  files: number;
  bytes: number;
  counts: string;
  changes: ChangeLine[];
  changesOmitted: number;
  error: ErrorView | null;
}

/** The result of a dry run. */
export interface PlanView {
  /** A one-sentence summary. */
  headline: string;
  /** The numbers of new, changed and removed files; null if no file would change. */
  changes: string | null;
  /** Whether a run would publish something. */
  hasChanges: boolean;
  isFailing: boolean;
  /** Publications that would fail. */
  failures: (ErrorView & Pick<PlanRow, 'destinationId' | 'bundle'>)[];
  /** Publications that would change something. Destinations with the same ones share an entry. */
  places: { ids: string[]; rows: PlanRow[] }[];
  /** Destinations with bundles that a run would leave unchanged. */
  unchanged: UnchangedRow[];
  unchangedReason: string | null;
  /** Whether everything is already published, so that its headline says all there is to say. */
  isSettled: boolean;
  made: Moment;
  errors: ErrorView[];
  /** `destinationId` is null if a warning is about the whole pipeline. */
  warnings: { destinationId: string | null; message: string }[];
  /** A hash of the plan, for checking later that it is still the same. */
  digest: string;
}

interface UnchangedRow {
  /** Destinations with the same bundles, files and reason share a row. */
  ids: string[];
  /** Names of some of the bundles. */
  bundles: string[];
  /** The number of bundles that are not named. */
  bundlesOmitted: number;
  /** The number of files, and their noun for narrow screens. */
  count: string;
  noun: string;
  size: string;
  reason: string | null;
}

const maxChanges = 200;
const maxBundles = 12;

interface PlanOptions {
  /** Whether the pipeline reads a source, so that a run can be repeated on the command line. */
  isOfSource?: boolean;
  /** The locations that the visitor may see, by destination id. */
  places?: ReadonlyMap<string, string>;
}

export function planView(planned: RunResult, now: Date, options: PlanOptions = {}): PlanView {
  const { isOfSource = false, places = new Map<string, string>() } = options;
  const result = publicResult(planned);
  const all = result.pipelines.flatMap(({ pipelineId, destinations }) =>
    destinations.flatMap(({ destinationId, actions }) =>
      actions.map((one): PlanRow => {
        const changes = one.changes.filter(isVisible);
        const size = one.outputs.reduce((sum, output) => sum + output.size, 0);
        return {
          destinationId,
          bundle: one.bundle,
          path: one.destinationPath,
          mark: plannedMark(actionMark(one)),
          isUnchanged: one.error === null && one.action === 'skip_same',
          reason: plannedReason({ ...one, changes }),
          ...{ files: one.outputs.length, bytes: size },
          counts: `${plural(one.outputs.length, 'file')}, ${sizeText(size)}`,
          changes: changes.slice(0, maxChanges).map(changeLine),
          changesOmitted: Math.max(0, changes.length - maxChanges),
          error:
            one.error === null
              ? null
              : plannedError(one.error, {
                  destinationId,
                  place: places.get(destinationId) ?? null,
                  command: isOfSource ? forcePlan(pipelineId, destinationId, one.error.hint) : null,
                }),
        };
      }),
    ),
  );
  const errors = result.pipelines.flatMap(({ error, invalidBundles }) => [
    ...(error === null ? [] : [error]),
    ...invalidBundles.map((one) => one.error),
  ]);
  const failed = all.filter(({ error }) => error !== null);
  const changed = all.filter(({ error, isUnchanged }) => error === null && !isUnchanged);
  const unchanged = all.filter(({ isUnchanged }) => isUnchanged);
  const changedPlaces = byDestination(changed);
  const isSettled = failed.length + errors.length + changed.length === 0 && unchanged.length > 0;
  const unchangedReason = reasonOfAll(unchanged);
  return {
    headline:
      isSettled && unchangedReason !== null
        ? `Nothing would change: ${unchangedReason.charAt(0).toLowerCase()}${unchangedReason.slice(1)}`
        : headlineOf(failed.length + errors.length, changedPlaces),
    changes: changesText(counted(changedPlaces)),
    hasChanges: changed.length > 0,
    isFailing: failed.length + errors.length > 0,
    failures: failed.flatMap(({ error, destinationId, bundle }) =>
      error === null ? [] : { ...error, destinationId, bundle },
    ),
    places: changedPlaces,
    ...{ unchanged: unchangedRows(unchanged), unchangedReason, isSettled },
    made: momentOf(now.toISOString()),
    errors: errors.map((one) => errorView(one)),
    warnings: warningsOf(result),
    digest: digestOfPlan(planned),
  };
}

function warningsOf({ pipelines }: RunResult): PlanView['warnings'] {
  return pipelines.flatMap(({ warnings, destinations }) =>
    [{ destinationId: null, warnings }, ...destinations].flatMap(({ destinationId, warnings: found }) =>
      found.map(({ message }) => ({ destinationId, message: warningText(message) })),
    ),
  );
}

/**
 * Groups the publications that change nothing by destination and reason, and then the destinations that have
 * the same ones.
 */
function unchangedRows(rows: readonly PlanRow[]): UnchangedRow[] {
  const groups = groupedBy(rows, ({ destinationId, reason }) => [destinationId, reason]);
  const places = groupedBy(groups, (here) => here.map((row) => ({ ...row, destinationId: null })));
  return places.map((same) => {
    const [here = []] = same;
    const { reason = null } = here[0] ?? {};
    const sum = (valueOf: (row: PlanRow) => number): number =>
      here.reduce((total, row) => total + valueOf(row), 0);
    const count = sum(({ files }) => files);
    return {
      ids: same.flatMap(([row]) => row?.destinationId ?? []),
      reason,
      bundles: here.slice(0, maxBundles).map(({ bundle }) => bundle ?? '–'),
      bundlesOmitted: Math.max(0, here.length - maxBundles),
      count: count.toLocaleString('en-GB'),
      noun: count === 1 ? 'file' : 'files',
      size: sizeText(sum(({ bytes }) => bytes)),
    };
  });
}

/** Returns the items in groups with the same key, in their order. */
function groupedBy<T>(items: readonly T[], keyOf: (item: T) => unknown): T[][] {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const key = JSON.stringify(keyOf(item));
    groups.set(key, [...(groups.get(key) ?? []), item]);
  }
  return [...groups.values()];
}

/** Returns the reason that the publications have in common; null if they have several. */
function reasonOfAll(rows: readonly PlanRow[]): string | null {
  const reasons = new Set(rows.map(({ reason }) => reason));
  const [only = null] = reasons;
  return reasons.size === 1 ? only : null;
}

/** If all destinations get the same changes, counts those of one. */
function counted(places: PlanView['places']): PlanRow[] {
  const [only, ...others] = places;
  if (only !== undefined && others.length === 0) return only.rows;
  return places.flatMap(({ ids, rows }) => ids.flatMap(() => rows));
}

function headlineOf(failed: number, places: PlanView['places']): string {
  const [first, ...others] = places;
  const isEach = others.length === 0 && (first?.ids.length ?? 0) > 1;
  const names = destinationsPhrase(places.flatMap(({ ids }) => ids));
  const files = counted(places).reduce(
    (sum, { changes, changesOmitted }) => sum + changes.length + changesOmitted,
    0,
  );
  const what = files === 0 ? 'no file, but its records,' : plural(files, 'file');
  const changes = `A run would change ${what} at ${isEach ? 'each of ' : ''}${names}`;
  const failures = `${plural(failed, 'publication')} would fail`;
  if (first === undefined) return failed === 0 ? 'Nothing would change' : `Nothing would change: ${failures}`;
  return failed === 0 ? changes : `${failures}. ${changes}`;
}

function changesText(changed: readonly PlanRow[]): string | null {
  const all = changed.flatMap(({ changes }) => changes);
  const omitted = changed.reduce((sum, { changesOmitted }) => sum + changesOmitted, 0);
  const words = [...new Set(all.map(({ word }) => word))].map(
    (word) => `${all.filter((one) => one.word === word).length.toLocaleString('en-GB')} ${word}`,
  );
  const parts = [...words, ...(omitted === 0 ? [] : [`${omitted.toLocaleString('en-GB')} not listed`])];
  return parts.length === 0 ? null : parts.join(', ');
}

const plannedLabels: Readonly<Record<string, string>> = {
  ...{ published: 'publish', updated: 'update', replaced: 'replace', forced: 'force', failed: 'fail' },
};

/** Shows an error without the note that nothing was changed, which is true of every plan. */
function plannedError(error: ErrorRecord, about: Parameters<typeof errorView>[1]): ErrorView {
  return errorView({ ...error, message: error.message.replace(/; nothing was changed$/, '') }, about);
}

/** Names an action that has not happened yet. */
function plannedMark(mark: Mark): Mark {
  return { ...mark, label: plannedLabels[mark.label] ?? mark.label };
}

/** The listed changes are reason enough. */
function plannedReason({ reason, changes }: Pick<RunDestination, 'reason' | 'changes'>): string | null {
  return reason?.code === 'outputs_differ' && changes.length > 0
    ? null
    : reasonText({ reason, changes, changes_omitted: 0 });
}

function byDestination(rows: readonly PlanRow[]): PlanView['places'] {
  const groups = groupedBy(rows, ({ destinationId }) => destinationId);
  const places = groupedBy(groups, (here) => here.map((row) => ({ ...row, destinationId: null })));
  return places.map((same) => ({
    ids: same.flatMap(([row]) => row?.destinationId ?? []),
    rows: same[0] ?? [],
  }));
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
