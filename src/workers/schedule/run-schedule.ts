import { setImmediate as endOfTurn } from 'node:timers/promises';
import {
  type Due,
  type ScheduleConfig,
  scheduleId,
  type Timetable,
  timetable,
} from '../../core/config/timetable.ts';
import { isFuture, maxClockSkewMs } from '../../core/lib/clock-skew.ts';
import type { Trigger } from '../queue/job.ts';
import { newRunId } from '../queue/start-run.ts';
import type { Decision, TriggeredJob, Triggers } from '../queue/trigger.ts';
import {
  type BackgroundTask,
  type MissedReason,
  retryUntilDone,
  type ScheduleObserver,
} from './schedule-observer.ts';

interface ScheduledPipeline extends BackgroundTask {
  pipelineId: string;
  schedule: ScheduleConfig;
  triggers: Triggers;
  observer: ScheduleObserver;
}

/** If a tick has not started its run after this long, it counts as missed. */
export const graceMs = 60_000;
/** The sleep is limited because the system clock may be changed in the meantime. */
const maxSleepMs = 30_000;
/** Counting missed ticks takes time, so stop counting at this number. */
const maxCounted = 1_000;

/**
 * Starts a run at every tick of the schedule, and resolves when `signal` aborts. All hosts do this at the
 * same time, and the queue makes sure that each tick only counts once.
 *
 * A tick is on time for one minute after it is due. After that, for example because of an outage, it counts
 * as missed, and so do all ticks since the last one that was decided. With `catch_up: once`, the last missed
 * tick still starts a run. Otherwise, none of them does. A schedule that is new starts with its next tick,
 * and so does one whose last tick was decided by a host with a fast clock.
 */
export async function runSchedule(pipeline: ScheduledPipeline): Promise<void> {
  const { pipelineId, schedule, observer, signal } = pipeline;
  observer.begun({ pipelineId, kind: 'schedule' });
  const fields = { pipeline_id: pipelineId };
  const table = timetable(pipelineId, schedule);
  try {
    let decided = await retryUntilDone(pipeline, fields, () => lastDecided(pipeline, table));
    for (let next = table.following(decided); next !== null; next = table.following(decided)) {
      if (!(await sleepUntil(next.at, pipeline, decided))) {
        decided = await retryUntilDone(pipeline, fields, () => lastDecided(pipeline, table));
        continue;
      }
      // Work out which tick is due before every attempt, because a tick may become a missed one over time.
      decided = await retryUntilDone(pipeline, fields, () => decide(pipeline, table, decided));
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/**
 * Sleeps until `at`. Returns false if the clock was set back so far that the last decided tick is in the
 * future.
 */
async function sleepUntil(
  at: number,
  { clock, signal }: ScheduledPipeline,
  decided: number,
): Promise<boolean> {
  for (;;) {
    const now = clock.now().getTime();
    const leftMs = at - now;
    if (isFuture(decided, clock)) return false;
    if (leftMs <= 0) return true;
    await clock.sleep(Math.min(leftMs, maxSleepMs), signal);
  }
}

/** Returns when the last decided tick was due, in milliseconds. */
async function lastDecided(pipeline: ScheduledPipeline, table: Timetable): Promise<number> {
  const { pipelineId, schedule, clock, triggers, log, observer } = pipeline;
  const last = await triggers.last(pipelineId, 'schedule');
  const now = clock.now().getTime();
  const isAhead = last !== null && isFuture(Date.parse(last.tick), clock);
  if (!isAhead && last?.schedule === scheduleId(schedule)) return Date.parse(last.tick);
  if (isAhead) {
    log.warn(
      { pipeline_id: pipelineId, decided_tick: last.tick },
      'the last decided tick is in the future and is ignored: the clock was ahead when it was decided',
    );
    observer.ignored(pipelineId);
  }
  const tick = table.lastAtOrBefore(now) ?? now;
  await triggers.decide(jobOf(pipeline, tick), { passes: true, latest: latestTick(now) });
  return tick;
}

/** Returns the latest tick that could have been decided by a host whose clock is right (RFC 3339). */
function latestTick(now: number): string {
  return new Date(now + maxClockSkewMs).toISOString();
}

/** Decides what to do about the tick that is due. Returns the due time of the last tick that was decided. */
async function decide(pipeline: ScheduledPipeline, table: Timetable, decided: number): Promise<number> {
  const { schedule, clock, triggers } = pipeline;
  const now = clock.now().getTime();
  const due = table.due(decided, now);
  if (due === null) return decided;
  const isMissed = now - due.at > graceMs;
  const passes = isMissed && schedule.catchUp === 'none';
  const job = jobOf(pipeline, due.tick);
  const decision = await triggers.decide(job, { passes, latest: latestTick(now) });
  await report(pipeline, table, { due, decision, runId: job.runId });
  return due.tick;
}

async function report(
  pipeline: ScheduledPipeline,
  table: Timetable,
  { due, decision, runId }: { due: Due; decision: Decision; runId: string },
): Promise<void> {
  const { pipelineId, log, observer } = pipeline;
  const { outcome } = decision;
  if (outcome === 'known') return;
  const tick = new Date(due.tick).toISOString();
  const fields = { pipeline_id: pipelineId, tick };
  if (outcome === 'started' || outcome === 'coalesced')
    observer.decided({ pipelineId, kind: 'schedule', outcome });
  if (outcome === 'started') log.info({ ...fields, run_id: runId }, 'run started by its schedule');
  if (outcome === 'coalesced')
    log.info(fields, 'a run of the pipeline is already waiting or active: the tick starts no run');
  if (outcome === 'paused') miss(pipeline, 'paused', 1, tick);
  const between = await missedBetween(decision.previous, due.tick, pipeline, table);
  const missed = between + (outcome === 'passed' ? 1 : 0);
  if (missed > 0) miss(pipeline, 'down', missed, tick);
}

function miss(
  { pipelineId, log, observer }: ScheduledPipeline,
  reason: MissedReason,
  count: number,
  last: string,
): void {
  observer.missed({ pipelineId, reason, count });
  const why =
    reason === 'paused'
      ? 'a tick was missed because the pipeline is paused'
      : 'ticks were missed because no daemon was running';
  log.warn({ pipeline_id: pipelineId, missed: count, last_tick: last }, why);
}

/** Counts the ticks between the last decided one and this one, up to `maxCounted`. */
async function missedBetween(
  previous: Trigger | null,
  tick: number,
  { schedule }: ScheduledPipeline,
  table: Timetable,
): Promise<number> {
  if (previous?.kind !== 'schedule' || previous.schedule !== scheduleId(schedule)) return 0;
  let count = 0;
  for (let at = table.after(Date.parse(previous.tick)); at !== null && at < tick; at = table.after(at)) {
    count += 1;
    if (count === maxCounted) break;
    // It takes half a second to count 1,000 ticks.
    if (count % 20 === 0) await endOfTurn();
  }
  return count;
}

function jobOf({ pipelineId, schedule, clock }: ScheduledPipeline, tick: number): TriggeredJob {
  const trigger: Trigger = {
    kind: 'schedule',
    tick: new Date(tick).toISOString(),
    schedule: scheduleId(schedule),
  };
  return { runId: newRunId(pipelineId, clock.now()), pipelineId, staged: null, trigger };
}
