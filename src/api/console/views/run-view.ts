import type { Revision } from '../../../core/bundle/source-bundle.ts';
import type { PublishedBy } from '../../../core/publishers/published-by.ts';
import type { RunLogLine } from '../../../workers/coordinator/run-logs.ts';
import type { RunRecord, RunWarning } from '../../../workers/queue/run-record.ts';
import {
  ageText,
  changesFiles,
  destinationsText,
  durationOf,
  durationText,
  type Mark,
  type Moment,
  momentOf,
  momentOrNull,
  plural,
  sizeText,
  statusMark,
  type Tone,
} from '../record-text.ts';
import { type ErrorView, errorView } from './error-view.ts';
import { type ChangeGroup, changesOf, type DestinationRow, partOf, rowsOf } from './run-destinations.ts';
import { type RunEvent, runEvents } from './run-timeline.ts';
import {
  bundleOf,
  deliveryText,
  eventName,
  failureText,
  forceCommand,
  rerunHelps,
  runName,
  type Starter,
  starterOf,
  warningText,
} from './run-words.ts';

interface RunView {
  id: string;
  /** The same as in lists. */
  name: string;
  /** The destinations or the channel, such as `web, site`. */
  target: string;
  /** The last part of the id. */
  short: string;
  status: Mark;
  isOver: boolean;
  bundle: string | null;
  starter: Starter;
  channel: string | null;
  revision: Revision | null;
  /** The trusted publisher that uploaded the bundle; null if it was uploaded with an ordinary token. */
  publishedBy: PublishedBy | null;
  rerunOf: string | null;
  traceId: string | null;
  accepted: Moment & { age: string };
  progress: RunProgressView | null;
  /** null unless the run has finished without an error. */
  outcome: RunOutcome | null;
  history: RunEvent[];
  /** Whether repeating the failed run without changes could succeed. */
  rerunHelps: boolean;
  /** null unless the run is waiting to be retried. */
  retry: { attempt: number; next: Moment; until: Moment | null; cause: ErrorView } | null;
  /** The errors of the run and its destinations. */
  errors: (ErrorView & { destinationId: string | null })[];
  destinations: DestinationRow[];
  changes: ChangeGroup[];
  warnings: RunWarning[];
  deliveries: { notifierId: string; word: string; tone: Tone; event: string; reason: string | null }[];
  deliveriesOmitted: number;
}

interface RunOutcome {
  heading: string;
  /** The files at all destinations, and the wait if it was long; null if there are none. */
  details: string | null;
}

interface RunProgressView {
  stage: string;
  done: number;
  total: number;
  text: string;
  /**
   * The speed and the remaining time, such as `1.2 MiB/s, about 4 s left`. null until something has been
   * written.
   */
  pace: string | null;
}

const stages = { preparing: 'Preparing', writing: 'Writing', committing: 'Committing' };

interface Sources {
  /** The log of the run. */
  lines?: readonly RunLogLine[];
  /** Where the destinations are, if the visitor may see it. */
  places?: ReadonlyMap<string, string>;
}

/**
 * Builds the view of a run. Every configured destination gets a row right away, so the page does not jump
 * when results come in.
 */
export function runView(
  run: RunRecord,
  destinationIds: readonly string[],
  now: Date,
  { lines = [], places = new Map() }: Sources = {},
): RunView {
  return {
    id: run.run_id,
    short: run.run_id.slice(run.run_id.lastIndexOf('.') + 1),
    ...{ name: runName(run), target: targetOf(run, destinationIds) },
    status: statusMark(run),
    isOver: run.finished_at !== null,
    bundle: bundleOf(run),
    starter: starterOf(run),
    channel: run.channel,
    revision: run.revision ?? null,
    publishedBy: run.published_by ?? null,
    rerunOf: run.rerun_of,
    traceId: run.trace_id,
    accepted: { ...momentOf(run.accepted_at), age: ageText(run.accepted_at, now) },
    progress: progressOf(run, now),
    outcome: outcomeOf(run, now),
    history: runEvents(run, now, lines),
    rerunHelps: rerunHelps(run),
    retry: retryOf(run),
    errors: errorsIn(run, places),
    destinations: rowsOf(run, destinationIds, now),
    changes: changesOf(run),
    warnings: warningsOf(run),
    deliveries: run.failed_deliveries.map((one) => ({
      ...deliveryText(one),
      ...{ notifierId: one.notifier_id, event: eventName(one.event_type) },
      reason: one.last_error === null ? null : failureText(one.last_error),
    })),
    deliveriesOmitted: run.failed_deliveries_omitted,
  };
}

/**
 * Returns the warnings without the selection of the bundle that was uploaded, because an upload has only one.
 */
function warningsOf({ warnings, triggered_by: by }: RunRecord): RunWarning[] {
  return warnings
    .filter(({ code }) => by.kind !== 'upload' || code !== 'fixed_bundle_selected')
    .map((one) => ({
      ...one,
      message: warningText(one.message),
    }));
}

function targetOf({ channel }: RunRecord, destinationIds: readonly string[]): string {
  return channel === null ? destinationsText(destinationIds) : `channel ${channel}`;
}

function retryOf({
  attempt,
  next_try_at: next,
  retry_until: until,
  last_error: error,
}: RunRecord): RunView['retry'] {
  if (next === null || error === null) return null;
  return { attempt, next: momentOf(next), until: momentOrNull(until), cause: errorView(error) };
}

function errorsIn(run: RunRecord, places: ReadonlyMap<string, string>): RunView['errors'] {
  const { error, destinations } = run;
  const own = error === null ? [] : [{ ...errorView(error), destinationId: null }];
  const others = destinations.flatMap(({ destination_id: destinationId, error: one }) =>
    one === null
      ? []
      : [
          {
            ...errorView(one, {
              ...{ destinationId, place: places.get(destinationId) ?? null },
              command: forceCommand(run, destinationId, one.hint),
            }),
            destinationId,
          },
        ],
  );
  return [...own, ...others];
}

function progressOf({ progress, started_at: start }: RunRecord, now: Date): RunProgressView | null {
  if (progress === null) return null;
  const { stage, outputs_done, outputs_total, bytes_done, bytes_total } = progress;
  return {
    stage: stages[stage],
    ...partOf(progress),
    text:
      outputs_total === 0
        ? 'Comparing the bundle with the destinations'
        : `${outputs_done} of ${plural(outputs_total, 'file')}, ${sizeText(bytes_done)} of ${sizeText(bytes_total)}`,
    pace: start === null ? null : paceText(bytes_done, bytes_total, now.getTime() - Date.parse(start)),
  };
}

/** The wait of a run that is worth mentioning. */
const minWaitMs = 1000;

function outcomeOf(run: RunRecord, now: Date): RunOutcome | null {
  const ms = durationOf(run, now);
  if (run.status !== 'succeeded' || ms === null) return null;
  const waitMs = Date.parse(run.started_at ?? run.accepted_at) - Date.parse(run.accepted_at);
  const took = durationText(ms);
  const wait = waitMs < minWaitMs ? null : `waited ${durationText(waitMs)}`;
  const details = [filesOf(run), wait].filter((one) => one !== null);
  return {
    heading: run.destinations.some(changesFiles)
      ? `Published in ${took}`
      : `Checked in ${took}: no file changed`,
    details: details.length === 0 ? null : details.join(', '),
  };
}

function filesOf({ destinations }: RunRecord): string | null {
  const sum = (key: 'outputs_written' | 'outputs_linked' | 'outputs_kept' | 'outputs_removed'): number =>
    destinations.reduce((total, one) => total + one[key], 0);
  const bytes = destinations.reduce((total, one) => total + one.bytes_written, 0);
  const parts: [number, string][] = [
    [sum('outputs_written'), `written (${sizeText(bytes)})`],
    [sum('outputs_linked') + sum('outputs_kept'), 'unchanged'],
    [sum('outputs_removed'), 'removed'],
  ];
  const known = parts.filter(([count]) => count > 0);
  if (known.length === 0) return null;
  return known
    .map(([count, word], index) => `${index === 0 ? plural(count, 'file') : count} ${word}`)
    .join(', ');
}

/** Formats the average speed since the start, and the time remaining at that speed. */
function paceText(done: number, total: number, ms: number): string | null {
  if (done === 0 || ms <= 0) return null;
  const rate = (done / ms) * 1000;
  const left = Math.max(0, total - done);
  const time = left === 0 ? '' : `, about ${durationText(1000 * Math.max(1, Math.ceil(left / rate)))} left`;
  return `${sizeText(Math.round(rate))}/s${time}`;
}
