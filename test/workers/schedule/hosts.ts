import type { ScheduleConfig } from '../../../src/core/config/timetable.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import type { JobQueue } from '../../../src/workers/queue/job-queue.ts';
import type { ScheduleObserver } from '../../../src/workers/schedule/schedule-observer.ts';
import {
  createScheduler,
  type Scheduler,
  type TriggeredPipeline,
} from '../../../src/workers/schedule/scheduler.ts';
import type { ManualClock } from '../manual-clock.ts';

/** The reports of all schedulers of all hosts. */
export interface Tally {
  observer: ScheduleObserver;
  /** By `outcome`, and missed ones by `missed reason`. */
  counts: Record<string, number>;
}

export function newTally(): Tally {
  const counts: Record<string, number> = {};
  const add = (what: string, count: number): void => void (counts[what] = (counts[what] ?? 0) + count);
  return {
    counts,
    observer: {
      begun: () => undefined,
      decided: ({ outcome }) => add(outcome, 1),
      missed: ({ reason, count }) => add(`missed ${reason}`, count),
      ignored: () => add('ignored', 1),
      polled: () => undefined,
    },
  };
}

/** A host's scheduler with these pipelines, with a clock that the test advances. */
export function openScheduler(
  queue: Pick<JobQueue, 'triggers'>,
  clock: ManualClock,
  pipelines: readonly TriggeredPipeline[],
  tally: Tally = newTally(),
): Scheduler {
  const scheduler = createScheduler({ clock, log: silentLog, queue, observer: tally.observer });
  scheduler.update(pipelines);
  return scheduler;
}

export function scheduled(cron: string, more: Partial<ScheduleConfig> = {}, id = 'maps'): TriggeredPipeline {
  const schedule = { cron, timezone: 'UTC', catchUp: 'none' as const, jitterMs: 0, ...more };
  return { id, source: { backend: 'local', path: '/nowhere' }, schedule, watch: null };
}

/** Polls until the value is right. The test's own timeout ends the loop. */
export async function until<T>(look: () => T | Promise<T>, right: (seen: T) => boolean): Promise<T> {
  for (;;) {
    const seen = await look();
    if (right(seen)) return seen;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
