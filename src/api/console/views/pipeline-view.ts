import type { RunDestination, RunRecord } from '../../../workers/queue/run-record.ts';
import type { PipelineState } from '../../pipelines/pipelines-route.ts';
import {
  ageText,
  destinationMark,
  durationOf,
  durationText,
  type Mark,
  type Moment,
  momentOf,
  outcomeMark,
  plural,
  shortMoment,
  sizeText,
  statusMark,
  unpublishedMark,
} from '../record-text.ts';
import { endsAt, placementOf } from './destination-view.ts';
import { errorView, failureOf } from './error-view.ts';
import {
  overviewView,
  type PipelineCard,
  type RunBars,
  runBars,
  type StatusSummary,
  statusSummaryOf,
} from './overview-view.ts';
import { type RunGrid, runGrid } from './run-destinations.ts';
import { runName, type Starter, starterOf } from './run-words.ts';

interface PipelineView extends PipelineCard {
  statusSummary: StatusSummary | null;
  /** The run that the summary is about, if it failed. */
  failed: FailedRun | null;
  schedule: string | null;
  watch: boolean;
  hasSource: boolean;
  unpublishedMark: Mark;
  places: DestinationCard[];
  /** null below a few runs, because the list of runs says the same. */
  grid: RunGrid | null;
  bars: RunBars;
  runs: OrderedRuns[];
  /** The only waiting run; null if there is none or another number of them. */
  waitingRun: string | null;
  pausedSince: (Moment & { short: string; age: string }) | null;
}

interface FailedRun {
  starter: Starter;
  ended: Moment & { age: string };
  hint: string | null;
  /** The destination whose page has the steps; null if the run failed before it reached one. */
  destinationId: string | null;
  /** How many runs in a row failed, this one included, and when the first of them did. */
  failures: number;
  since: { iso: string; short: string };
}

interface DestinationCard {
  id: string;
  /** The kind of storage, such as `Local directory`. */
  storage: string;
  /** Where it is; null if the visitor may not see it. */
  place: string | null;
  /** Describes how it stores files. */
  how: string;
  url: string | null;
  hasReleases: boolean;
  /** Its state after the newest run that reached it, and the end of that run. */
  last: (Mark & { at: Moment & { age: string } }) | null;
  /** The newest bundle at each bundle path, newest first, without those for channels. */
  published: Published[];
  publishedOmitted: number;
}

interface Published {
  /** The bundle, or the release if the bundle has no name. */
  name: string;
  path: string;
  /** The number of files in the bundle, such as `2 files`. */
  count: string;
  /** The content of the bundle, such as `2 files, 4 KiB`. Files of earlier bundles may be published too. */
  files: string;
  /** null if all runs in the list found it unchanged. */
  at: (Moment & { age: string }) | null;
}

/** Enough runs to fill a wide window. */
export const gridRuns = 40;
/** With fewer columns, there is no space for the times of the newest and the oldest run. */
const minGridRuns = 12;
const listedRuns = 8;
const maxPublished = 3;

/** Builds the view of a pipeline from its newest runs, which must be sorted newest first. */
export function pipelineView(
  state: PipelineState,
  runs: readonly RunRecord[],
  now: Date,
  places: ReadonlyMap<string, string> = new Map(),
): PipelineView {
  const [card] = overviewView([{ state, runs }], now) as [PipelineCard];
  const ids = state.destinations.map(({ destination_id: id }) => id);
  const { schedule } = state;
  const statusSummary = statusSummaryOf(state);
  const waits = new Set(runs.flatMap((run) => (run.status === 'queued' ? run.run_id : [])));
  const newest = runs.findIndex(({ run_id: id }) => id === statusSummary?.runId);
  return {
    ...card,
    statusSummary,
    failed: newest === -1 ? null : failedRun(runs.slice(newest), now),
    schedule: schedule === null ? null : `${schedule.cron} (${schedule.timezone})`,
    watch: state.watch,
    unpublishedMark,
    hasSource: state.source.backend !== 'http_upload',
    places: state.destinations.map((one) => ({
      ...publishedAt(runs, one.destination_id, now),
      id: one.destination_id,
      storage: placementOf(one).storage,
      place: places.get(one.destination_id) ?? null,
      how: publishingMode(one),
      url: one.public_base_url,
      hasReleases: one.layout === 'releases',
      last: lastOf(runs, one.destination_id, now),
    })),
    grid: runs.length < minGridRuns ? null : runGrid(runs.slice(0, gridRuns), ids, now),
    bars: runBars(runs, now),
    runs: runLines(runs.slice(0, listedRuns), now).map((line) =>
      state.paused !== null && waits.has(line.id) ? { ...line, note: 'Until the pipeline is resumed' } : line,
    ),
    waitingRun: waits.size === 1 && state.waiting === 1 ? ([...waits][0] ?? null) : null,
    pausedSince:
      state.paused === null
        ? null
        : {
            ...momentOf(state.paused.since),
            short: `${shortMoment(state.paused.since)} UTC`,
            age: ageText(state.paused.since, now),
          },
  };
}

/** @param runs The newest failed run and those before it, newest first. */
function failedRun(runs: readonly RunRecord[], now: Date): FailedRun | null {
  const [run] = runs;
  if (run === undefined) return null;
  const place = run.destinations.find((one) => one.error !== null);
  const error = run.error ?? place?.error ?? null;
  const success = runs.findIndex(({ status }) => status !== 'failed');
  const failed = success === -1 ? runs : runs.slice(0, success);
  const since = endOf(failed.at(-1) ?? run);
  return {
    starter: starterOf(run),
    ended: { ...momentOf(endOf(run)), age: ageText(endOf(run), now) },
    hint: error === null ? null : errorView(error).hint,
    destinationId: run.error === null ? (place?.destination_id ?? null) : null,
    failures: failed.length,
    since: { iso: since, short: `${shortMoment(since)} UTC` },
  };
}

function endOf({ finished_at: end, accepted_at: accepted }: RunRecord): string {
  return end ?? accepted;
}

function publishingMode(destination: PipelineState['destinations'][number]): string {
  const { mapping, workflow } = destination;
  const { rate } = placementOf(destination);
  const bundles = mapping === 'fixed' ? 'Holds the newest bundle.' : 'Each bundle has its own path.';
  const omitted = `${workflow === 'additive' ? 'Keeps' : 'Removes'} files that a new version drops.`;
  return `${bundles} ${omitted}${rate === null ? '' : ` Transfers: ${rate}.`}`;
}

function lastOf(runs: readonly RunRecord[], id: string, now: Date): DestinationCard['last'] {
  const forAll = runs.filter(({ channel }) => channel === null);
  const [newest] = endsAt(forAll, id);
  if (newest === undefined) return null;
  const { error, ended } = newest;
  return { ...destinationMark(error), at: { ...momentOf(ended), age: ageText(ended, now) } };
}

/** Returns the newest bundle at each bundle path of a destination, as far as the runs say. */
export function publishedAt(
  runs: readonly RunRecord[],
  id: string,
  now: Date,
): Pick<DestinationCard, 'published' | 'publishedOmitted'> {
  const byPath = new Map<string, Published>();
  for (const run of runs.filter(({ channel }) => channel === null))
    for (const one of run.destinations) {
      const { destination_path: path, error } = one;
      if (one.destination_id !== id || error !== null || path === null) continue;
      const found = byPath.get(path) ?? publishedIn(run, one, path);
      if (found.at === null && one.action !== 'skip_same') {
        const at = one.finished_at ?? run.finished_at ?? run.accepted_at;
        found.at = { ...momentOf(at), age: ageText(at, now) };
      }
      byPath.set(path, found);
    }
  const published = [...byPath.values()].slice(0, maxPublished);
  return { published, publishedOmitted: byPath.size - published.length };
}

function publishedIn(run: RunRecord, one: RunDestination, path: string): Published {
  const files = one.outputs_written + one.outputs_linked + one.outputs_kept;
  const named = run.bundle_path === '.' ? null : run.bundle_path;
  const bytes = one.bytes_written + one.bytes_linked + one.bytes_kept;
  return {
    name: path === '.' ? (named ?? one.release ?? 'at the root') : path,
    path,
    count: plural(files, 'file'),
    files: `${plural(files, 'file')}, ${sizeText(bytes)}`,
    at: null,
  };
}

interface OrderedRuns {
  id: string;
  pipelineId: string;
  /** The name of the bundle, or the time of the run if it has no bundle with a name. */
  name: string;
  /** The message and commit that the producer sent along; null if it sent neither. */
  note: string | null;
  /** The results with their destinations, such as `web, site: updated`; null while there is none. */
  results: string | null;
  status: Mark;
  starter: Starter;
  isOver: boolean;
  /** Whether the run failed and its bundle is still stored, which makes it repeatable. */
  isFailedAndRerunnable: boolean;
  channel: string | null;
  accepted: Moment & { age: string; short: string };
  duration: string | null;
  error: ReturnType<typeof failureOf>;
}

export function runLines(runs: readonly RunRecord[], now: Date): OrderedRuns[] {
  return runs.map((run) => {
    const duration = durationOf(run, now);
    return {
      id: run.run_id,
      pipelineId: run.pipeline_id,
      name: runName(run),
      note: noteOf(run),
      results: resultsOf(run),
      status: statusMark(run),
      starter: starterOf(run),
      isOver: run.finished_at !== null,
      isFailedAndRerunnable: run.rerunnable && run.status === 'failed',
      channel: run.channel,
      accepted: {
        ...momentOf(run.accepted_at),
        age: ageText(run.accepted_at, now),
        short: shortMoment(run.accepted_at),
      },
      duration: duration === null ? null : durationText(duration),
      error: failureOf(run),
    };
  });
}

const shortCommitChars = 10;

function noteOf({ revision }: RunRecord): string | null {
  const commit = revision?.commit?.slice(0, shortCommitChars) ?? null;
  const parts = [revision?.message ?? null, commit].filter((part) => part !== null);
  return parts.length === 0 ? null : parts.join(' · ');
}

const maxResults = 3;

function resultsOf({ destinations }: RunRecord): string | null {
  const byLabel = new Map<string, Set<string>>();
  for (const one of destinations) {
    const { label } = outcomeMark(one);
    byLabel.set(label, (byLabel.get(label) ?? new Set()).add(one.destination_id));
  }
  const results = [...byLabel].map(([label, ids]) => `${namesText([...ids])}: ${label}`);
  return results.length === 0 ? null : results.join(' · ');
}

function namesText(names: readonly string[]): string {
  const [shown, omitted] = [names.slice(0, maxResults), names.length - maxResults];
  return `${shown.join(', ')}${omitted > 0 ? ` and ${omitted} more` : ''}`;
}
